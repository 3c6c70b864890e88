"""A step's `apply` in this process, or in another one as another user."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import pytest

from ipexctl.remote.play.task import Task

OTHER = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="two accounts: needs root")

FILE = {"state": "file", "content": None, "src": "", "mode": "", "owner": "", "group": ""}
LINE = {
    "line": None, "regexp": "", "state": "present", "insertafter": "", "insertbefore": "",
    "create": False, "mode": "", "owner": "", "group": "",
}  # fmt: skip


def apply(module: str, *, check: bool = False, diff: bool = True, **args: Any) -> dict[str, Any]:
    defaults = {"apply_file": FILE, "apply_line": LINE}[module]
    task = Task({**defaults, **args}, check, diff, lambda event: None, lambda: None, [])
    return applied(module, task)


def applied(module: str, task: Task) -> dict[str, Any]:
    """What a step's module makes of a task. Raises Failure."""
    found = import_module(f"ipexctl.remote.play.{module}").apply(task)
    return {**dict(zip(("changed", "detail", "diff"), found, strict=True)), "reads": task.reads}


def file(path: object, **args: Any) -> dict[str, Any]:
    return apply("apply_file", path=str(path), **args)


def line(path: object, text: str | None = None, **args: Any) -> dict[str, Any]:
    return apply("apply_line", path=str(path), line=text, **args)


@contextmanager
def another_user(work: Callable[[], None]) -> Iterator[None]:
    """`work` again and again, as an account without rights, until the block ends."""
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(OTHER)
            os.setuid(OTHER)
            while True:
                work()
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(1)
    try:
        yield
        assert os.waitpid(pid, os.WNOHANG) == (0, 0), "the other user's process has ended"
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
