"""The step `sh`: shell code, unless `creates`, `removes` or `unless` say that it is done."""

import os

from ipexctl.remote.failure import Failure
from ipexctl.remote.play.safe_paths import absolute_path

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from typing import Any

    from ipexctl.remote.play.task import Result, Task


def apply(task: "Task") -> "Result":
    args = task.args
    folder = absolute_path(args.get("chdir") or "~")
    variables = dict(os.environ)
    variables.update(args["variables"])
    variables.update(args["env"])
    task.reads, task.writes = _touched_paths(args, folder)
    reason = _why_not_needed(task, folder, variables)
    if reason:
        return False, reason, ""
    if task.check:
        return _predict_change(args)
    if not os.path.isdir(folder):
        raise Failure("there is no folder %s" % folder, hint="chdir: /path", slug="path-missing")
    code, out = task.program(
        ["/bin/sh", "-c", args["cmd"]],
        variables,
        folder,
        args["stdin"].encode("utf-8"),
        args["timeout"],
    )
    if code:
        words = "exit code %d" % code if code > 0 else "signal %d" % -code
        raise Failure("sh ended with %s" % words, out[-2000:], slug="command-failed")
    return args["changes"] != [], "", ""


def _touched_paths(args: "dict[str, Any]", folder: str) -> "tuple[list[str], list[str]]":
    """Return the paths the code touches: those of `changes`, and of `creates`."""
    reads = ["exists:" + _path(p, folder) for p in (args["creates"], args["removes"]) if p]
    if args["unless"]:
        reads.append("any")
    if args["changes"] is not None:
        return reads, ["path:" + _path(p, folder) for p in args["changes"]]
    if args["creates"] and not args["unless"]:
        return reads, ["path:" + _path(args["creates"], folder)]
    return reads, ["any"]


def _path(path: str, folder: str) -> str:
    return os.path.normpath(os.path.join(folder, os.path.expanduser(path)))


def _why_not_needed(task: "Task", folder: str, variables: "dict[str, str]") -> str:
    """Return why the code need not run; "" if it has to."""
    args = task.args
    if args["creates"] and os.path.lexists(_path(args["creates"], folder)):
        return "%s exists" % args["creates"]
    if args["removes"] and not os.path.lexists(_path(args["removes"], folder)):
        return "%s does not exist" % args["removes"]
    if args["unless"] and os.path.isdir(folder):
        command = ["/bin/sh", "-c", args["unless"]]
        code, _ = task.program(command, variables, folder, timeout=args["timeout"], quiet=True)
        if code == 0:
            return "unless holds"
    return ""


def _predict_change(args: "dict[str, Any]") -> "Result":
    if args["changes"] == []:
        return False, "not run", ""
    if args["creates"] or args["removes"] or args["unless"]:
        return True, "run", ""
    return None, "sh without creates, removes or unless", ""
