"""The step `sysctl`: a parameter under /proc/sys, and its line in a file that is read at boot."""

import re

from ipexctl.remote.failure import Failure
from ipexctl.remote.play import safe_paths
from ipexctl.remote.play.apply_file import MOST, write_file
from ipexctl.remote.play.task import result


def apply(task):
    args = task.args
    name = args["name"].replace("/", ".")
    path = "/proc/sys/" + name.replace(".", "/")
    uses = ["path:" + path] + (["path:" + args["sysctl_file"]] if args["sysctl_file"] else [])
    changes, diff = [], ""
    if args["state"] == "present":
        now = _read(path, name)
        if now.split() != args["value"].split():
            changes.append("%s %s -> %s" % (name, now, args["value"]))
            if not task.check:
                _write(path, name, args["value"])
    if args["sysctl_file"]:
        changed, detail, diff = _in_file(task, name)
        if changed:
            changes.append("%s: %s" % (args["sysctl_file"], detail))
    return result(bool(changes), ", ".join(changes), diff, uses, uses)


def _read(path, name):
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


def _write(path, name, value):
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


def _in_file(task, name):
    part = _Part(task)
    with safe_paths.place(task.args["sysctl_file"]) as place:
        old, _ = place.read(MOST)
        lines = (old or b"").decode("utf-8", "surrogateescape").splitlines()
        pattern = re.compile(r"\s*-?\s*%s\s*=" % re.escape(name).replace(r"\.", "[./]"))
        kept = [line for line in lines if not pattern.match(line)]
        if task.args["state"] == "absent" and old is None:
            return False, "", ""
        if task.args["state"] == "present":
            line = "%s = %s" % (name, task.args["value"])
            if [each for each in lines if pattern.match(each)] == [line]:
                return False, "", ""
            kept.append(line)
        text = "".join(line + "\n" for line in kept)
        return write_file(part, place, text.encode("utf-8", "surrogateescape"))


class _Part:
    """The task without attributes of the file."""

    def __init__(self, task):
        self.check, self.diff, self.args = task.check, task.diff, {}
