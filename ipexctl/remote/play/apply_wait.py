"""The step `wait`."""

import os
import socket
import time

from ipexctl.common.waiting import wait_until
from ipexctl.remote.failure import Failure
from ipexctl.remote.play.safe_paths import absolute_path

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from typing import Any

    from ipexctl.remote.play.task import Result, Task

PAUSE = 0.5


def apply(task: "Task") -> "Result":
    args = task.args
    expected = args["state"] in ("started", "present")
    if args["seconds"]:
        if not task.check:
            time.sleep(args["seconds"])
        return False, "waited %g s" % args["seconds"], ""
    what = args["path"] or "port %d of %s" % (args["port"], args["host"])
    began, state = time.time(), "not there" if expected else "there"
    timeout = 0 if task.check else args["timeout"]
    if not wait_until(lambda: _is_there(args) == expected, timeout, PAUSE):
        if task.check:
            return None, "%s is %s now" % (what, state), ""
        raise Failure("%s is still %s after %g s" % (what, state, timeout), slug="wait-timeout")
    task.reads = ["path:" + absolute_path(args["path"])] if args["path"] else ["any"]
    took = time.time() - began
    return False, "after %.0f s" % took if took >= 1 else "", ""


def _is_there(args: "dict[str, Any]") -> bool:
    if args["path"]:
        return os.path.lexists(absolute_path(args["path"]))
    try:
        socket.create_connection((args["host"], args["port"]), 5).close()
        return True
    except OSError:
        return False
