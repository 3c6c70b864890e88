"""The step `assert`."""

import os

from ipexctl.remote.failure import Failure
from ipexctl.remote.play.safe_paths import absolute_path

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from ipexctl.remote.play.task import Result, Task


def apply(task: "Task") -> "Result":
    args = task.args
    if args["fail"]:
        raise Failure(args["fail"], slug="assertion-failed")
    if args["path"]:
        path = absolute_path(args["path"])
        task.reads = ["path:" + path]
        if not os.path.lexists(path):
            raise Failure(args["msg"] or "%s is not there" % path, slug="assertion-failed")
        return False, "", ""
    task.reads = ["any"]
    variables = dict(os.environ)
    variables.update(args["variables"])
    home = os.path.expanduser("~")
    folder = home if os.path.isdir(home) else "/"
    code, out = task.program(
        ["/bin/sh", "-c", args["that"]], variables, folder, timeout=args["timeout"], quiet=True
    )
    if code:
        why = "exit code %d: %s\n%s" % (code, args["that"], out[-1500:])
        raise Failure(args["msg"] or "the condition is false", why, slug="assertion-failed")
    return False, "", ""
