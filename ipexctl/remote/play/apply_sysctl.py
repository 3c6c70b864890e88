"""The step `sysctl`: a parameter under /proc/sys, and its line in a file that is read at boot."""

import re

from ipexctl.remote.failure import Failure
from ipexctl.remote.play.apply_line import edit_line_in_file
from ipexctl.remote.play.file_attributes import Attributes

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from typing import Any

    from ipexctl.remote.play.task import Result, Task


def apply(task: "Task") -> "Result":
    args = task.args
    name = args["name"].replace("/", ".")
    path = "/proc/sys/" + name.replace(".", "/")
    task.touches(path, *filter(None, [args["sysctl_file"]]))
    changes, diff = [], ""
    if args["state"] == "present":
        current = _read(path, name)
        if current.split() != args["value"].split():
            changes.append("%s %s -> %s" % (name, current, args["value"]))
            if not task.check:
                _write(path, name, args["value"])
    if args["sysctl_file"]:
        changed, detail, diff = edit_line_in_file(
            task, args["sysctl_file"], _line_arguments(args, name), Attributes({})
        )
        if changed:
            changes.append("%s: %s" % (args["sysctl_file"], detail))
    return bool(changes), ", ".join(changes), diff


def _read(path: str, name: str) -> str:
    try:
        with open(path) as file:
            return " ".join(file.read().split())
    except FileNotFoundError:
        raise Failure(
            "this kernel has no parameter %s" % name, slug="kernel-parameter-missing"
        ) from None
    except OSError as e:
        raise Failure(
            "cannot read %s: %s" % (name, e.strerror), slug="kernel-parameter-unreadable"
        ) from None


def _write(path: str, name: str, value: str) -> None:
    try:
        with open(path, "w") as file:
            file.write(value)
    except PermissionError:
        raise Failure(
            "cannot set %s: not permitted" % name, hint="sudo: true", slug="not-permitted"
        ) from None
    except OSError as e:
        raise Failure(
            "cannot set %s to %s: %s" % (name, value, e.strerror), slug="kernel-parameter-refused"
        ) from None


def _line_arguments(args: "dict[str, Any]", name: str) -> "dict[str, Any]":
    """Return the line of the parameter, as arguments of a `line` step."""
    return {
        "state": args["state"],
        "create": True,
        "regexp": r"^\s*-?\s*%s\s*=" % re.escape(name).replace(r"\.", "[./]"),
        "line": "%s = %s" % (name, args["value"]),
    }
