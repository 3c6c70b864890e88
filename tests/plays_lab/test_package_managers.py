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


def package(said: Said, **more: Any) -> Any:
    args = {"name": [NAME], "state": "present", "update_cache": False, "use": "apt", **more}
    task = Task(args, False, False, lambda e: said.append(e.text), lambda: None, [])
    return apply_package.apply(task)


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
    assert failed.slug == "package-manager-failed"
    assert f"process {os.getpid()} " in failed.why
    assert sum(f"process {os.getpid()}" in line for line in said) == 1


def test_a_lock_that_is_released_in_time(apt: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply_package, "LOCK_PAUSE", 0.1)
    with locked(apt / "var/lib/dpkg/lock-frontend") as unlock:
        threading.Timer(1.0, unlock).start()
        failed = failure([])
    assert failed.slug == "package-manager-failed"
