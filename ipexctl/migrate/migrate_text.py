"""What `migrate` shows: the present commands, then each finding, then what to type next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ipexctl.base.sizes import count
from ipexctl.errors import is_shown
from ipexctl.migrate.migrate import Migrated, Migration
from ipexctl.user_code.migration_rules import LauncherRewrite, MigrationFinding


def migration_text(done: Migration) -> str:
    lines = [line for file in done.files for line in _command_lines(file)]
    lines += [""] if lines and any(file.reading.findings for file in done.files) else []
    lines += [line for file in done.files for line in _finding_lines(file)]
    lines += [f"{path}: not read: {why}" for path, why in done.skipped]
    lines += _summary_lines(done)
    return "".join("".join(c if is_shown(c) else "?" for c in line) + "\n" for line in lines)


def _command_lines(file: Migrated) -> Iterator[str]:
    for command in file.reading.commands:
        if command.why:
            yield f"{_place_prefix(file, command)}not converted: {command.why}"
            continue
        yield f"{_place_prefix(file, command)}{command.launcher} becomes"
        yield f"  {command.text}"


def _finding_lines(file: Migrated) -> Iterator[str]:
    for found in file.reading.findings:
        yield f"{_place_prefix(file, found)}{found.rule.id}: {found.text}; {found.advice}"
        yield from (f"  {line}" for line in found.lines)


def _place_prefix(file: Migrated, one: LauncherRewrite | MigrationFinding) -> str:
    """Return "train.py:12: "; "" for a command line."""
    return f"{file.path}:{one.line}: " if file.path else ""


def _summary_lines(done: Migration) -> Iterator[str]:
    findings = sum(len(file.reading.findings) for file in done.files)
    if findings:
        yield ""
        yield count(findings, "finding")
    else:
        is_command = any(not file.path for file in done.files)
        where = "" if is_command else f" in {count(done.read, 'file')}"
        yield f"nothing discontinued found{where}"


def migration_document(done: Migration) -> dict[str, Any]:
    """Return the document that --json prints."""
    return {
        "command": "migrate",
        "files_read": done.read,
        "commands": [
            {**_place_document(file, one), "launcher": one.launcher, "text": one.text,
             "why": one.why}
            for file in done.files for one in file.reading.commands
        ],
        "findings": [
            {**_place_document(file, one), "rule": one.rule.id, "name": one.name, "text": one.text,
             "since": one.rule.since, "use": one.use, "lines": list(one.lines)}
            for file in done.files for one in file.reading.findings
        ],
        "skipped": [{"file": path, "why": why} for path, why in done.skipped],
    }  # fmt: skip


def _place_document(file: Migrated, one: LauncherRewrite | MigrationFinding) -> dict[str, Any]:
    return {"file": file.path or None, "line": one.line}
