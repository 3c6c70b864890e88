"""What the command that started a run recorded about it on this host."""

from ipexctl.common.attempt_record import RunQueued
from ipexctl.common.message import MYPY
from ipexctl.remote.run_files import attempt_lines, journal

if MYPY:
    from typing import Any


def read_about(folder: str) -> "dict[str, Any]":
    """Return what is recorded about a run; empty if it is unknown. One that is queued has no
    journal yet."""
    first_records = []  # type: list[dict[str, Any]]
    for host in journal.list_journal_hosts(folder)[:1]:
        first_records += journal.read_journal(folder, host)[: journal.FIRST]
    if not first_records:
        for host in journal.list_kept_hosts(folder)[:1]:
            first = next(attempt_lines.read_lines(folder, host), None)
            return first.about if isinstance(first, RunQueued) else {}
    abouts = (record.get("about") for record in first_records)
    return next((about for about in abouts if isinstance(about, dict)), {})


def read_owner(folder: str, user: str) -> str:
    """Return who started the run, as user@machine: several people may share the account `user`,
    which is returned where that is not known."""
    by = str(read_about(folder).get("by") or "")[:200]
    return "".join(by.split()) or user
