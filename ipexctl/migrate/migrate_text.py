"""What `migrate` shows: the commands of today, then each finding, then what to type next."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any

from ipexctl.base import quoting
from ipexctl.errors import is_shown
from ipexctl.migrate.code.migrate_finding import Command, Finding
from ipexctl.migrate.migrate import Migrated, Migration


def text(done: Migration) -> str:
    lines = [line for file in done.files for line in _commands(file)]
    lines += [""] if lines and any(file.reading.findings for file in done.files) else []
    lines += [line for file in done.files for line in _findings(file)]
    lines += [f"{path}: not read: {why}" for path, why in done.skipped]
    lines += _summary(done)
    return "".join("".join(c if is_shown(c) else "?" for c in line) + "\n" for line in lines)


def _commands(file: Migrated) -> Iterator[str]:
    for command in file.reading.commands:
        yield f"{_place(file, command)}{command.launcher} becomes"
        yield f"  {command.text}"
        yield from (f"  {note}" for note in command.notes)
        yield from (f"  not converted: {text}" for text in command.left_out)


def _findings(file: Migrated) -> Iterator[str]:
    for found in file.reading.findings:
        done = "  (fixed)" if file.written and found.edit else ""
        yield f"{_place(file, found)}{found.rule.id}: {found.text}; {found.advice}{done}"
        yield from (f"  {line}" for line in found.lines)


def _place(file: Migrated, one: Command | Finding) -> str:
    """train.py:12, or notebook.ipynb:3:12 with the cell; nothing of a command line."""
    if not file.path:
        return ""
    cell = f"{one.cell}:" if one.cell else ""
    return f"{file.path}:{cell}{one.line}: "


def _summary(done: Migration) -> Iterator[str]:
    findings = [f for file in done.files for f in file.reading.findings]
    remaining = sum(len(file.remaining) for file in done.files)
    safe = sum(1 for f in findings if f.edit)
    if not findings:
        where = "" if _is_command(done) else f" in {_counted(done.read, 'file')}"
        yield f"nothing discontinued found{where}"
        return
    yield ""
    if any(file.written for file in done.files):
        fixed = len(findings) - remaining
        yield f"{_counted(len(findings), 'finding')}, {fixed} fixed, {remaining} left"
    elif safe:
        yield f"{_counted(len(findings), 'finding')}, {safe} with a safe fix"
        yield f"next: ipexctl migrate --write {quoting.quote(done.words)}"
    else:
        yield f"{_counted(len(findings), 'finding')}, none with a safe fix"


def _is_command(done: Migration) -> bool:
    return any(not file.path for file in done.files)


def _counted(n: int, word: str) -> str:
    return f"{n} {word}{'' if n == 1 else 's'}"


def diff(done: Migration) -> str:
    """The edits that --write makes, as `patch -p1` and `git apply` read them."""
    return "".join(line for file in done.files for line in _diff(file))


def _diff(file: Migrated) -> Iterator[str]:
    before, after = (text.splitlines(keepends=True) for text in (file.before, file.after))
    name = file.path.removeprefix("./")
    for line in difflib.unified_diff(before, after, f"a/{name}", f"b/{name}"):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def document(done: Migration) -> dict[str, Any]:
    """For --json."""
    return {
        "schema_version": 1,
        "command": "migrate",
        "files_read": done.read,
        "commands": [
            {**_where(file, one), "launcher": one.launcher, "text": one.text,
             "left_out": list(one.left_out), "notes": list(one.notes)}
            for file in done.files for one in file.reading.commands
        ],
        "findings": [
            {**_where(file, one), "rule": one.rule.id, "name": one.name, "text": one.text,
             "since": one.rule.since, "use": one.use, "lines": list(one.lines),
             "safe": one.edit is not None, "fixed": file.written and one.edit is not None}
            for file in done.files for one in file.reading.findings
        ],
        "skipped": [{"file": path, "why": why} for path, why in done.skipped],
    }  # fmt: skip


def _where(file: Migrated, one: Command | Finding) -> dict[str, Any]:
    return {"file": file.path or None, "cell": one.cell or None, "line": one.line}
