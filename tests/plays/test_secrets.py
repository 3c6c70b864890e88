"""${secret.NAME} is in no output and in no command line."""

import subprocess
import time
from pathlib import Path

import pytest

from ipexctl.base.secret_mask import MASK, mask_secrets
from tests.plays.play_here import argv, environment, run

SECRET = "hunter2 'q' \\ \"z\" $(id)"
PEM = "-----BEGIN KEY-----\nMIIBOwIBAAJBAK\nqrstuvwxyz0123\n-----END KEY-----\n"
PARTS = ("hunter2", "MIIBOwIBAAJBAK", "qrstuvwxyz0123")

PRINTS = """\
vars: {copied: 'x${secret.S}x'}
steps:
  - sh: printf '%s\\n' ${secret.S} "${secret.PEM}" ${copied} >&2; set -x; true ${secret.S}
  - file: {path: ~/own, content: "a\\n${secret.S}\\n${secret.PEM}"}
  - line: {path: ~/own, line: 'b ${secret.S}'}
  - sh: {cmd: 'yes ${secret.S} | head -c 9000; exit 3', unless: 'false ${secret.S}'}
    ignore_errors: true
  - sh: {cmd: 'true', creates: '/nothing/${secret.S}'}
  - file: {path: '/nothing/${secret.S}/x', content: ''}
"""
WRONG = {
    "a mode": "file: {path: /x, mode: '${secret.S}'}",
    "a state": "file: {path: /x, state: '${secret.S}'}",
    "a path": "file: {path: '${secret.S}'}",
    "a flag": "line: {path: /x, line: a, create: '${secret.S}'}",
    "a duration": "sh: {cmd: id, timeout: '${secret.S}'}",
    "a pattern": "line: {path: /x, line: a, regexp: '(${secret.S}'}",
    "a source": "copy: {src: '${secret.S}', dest: /x}",
    "a comparison": "{sh: id, when: {x: {min: 1}}}",
}


def _shows_none(text: str) -> bool:
    return not any(part in text for part in PARTS)


@pytest.mark.parametrize("words", [(), ("--diff",), ("--json", "--diff"), ("--check", "--diff")])
def test_no_output_has_a_secret(words: tuple[str, ...], tmp_path: Path) -> None:
    done = run(tmp_path, PRINTS, *words, S=SECRET, PEM=PEM)
    assert done.returncode == (10 if "--check" in words else 1), done.stderr
    assert _shows_none(done.stdout + done.stderr)
    assert MASK in done.stdout
    for path in (tmp_path / "state").rglob("*"):
        assert not path.is_file() or _shows_none(path.read_text())
    if "--check" not in words:
        assert SECRET in (tmp_path / "own").read_text()


@pytest.mark.parametrize("wrong", WRONG)
def test_no_error_has_a_secret(wrong: str, tmp_path: Path) -> None:
    text = f"vars: {{x: '${{secret.S}}'}}\nsteps:\n  - {WRONG[wrong]}\n"
    done = run(tmp_path, text, S=SECRET)
    assert done.returncode in (1, 2), done.stdout + done.stderr
    assert _shows_none(done.stdout + done.stderr)
    assert MASK in done.stdout + done.stderr


def test_no_command_line_has_a_secret(tmp_path: Path) -> None:
    go = tmp_path / "go"
    (tmp_path / "play.yaml").write_text(
        "steps:\n"
        f"  - sh: {{cmd: 'x=${{secret.S}}; touch {go}; sleep 2; cat', stdin: '${{secret.S}}', "
        "env: {A: '${secret.S}'}}\n"
        f"  - file: {{path: {tmp_path}/x, content: '${{secret.S}}'}}\n"
    )
    process = subprocess.Popen(
        argv("play.yaml"), cwd=tmp_path, env=environment(tmp_path, S=SECRET),
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    while not go.exists() and process.poll() is None:
        time.sleep(0.01)
    while process.poll() is None:
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                assert b"hunter2" not in (entry / "cmdline").read_bytes()
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
        time.sleep(0.1)
    assert process.returncode == 0
    assert (tmp_path / "x").read_text() == SECRET


def test_what_was_cut_shows_no_part_of_a_secret() -> None:
    secret = "correct-horse-battery"
    text = "x" * 2000
    assert mask_secrets(text + secret[:9], [secret]) == text + MASK
    assert mask_secrets(secret[9:] + text, [secret]) == MASK + text
    assert mask_secrets(f"{secret[9:]} restofaline", [secret]) == f"{MASK} restofaline"
    assert mask_secrets(f"a {secret}\n", [secret]) == f"a {MASK}\n"


@pytest.mark.parametrize(
    "shown", ["it's", "it'\\''s", "it'\"'\"'s", "  it's \n", repr("it's\t\\")[1:-1]]
)
def test_other_ways_to_write_a_secret_are_masked(shown: str) -> None:
    secret = "it's\t\\" if "\\t" in shown else " it's\n"
    assert mask_secrets(f"<{shown}>", [secret]).strip("<> \n") == MASK


def test_a_secret_within_another_one_shows_nothing_of_the_longer() -> None:
    assert mask_secrets("abcdefgh", ["cde", "abcdefgh"]) == MASK
    assert mask_secrets("abc", ["", "x"]) == "abc"
