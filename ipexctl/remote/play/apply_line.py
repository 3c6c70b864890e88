"""The step `line`: a line is in a file, or is not."""

import re

from ipexctl.remote.failure import Failure
from ipexctl.remote.play import safe_paths
from ipexctl.remote.play.apply_file import MOST, write_file
from ipexctl.remote.play.task import result

LINES = re.compile(r"[^\n]*\n|[^\n]+")  # str.splitlines knows other ends, too


def apply(task):
    args = task.args
    path = safe_paths.absolute(args["path"])
    uses = dict.fromkeys(("reads", "writes"), safe_paths.uses(path))
    task.reads = uses["reads"]
    try:
        with safe_paths.place(path) as place:
            old = place.read(MOST)[0]
            if old is None:
                if args["state"] == "absent":
                    return result(False, **uses)
                if not args["create"]:
                    raise safe_paths.MissingFolder(
                        "there is no file %s" % path, hint="create: true"
                    )
            text = (old or b"").decode("utf-8", "surrogateescape")
            new = edited(text, args).encode("utf-8", "surrogateescape")
            return result(*write_file(task, place, new), **uses)
    except safe_paths.MissingFolder as e:
        if task.check:
            return result(None, "", failure=e, **uses)
        raise


def edited(text, args):
    lines = LINES.findall(text)
    pattern = _pattern(args, "regexp")
    line = args.get("line")
    if args["state"] == "absent":
        gone = pattern.search if pattern else lambda each: each == line
        return "".join(each for each in lines if not gone(each.rstrip("\r\n")))
    hits = [i for i, each in enumerate(lines) if pattern and pattern.search(each.rstrip("\r\n"))]
    if hits:
        lines[hits[-1]] = line + "\n"
        return "".join(lines)
    if any(each.rstrip("\r\n") == line for each in lines):
        return text
    return "".join(_inserted(lines, line, args))


def _inserted(lines, line, args):
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    before, after = args.get("insertbefore"), args.get("insertafter")
    if before == "BOF":
        return [line + "\n"] + lines
    key = "insertbefore" if before else "insertafter"
    if (before or after or "EOF") != "EOF":
        pattern = _pattern(args, key)
        hits = [i for i, each in enumerate(lines) if pattern.search(each.rstrip("\r\n"))]
        if hits:
            at = hits[-1] + (key == "insertafter")
            return lines[:at] + [line + "\n"] + lines[at:]
    return lines + [line + "\n"]


def _pattern(args, key):
    if not args.get(key):
        return None
    try:
        return re.compile(args[key])
    except re.error as e:
        raise Failure(
            "%s is not a valid regular expression: %s" % (key, e), slug="not-a-pattern"
        ) from None
