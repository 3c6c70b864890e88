"""What `migrate` shows: the present commands, then each finding, then what to type next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ipexctl.base.sizes import count
from ipexctl.errors import is_shown
from ipexctl.migrate.migrate import Migrated, Migration
from ipexctl.user_code.migration_rules import LauncherRewrite, MigrationFinding


def migration_text(migration: Migration) -> str:
    lines = [line for file in migration.files for line in _command_lines(file)]
    lines += [""] if lines and any(file.reading.findings for file in migration.files) else []
    lines += [line for file in migration.files for line in _finding_lines(file)]
    lines += [f"{path}: not read: {why}" for path, why in migration.skipped]
    lines += _summary_lines(migration)
    return "".join("".join(c if is_shown(c) else "?" for c in line) + "\n" for line in lines)


def _command_lines(file: Migrated) -> Iterator[str]:
    for command in file.reading.commands:
        if command.why:
            yield f"{_place_prefix(file, command)}not converted: {command.why}"
            continue
        yield f"{_place_prefix(file, command)}{command.launcher} becomes"
        yield f"  {command.text}"


def _finding_lines(file: Migrated) -> Iterator[str]:
    for finding in file.reading.findings:
        yield f"{_place_prefix(file, finding)}{finding.rule.id}: {finding.text}; {finding.advice}"
        yield from (f"  {line}" for line in finding.lines)


def _place_prefix(file: Migrated, item: LauncherRewrite | MigrationFinding) -> str:
    """Return "train.py:12: "; "" for a command line."""
    return f"{file.path}:{item.line}: " if file.path else ""


def _summary_lines(migration: Migration) -> Iterator[str]:
    findings = sum(len(file.reading.findings) for file in migration.files)
    if findings:
        yield ""
        yield count(findings, "finding")
    else:
        is_command = any(not file.path for file in migration.files)
        where = "" if is_command else f" in {count(migration.read, 'file')}"
        yield f"nothing discontinued found{where}"


def migration_document(migration: Migration) -> dict[str, Any]:
    """Return the document that --json prints."""
    return {
        "command": "migrate",
        "files_read": migration.read,
        "commands": [
            {
                **_place_document(file, command),
                "launcher": command.launcher,
                "text": command.text,
                "why": command.why,
            }
            for file in migration.files
            for command in file.reading.commands
        ],
        "findings": [
            {
                **_place_document(file, finding),
                "rule": finding.rule.id,
                "name": finding.name,
                "text": finding.text,
                "since": finding.rule.since,
                "use": finding.use,
                "lines": list(finding.lines),
            }
            for file in migration.files
            for finding in file.reading.findings
        ],
        "skipped": [{"file": path, "why": why} for path, why in migration.skipped],
    }


def _place_document(file: Migrated, item: LauncherRewrite | MigrationFinding) -> dict[str, Any]:
    return {"file": file.path or None, "line": item.line}
