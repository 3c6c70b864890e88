"""`package` where the manager is locked, cannot reach its servers or does not know the name."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ipexctl.remote.failure import Failure
from ipexctl.remote.play import apply_package
from ipexctl.remote.play.task import Task

NAME = "ipexctl-no-such-package"
DEAD = "deb [trusted=yes] http://packages.no-such-host.invalid/debian stable main\n"
Said = list[str]


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The real apt with a root of its own, which an ordinary user can have, too."""
    if not shutil.which("apt-get"):
        pytest.skip("needs apt")
    for folder in (
        "etc/apt/apt.conf.d", "etc/apt/preferences.d", "etc/apt/sources.list.d", "var/log/apt",
        "var/lib/dpkg/updates", "var/lib/apt/lists/partial", "var/cache/apt/archives/partial",
    ):  # fmt: skip
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "var/lib/dpkg/status").touch()
    (tmp_path / "etc/apt/sources.list").touch()
    user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    (tmp_path / "apt.conf").write_text(
        f'Dir "{tmp_path}";\nDir::State::status "{tmp_path}/var/lib/dpkg/status";\n'
        f'Dir::Bin::methods "/usr/lib/apt/methods";\nAPT::Sandbox::User "{user}";\n'
        'Acquire::Retries "0";\n'
    )
    monkeypatch.setenv("APT_CONFIG", str(tmp_path / "apt.conf"))
    return tmp_path


def package(said: Said, **more: Any) -> dict[str, Any]:
    args = {"name": [NAME], "state": "present", "update_cache": False, "use": "apt", **more}
    task = Task(args, False, False, lambda e: said.append(e["text"]), lambda: None, [])
    found: dict[str, Any] = apply_package.apply(task)
    return found


def failure(said: Said, **more: Any) -> Failure:
    with pytest.raises(Failure) as caught:
        package(said, **more)
    return caught.value


@contextmanager
def locked(path: Path) -> Iterator[Callable[[], None]]:
    """By this process; what is yielded unlocks it."""
    with path.open("w") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        yield lambda: fcntl.lockf(file, fcntl.LOCK_UN)


@pytest.mark.parametrize("more", [{}, {"update_cache": True}, {"state": "latest"}])
def test_servers_that_are_not_reached(apt: Path, more: dict[str, Any]) -> None:
    (apt / "etc/apt/sources.list").write_text(DEAD)
    failed = failure([], **more)
    assert "cannot reach" in failed.what
    assert "packages.no-such-host.invalid" in failed.why


def test_a_package_that_no_list_has(apt: Path) -> None:
    failed = failure([])
    assert failed.slug == "package-manager-failed"
    assert NAME in failed.why


@pytest.mark.parametrize(
    ("lock", "more"),
    [
        ("var/lib/dpkg/lock-frontend", {}),
        ("var/lib/apt/lists/lock", {"update_cache": True}),
        ("var/lib/apt/lists/lock", {}),
    ],
)
def test_a_lock_is_waited_for_a_limited_time_and_its_holder_named(
    apt: Path, monkeypatch: pytest.MonkeyPatch, lock: str, more: dict[str, Any]
) -> None:
    monkeypatch.setattr(apply_package, "LOCK_WAIT", 1.0)
    monkeypatch.setattr(apply_package, "LOCK_PAUSE", 0.1)
    said: Said = []
    began = time.monotonic()
    with locked(apt / lock):
        failed = failure(said, **more)
    assert time.monotonic() - began < 15
    assert failed.slug == "package-manager-locked"
    assert f"process {os.getpid()} " in failed.why
    assert sum(f"process {os.getpid()}" in line for line in said) == 1


def test_a_lock_that_is_released_in_time(apt: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply_package, "LOCK_PAUSE", 0.1)
    with locked(apt / "var/lib/dpkg/lock-frontend") as unlock:
        threading.Timer(1.0, unlock).start()
        failed = failure([])
    assert failed.slug == "package-manager-failed"


# --- as other managers say it --------------------------------------------------------------------

SAID = [
    ("dnf", 200, "locked", "metadata already locked by 226\n  Memory : 1.9 M RSS"),
    ("dnf", 1, "locked", "Failed to obtain rpm transaction lock."),
    ("zypper", 7, "locked", "System management is locked by the application with pid 226 (a)."),
    ("apt", 100, "locked",
     "E: Could not get lock /var/lib/dpkg/lock-frontend - open (11: Resource temporarily "
     "unavailable)\nE: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), is "
     "another process using it?"),
    ("apt", 100, "failed",
     "E: Could not open lock file /var/lib/dpkg/lock-frontend - open (13: Permission denied)\nE: "
     "Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), are you root?"),
    ("dnf", 1, "unreached",
     "Errors during downloading metadata for repository 'x':\n  - Curl error (6): Could not "
     "resolve hostname for http://x.invalid/repomd.xml [Could not resolve host: x.invalid]"),
    ("zypper", 104, "unreached",
     " - Download (curl) error for 'http://x.invalid/content':\n   Error code: Connection failed\n"
     "   Error message: Could not resolve host: x.invalid\nNo provider of 'nosuch' found."),
    ("apt", 100, "unreached", "E: Failed to fetch http://x/a.deb  Temporary failure resolving 'x'"),
    ("apt", 100, "failed", "E: Failed to fetch http://x/a.deb  404  Not Found [IP: 10.0.0.1 80]"),
    ("apt", 100, "failed",
     "Setting up b\nx: connection refused\ndpkg: error processing package b (--configure)"),
    ("dnf", 1, "failed", "Error: Unable to find a match: nosuch"),
    ("zypper", 104, "failed", "No provider of 'nosuch' found."),
]  # fmt: skip


@pytest.mark.parametrize(("name", "code", "kind", "out"), SAID)
def test_what_managers_say(
    name: str, code: int, kind: str, out: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apply_package, "LOCK_WAIT", 0.0)
    manager = next(one for one in apply_package.MANAGERS if one.name == name)
    task = Task({}, False, False, lambda event: None, lambda: None, [])
    monkeypatch.setattr(task, "program", lambda *words, **more: (code, out))
    with pytest.raises(Failure) as caught:
        apply_package._change(task, manager, "present", ["nosuch"], True)
    words = {
        "locked": "is locked by",
        "unreached": "cannot reach",
        "failed": f"failed (exit {code}",
    }
    assert [word in caught.value.what for word in words.values()] == [k == kind for k in words]
    assert ("226" in out) <= ("226" in caught.value.why)
