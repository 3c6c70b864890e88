"""The child of a keeper that starts guardians."""

from __future__ import annotations

import os
import signal

from ipexctl.common.waiting import wait_until
from ipexctl.remote.restart.guardian_starter import Starter


def test_its_end_is_seen() -> None:
    before = set(_children())
    starter = Starter()
    (pid,) = set(_children()) - before
    assert not starter.has_ended()
    os.kill(pid, signal.SIGKILL)
    assert wait_until(starter.has_ended, 10)
    os.waitpid(pid, 0)


def _children() -> list[int]:
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        return [int(word) for word in file.read().split()]
