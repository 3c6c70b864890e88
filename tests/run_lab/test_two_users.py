"""Two accounts of this machine with a run each: what one sees of the other's, and cannot do.

The accounts are system ones that every Linux has; what they run is in a folder of this test.
"""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.run.test_ps_local import LONG, REPO, TRAIN

PYTHON = "/usr/bin/python3"  # the test's own may be in a folder of root
NAMES = ("daemon", "nobody")
STEAL = """
import glob, os, signal, sys
from ipexctl.remote.run import control
home, run, host = sys.argv[1:]
pid = next(p for p in os.listdir('/proc') if p.isdigit()
    and open('/proc/%s/comm' % p).read().strip() == 'ipexctl-run')
def denied(work):
    try:
        work()
    except PermissionError:
        return True
print(
    denied(lambda: os.listdir(home + '/.ipexctl')),
    denied(lambda: os.kill(int(pid), signal.SIGTERM)),
    denied(lambda: open('/proc/%s/environ' % pid).read()),
    control.ask_supervisor(run, host, {'kind': 'StopRun', 'by': 'mallory', 'seconds': 0}),
)
"""


class Account:
    def __init__(self, folder: Path, name: str) -> None:
        self.name, self.home, self.code = name, folder / name, folder / name / "code"
        self.code.mkdir(parents=True)
        (self.code / "train.py").write_text(TRAIN)
        entry = pwd.getpwnam(name)
        self.ids = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": ()}
        paths = f"{REPO}:{sysconfig.get_paths()['purelib']}"
        self.env = {
            "HOME": str(self.home), "PATH": "/usr/bin:/bin", "PYTHONPATH": paths,
            "VIRTUAL_ENV": str(folder / "env"),
        }  # fmt: skip
        for path in (self.home, self.code, self.code / "train.py"):
            os.chown(path, entry.pw_uid, entry.pw_gid)
        self.started: list[subprocess.Popen[str]] = []

    def python(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [PYTHON, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            cwd=self.code, env=self.env, timeout=60, **self.ids,
        )  # fmt: skip

    def call(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.python("-m", "ipexctl", *words)

    def start(self, *words: str) -> str:
        """The run's id, once both ranks have printed."""
        run = subprocess.Popen(
            [PYTHON, "-m", "ipexctl", "run", "-n", "2", "--force", "--json", *words],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, cwd=self.code,
            env=self.env, **self.ids,
        )  # fmt: skip
        self.started.append(run)
        assert run.stdout
        seen, run_id = set(), ""
        for line in run.stdout:
            event = json.loads(line)
            run_id = event.get("run_id", run_id)
            seen.update([event["rank"]] if event["event"] == "line" else [])
            if len(seen) == 2:
                return run_id
        raise AssertionError("the run ended before its ranks had printed")

    def ps(self) -> dict:
        done = self.call("ps", "--json")
        assert done.returncode == 0, done.stderr
        found: dict = json.loads(done.stdout)
        return found


@pytest.fixture
def two() -> Iterator[tuple[Account, Account]]:
    if os.getuid() != 0:
        pytest.skip("needs root, to be two other users")
    with tempfile.TemporaryDirectory(prefix="two-users-", dir="/tmp") as top:
        folder = Path(top)
        folder.chmod(0o755)
        subprocess.run([PYTHON, "-m", "venv", "--without-pip", folder / "env"], check=True)
        site = next((folder / "env/lib").glob("python3*")) / "site-packages"
        (site / "torch").mkdir()
        (site / "torch/__init__.py").write_text("")
        ann, bob = (Account(folder, name) for name in NAMES)
        tried = ann.call("--version")
        if tried.returncode:
            pytest.skip(f"{PYTHON} of another user cannot run ipexctl: {tried.stderr[-200:]}")
        yield ann, bob
        for run in (*ann.started, *bob.started):
            run.kill()
            run.communicate()


def test_each_sees_that_the_others_run_is_there_and_cannot_read_or_stop_it(
    two: tuple[Account, Account],
) -> None:
    ann, bob = two
    theirs, own = ann.start(*LONG), bob.start(*LONG)
    found = bob.ps()
    assert [row["run_id"] for row in found["runs"]] == [own]
    (other,) = (row for row in found["other_users"] if row["run_id"] == theirs)
    assert (other["host"], other["owner"], other["ranks"]) == ("localhost", "daemon", 2)
    assert 1 <= other["cores"] <= (os.cpu_count() or 1)
    assert 10_000_000 < other["memory"] < 10_000_000_000
    assert 0 <= other["seconds"] < 60
    text = bob.call("ps").stdout
    assert " localhost: daemon, 2 ranks, " in text
    assert [row["run_id"] for row in ann.ps()["runs"]] == [theirs]
    for words in (("stop", theirs), ("logs", theirs), ("rm", theirs, "-y"), ("wait", theirs)):
        done = bob.call(*words, "--json")
        assert done.returncode == 2, done.stderr
        (error,) = json.loads(done.stdout)["errors"]
        assert error["slug"] == "unknown-run"
        assert "there are others: of daemon on localhost" in error["why"]
    named = bob.start("--name", "bert", *LONG)
    done = bob.call("stop", "brt")
    assert done.returncode == 2 and "ipexctl stop bert" in done.stderr, done.stderr
    bob.call("stop", named, "-t", "0")
    bob.call("stop", own, "-t", "0")
    stolen = bob.python("-c", STEAL, str(ann.home), theirs, "localhost")
    assert stolen.stdout == "True True True None\n", stolen.stderr
    (row,) = ann.ps()["runs"]
    assert (row["run_id"], row["state"], row["ranks_started"]) == (theirs, "running", 2)


def test_a_run_on_cores_of_another_users_run_says_whose_it_is(two: tuple[Account, Account]) -> None:
    ann, bob = two
    theirs = ann.start(*LONG)
    done = bob.call("run", "-n", "2", "--force", "train.py", "1", "0")
    assert done.returncode == 0, done.stderr
    (line,) = (text for text in done.stderr.splitlines() if theirs in text)
    said = f"another run uses these cores: run {theirs} of daemon, 2 ranks, "
    assert f"preflight: LOAD-004   localhost  {said}" in line
