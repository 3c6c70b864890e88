"""Lines that are folded to a terminal's width: between words, and never in what one would copy."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from contextlib import suppress
from pathlib import Path

import pytest

from ipexctl.base.wrapping import wrap_text
from ipexctl.explain.known_failures import known_failures

ROOT = Path(__file__).parents[1]
INIT = "ipexctl init -F /home/ann/labs/lab/ssh_config node1 node2"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("short", ["short"]),
        ("", [""]),
        ("one two three four five six", ["one two three four", "  five six"]),
        (f"write this: {INIT}, then go on", ["write this:", f"  {INIT},", "  then go on"]),
        (f"{INIT}   # writes it", [INIT, "  # writes it"]),
        ("ssh node01 uptime   # once", ["ssh node01 uptime", "  # once"]),
        ("ssh node01 up   # `a b c d e f g h`", ["ssh node01 up", "  # `a b c d e f g h`"]),
        (
            "it says that `ssh node01 true` works",
            ["it says that", "  `ssh node01 true`", "  works"],
        ),
        ("the file is not there, add -F cfg", ["the file is not", "  there, add -F cfg"]),
        ("no space in the last file of it", ["no space in the last", "  file of it"]),
        ("ls the script's, then all of it", ["ls the script's,", "  then all of it"]),
        ("  ls a b c d e f g h", ["  ls a b c d e f g h"]),
        (
            "try: printf 'a, b' >> f && ssh x   # (cv2: opencv, PIL: pillow)",
            ["try:", "  printf 'a, b' >> f && ssh x", "  # (cv2: opencv,", "  # PIL: pillow)"],
        ),
        ("sh: ssh a 'x; y z; w' 2>&1; go", ["sh:", "  ssh a 'x; y z; w' 2>&1;", "  go"]),
    ],
)
def test_lines_end_between_words_and_outside_of_commands(text, lines):
    assert wrap_text(text, 20) == lines


@pytest.mark.parametrize("width", [40, 80])
def test_no_word_of_any_advice_is_lost_and_no_line_is_too_long_for_want_of_a_break(width):
    for cause in known_failures():
        for text in (cause.why, cause.fix):
            lines = wrap_text(text, width)
            assert _words(" ".join(lines)) == _words(text)
            for line in lines:
                assert len(line) <= width or not wrap_text(line.strip(), width)[1:], line


def _words(text: str) -> list[str]:
    """Without the # with which a comment goes on."""
    return [word for word in text.split() if word != "#"]


def in_terminal(*words: str, folder: Path, columns: int = 80, **more: str) -> list[str]:
    """What a terminal is sent."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(ROOT), **more}
    env.pop("CI", None)  # where that is set, no terminal is one for ipexctl
    process = subprocess.Popen(
        [sys.executable, "-m", "ipexctl", *words], cwd=folder,
        env={**env, "TERM": "dumb"}, stdin=theirs, stdout=theirs, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    said = b""
    try:
        with suppress(OSError):  # EIO: it has closed its side
            while data := os.read(ours, 1 << 16):
                said += data
        process.wait(60)
    finally:
        os.close(ours)
        process.kill()
    return said.decode().splitlines()


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_help_fits_a_terminal(tmp_path, columns):
    lines = in_terminal("run", "--help", folder=tmp_path, columns=columns)
    described = lines[: lines.index("Examples:")]
    assert "  -n, --np N          Total number of ranks." in described
    assert min(columns, 80) - 8 < max(map(len, described)) <= min(columns, 80)


def test_an_error_fits_a_terminal_and_its_commands_are_whole(tmp_path):
    name = "a-folder-with-a-name-that-is-rather-long"
    (tmp_path / name).mkdir()
    (tmp_path / name / "hosts").write_text("node01\n")
    typed = ("run", "-H", "node[01-64]", "-n", "128", "--timeout", "3600", name, "--lr", "0.1")
    (tmp_path / name / "train-the-model.py").write_text("")
    lines = in_terminal(*typed, folder=tmp_path)
    again = f"ipexctl run -H 'node[01-64]' -n 128 --timeout 3600 {name}/train-the-model.py --lr 0.1"
    assert lines[0] == f"ipexctl: {name} is a folder"
    assert lines[-1] == f"  try: {again}"
    assert all(len(line) <= 80 for line in lines if again not in line)


def test_a_note_is_folded_on_a_terminal_and_one_line_elsewhere(tmp_path):
    path = tmp_path / "racks" / "hosts-of-the-second-rack-in-the-large-room"
    path.parent.mkdir()
    path.write_text("node01\n")
    (tmp_path / "config").mkdir()
    config = tmp_path / ".config/ipexctl/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f'hostfile = "{path}"\n')
    lines = in_terminal("hosts", "--list", folder=tmp_path)
    note = f"ipexctl: note: hosts from {path.relative_to(tmp_path)} (.config/ipexctl/config.toml:1)"
    assert len(note) > 80
    assert (lines[-1], " ".join(map(str.strip, lines[:-1]))) == ("node01", note)
    assert all(len(line) <= 80 for line in lines)
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    argv = [sys.executable, "-m", "ipexctl", "hosts", "--list"]
    (tmp_path / ".local/state/ipexctl/sources.json").unlink()  # what the first one has noted
    done = subprocess.run(
        argv, cwd=tmp_path, env={**env, "COLUMNS": "80"}, capture_output=True, text=True
    )
    assert done.stderr == f"{note}\n"


HOST = "a-host-with-a-rather-long-name.cluster.example"


def test_what_failed_on_a_host_and_what_to_type_is_folded_between_words(tmp_path):
    """Port 1 of this machine refuses every connection."""
    text = f"here ansible_connection=local\n{HOST} address=127.0.0.1 port=1\n"
    (tmp_path / "hosts").write_text(text)
    lines = in_terminal("env", "ls", "-f", "hosts", folder=tmp_path)
    at = lines.index(f"{HOST}  unreachable  127.0.0.1 port 1")
    assert lines[at + 1] == "  refused the connection"
    at = lines.index(f"    try: # on {HOST}:")
    assert lines[at + 1] == "      # systemctl status ssh sshd; ss -tln"
    lines = in_terminal("doctor", "-f", "hosts", folder=tmp_path)
    at = lines.index(f"  or ipexctl doctor -x {HOST} -f hosts")
    assert lines[at + 1] == f"     # without {HOST}"


def test_what_remove_all_removes_is_folded_between_words(tmp_path):
    cache = tmp_path / "a-folder-for-caches/with-another-one-for-those-of-this-user"
    for name in ("blobs", "hashes"):
        (cache / "ipexctl" / name).mkdir(parents=True)
        (cache / "ipexctl" / name / "file").write_text("text")
    words = ("remove", "--all", "--here", "--check")
    lines = in_terminal(*words, folder=tmp_path, XDG_CACHE_HOME=str(cache))
    at = next(i for i, line in enumerate(lines) if line.startswith("this machine: cache: "))
    assert f"  {cache}/ipexctl/hashes)" in lines[at:]
    assert all(len(line) <= 80 or str(cache) in line for line in lines)
