"""What `checkpoints` and `fetch --checkpoint` show."""

from __future__ import annotations

import os
from typing import Any

from rich.text import Text

from ipexctl.base.sizes import duration, human
from ipexctl.errors import printable
from ipexctl.inventory.hostfile_text import fold
from ipexctl.run.jobs.checkpoints import Fetched, Listed
from ipexctl.run.outcome.listed_checkpoints import Checkpoint
from ipexctl.terminal.console import print_lines, print_text, stdout_console
from ipexctl.terminal.recap_lines import host_documents, not_shown

NONE = "no checkpoints: it ran without --checkpoints, or none was finished"


def show_listed(found: Listed) -> None:
    console = stdout_console()
    print_text(console, printable(f"{found.run.id}  {found.run.about.name}".rstrip()))
    print_lines(console, [_line(one) for one in found.checkpoints] or [Text(f"  {NONE}")])
    print_lines(console, not_shown(found.recaps, found.answered))


def _line(one: Checkpoint) -> Text:
    step = "-" if one.step is None else str(one.step)
    age = f"{duration(one.age)} ago" if one.age is not None else ""
    line = Text(f"  step {step:>8}  {human(one.bytes):>9}  {age:>16}  {printable(one.name)}  ")
    if one.complete:
        return line.append(f"complete on {fold(one.hosts)}", "green")
    return line.append(f"not complete: {printable(one.why)}", "yellow")


def document(one: Checkpoint) -> dict[str, Any]:
    return {
        "name": one.name,
        "step": one.step,
        "bytes": one.bytes,
        "complete": one.complete,
        "why": one.why or None,
        "hosts": list(one.hosts),
        "age": None if one.age is None else round(one.age, 1),
    }


def listed_document(found: Listed) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "run_id": found.run.id,
        "name": found.run.about.name or None,
        "checkpoints": [document(one) for one in found.checkpoints],
        "not_asked": host_documents(found.recaps),
        "exit_code": found.exit_code,
    }


def show_brought(done: Fetched) -> None:
    console = stdout_console()
    print_lines(console, not_shown(done.recaps, done.answered))
    many = "file" if done.files == 1 else "files"
    what = f"{done.checkpoint.told}: {done.files} {many}, {human(done.checkpoint.bytes)}"
    print_text(console, printable(f"{what} in {os.path.relpath(done.path)}"))


def brought_document(done: Fetched) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "run_id": done.run.id,
        "checkpoint": document(done.checkpoint),
        "path": str(done.path),
        "files": done.files,
        "not_asked": host_documents(done.recaps),
        "exit_code": done.exit_code,
    }
