"""Steps with sudo on real hosts, where sudo asks for a password, refuses, or ends on the way."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ipexctl.common.waiting import wait_until
from tests.plays_lab.playing import HOSTS, SUDOERS, Playing, needs_sudo

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1800)]
PASSWORD = "pa55-word of mine"
ROOT = "steps:\n  - sh: id -un\n    sudo: true\n"
IGNORED = """\
steps:
  - sh: id -un
    sudo: true
    ignore_errors: true
    retries: 3
    delay: 0.1
  - sh: touch ~/{name}
    notify: tell
  - file: {{path: /etc/{name}, content: x}}
    sudo: true
    ignore_errors: true
handlers:
  tell: [sh: touch ~/{name}-told]
"""


@pytest.fixture
def asking(hosts: Playing) -> Playing:
    """node01 asks for no password, node04 allows no sudo, the others ask."""
    needs_sudo()
    hosts.allow_sudo(HOSTS[1:3], password=PASSWORD)
    hosts.allow_sudo(HOSTS[:1])
    hosts.on("node04", "sh", "-c", f"rm -f {SUDOERS}; echo 'trainer:{PASSWORD}' | chpasswd")
    return hosts


def password_file(hosts: Playing, text: str, mode: int = 0o600) -> Path:
    path = hosts.folder / "password"
    path.write_text(text)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("password", ["", "wrong-word\n", PASSWORD])
def test_a_refusal_of_sudo_is_ignored_where_the_step_says_so(asking, password):
    words = ["--sudo-password-file", str(password_file(asking, password))] if password else []
    name = f"ignored-{len(password)}"
    code, states = asking.states(IGNORED.format(name=name), *words)
    assert code == 0
    with_sudo = {"node01", "node02", "node03"} if password == PASSWORD else {"node01"}
    for host in HOSTS:
        expected = "changed" if host in with_sudo else "ignored"
        assert [states[n, host] for n in (1, 2, 3, 4)] == [expected, "changed", expected, "changed"]
        assert Path(asking.home(host), f"{name}-told").exists()
    _, predicted = asking.states(IGNORED.format(name=name), "--check", *words)
    assert {h for (n, h), state in predicted.items() if state == "ignored"} == (
        set(HOSTS) - with_sudo
    )


def test_a_step_that_cannot_do_without_sudo_stops_the_host_before_its_first_step(asking):
    text = IGNORED.format(name="before") + ""
    text = text.replace("handlers:", "  - sh: id\n    sudo: true\nhandlers:")
    code, states = asking.states(text)
    assert code == 1
    for host in HOSTS[1:]:
        assert {n: s for (n, h), s in states.items() if h == host} == {4: "failed"}
        assert not Path(asking.home(host), "before").exists()


def test_a_process_under_sudo_that_is_killed_fails_its_step_alone(hosts):
    needs_sudo()
    hosts.allow_sudo(HOSTS)
    text = """\
sudo: true
steps:
  - sh: kill -9 $PPID; sleep 60
    ignore_errors: true
  - sh: test $(id -un) = root
"""
    code, states = hosts.states(text, "-l", "node01")
    assert (code, states) == (0, {(1, "node01"): "ignored", (2, "node01"): "changed"})


def test_the_password_comes_from_a_file_and_is_seen_nowhere(asking):
    path = password_file(asking, PASSWORD + "\n")
    text = "steps:\n  - sh: touch ~trainer/at-it; sleep 3; id -un\n    sudo: true\n"
    process = asking.start(text, "-x", "node04", "--sudo-password-file", str(path))
    assert wait_until(Path(asking.home("node02"), "at-it").exists)
    seen = b"".join(_contents(Path("/proc").glob("[0-9]*/cmdline")))
    assert b"--sudo-password-file" in seen and PASSWORD.encode() not in seen
    assert PASSWORD.encode() not in b"".join(_contents(Path("/proc").glob("[0-9]*/environ")))
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0 and PASSWORD not in out, out
    kept = (file for file in asking.folder.rglob("*") if file.is_file() and file != path)
    assert PASSWORD.encode() not in b"".join(_contents(kept))


def _contents(paths: Iterable[Path]) -> Iterator[bytes]:
    for path in paths:
        with suppress(OSError):  # a process that has ended
            yield path.read_bytes()


def test_a_pipe_has_the_password(asking):
    reading, writing = os.pipe()
    os.write(writing, PASSWORD.encode() + b"\n")
    os.close(writing)
    words = ("-l", "node02", "--sudo-password-file", f"/dev/fd/{reading}")
    done = asking.run(ROOT, *words, pass_fds=(reading,))
    os.close(reading)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        (PASSWORD, 0o640), (PASSWORD, 0o604), (PASSWORD, 0o622), ("", 0o600), ("\n", 0o600),
        (f"{PASSWORD}\nsecond\n", 0o600), (PASSWORD + "x" * 5000, 0o600),
    ],
)  # fmt: skip
def test_a_file_that_holds_no_password_of_the_user_alone_is_refused(asking, text, mode):
    done = asking.run(ROOT, "--sudo-password-file", str(password_file(asking, text, mode)))
    assert done.returncode == 2, done.stdout
    assert "password" in done.stderr and PASSWORD not in done.stdout + done.stderr
    missing = asking.run(ROOT, "--sudo-password-file", str(asking.folder / "none"))
    assert missing.returncode == 2
