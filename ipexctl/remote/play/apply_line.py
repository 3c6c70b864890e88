"""The step `line`: a line is in a file, or is not."""

import re

from ipexctl.remote.failure import Failure
from ipexctl.remote.play import safe_paths
from ipexctl.remote.play.apply_file import write_file
from ipexctl.remote.play.file_attributes import Attributes

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from typing import Any

    from ipexctl.remote.play.task import Result, Task

LINES = re.compile(r"[^\n]*\n|[^\n]+")  # str.splitlines splits at other characters, too


def apply(task: "Task") -> "Result":
    path = safe_paths.absolute_path(task.args["path"])
    task.touches(path)
    return edit_line_in_file(task, path, task.args, Attributes(task.args))


def edit_line_in_file(
    task: "Task", path: str, args: "dict[str, Any]", attributes: "Attributes"
) -> "tuple[bool, str, str]":
    """Return (changed, detail, diff) of a file edited by the arguments of a `line` step."""
    with safe_paths.open_place(path) as place:
        old = place.read()[0]
        if old is None and args["state"] == "absent":
            return False, "", ""
        if old is None and not args["create"]:
            what = "there is no file %s" % path
            raise Failure(what, hint="create: true", slug="path-missing")
        text = (old or b"").decode("utf-8", "surrogateescape")
        new = edit_lines(text, args).encode("utf-8", "surrogateescape")
        return write_file(task, place, new, attributes)


def edit_lines(text: str, args: "dict[str, Any]") -> str:
    """Return the text with the line added, replaced or removed, as `args` of the step say."""
    lines = LINES.findall(text)
    pattern = _pattern(args, "regexp")
    line = args.get("line")
    if args["state"] == "absent":
        matches = pattern.search if pattern else lambda row: row == line
        return "".join(row for row in lines if not matches(row.rstrip("\r\n")))
    hits = [i for i, row in enumerate(lines) if pattern and pattern.search(row.rstrip("\r\n"))]
    assert line is not None  # only `absent` goes without one
    if hits:
        lines[hits[-1]] = line + "\n"
        return "".join(lines)
    if any(row.rstrip("\r\n") == line for row in lines):
        return text
    return "".join(_insert_line(lines, line, args))


def _insert_line(lines: "list[str]", line: str, args: "dict[str, Any]") -> "list[str]":
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    before, after = args.get("insertbefore"), args.get("insertafter")
    if before == "BOF":
        return [line + "\n"] + lines
    key = "insertbefore" if before else "insertafter"
    if (before or after or "EOF") != "EOF":
        pattern = _pattern(args, key)
        hits = [i for i, row in enumerate(lines) if pattern and pattern.search(row.rstrip("\r\n"))]
        if hits:
            index = hits[-1] + (key == "insertafter")
            return lines[:index] + [line + "\n"] + lines[index:]
    return lines + [line + "\n"]


def _pattern(args: "dict[str, Any]", key: str) -> "re.Pattern[str] | None":
    return re.compile(args[key]) if args.get(key) else None
