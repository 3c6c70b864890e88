"""What --fix would do on a host, and the script of what only root can do. Pure.

Ours to change is little on purpose: what a user may undo, and what no running program can notice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ipexctl.core.doctor.suggested_fix import Command, Shell
from ipexctl.core.facts.host_facts import count_or_none, plain
from ipexctl.core.inventory import fold
from ipexctl.core.model import Finding, Severity

MOST = 1000


@dataclass(frozen=True)
class Change:
    """One thing that will be changed, in the host's words. `key` is what the host knows it by."""

    key: str
    what: str
    undo: str
    size: int = 0


@dataclass(frozen=True)
class Plan:
    """`left` is what looks like a case for us and is not safe: told, and left alone."""

    host: str
    changes: tuple[Change, ...]
    left: tuple[str, ...] = ()


@dataclass(frozen=True)
class Done:
    """`record` is the file on the host that --undo needs; "" when nothing was changed."""

    host: str
    done: tuple[str, ...]
    failed: tuple[str, ...] = ()
    record: str = ""


def plan(host: str, raw: Mapping[str, Any]) -> Plan:
    return Plan(host, tuple(_changes(raw.get("changes"))), _texts(raw.get("left")))


def done(host: str, raw: Mapping[str, Any]) -> Done:
    return Done(host, _texts(raw.get("done")), _texts(raw.get("failed")), plain(raw.get("record")))


def _changes(rows: Any) -> Iterable[Change]:
    for row in rows[:MOST] if isinstance(rows, list) else []:
        if isinstance(row, Mapping) and isinstance(row.get("key"), str):
            size = count_or_none(row.get("size")) or 0
            yield Change(row["key"], plain(row.get("what")), plain(row.get("undo")), size)


def _texts(rows: Any) -> tuple[str, ...]:
    found = (plain(row) for row in (rows[:MOST] if isinstance(rows, list) else []))
    return tuple(text for text in found if text)


# --- what needs root -----------------------------------------------------------------------------

# One step that fails must not keep the others from being done. No `exit`: some paste this.
_START = ("bad=", 'failed() { echo "$1: failed" >&2; bad=1; }')
_END = ('test -z "$bad"',)


def scripts(findings: Sequence[Finding], hosts: Sequence[str]) -> list[tuple[list[str], str]]:
    """A shell script for each group of hosts that need the same. For reading, then for root."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for host in hosts:
        own = [f for f in findings if f.host in ("", host) and f.severity is not Severity.NOTE]
        lines = tuple(line for f in own for line in _script_of(f))
        if lines:
            groups.setdefault(lines, []).append(host)
    return [(names, _script(names, lines)) for lines, names in groups.items()]


def _script(names: Sequence[str], lines: Sequence[str]) -> str:
    head = (
        f"# for {_comment(fold(names))}",
        "# written by `ipexctl doctor --fix --print`: read it, then run it there as a user of sudo",
    )
    return "\n".join([*head, *_START, *lines, "", *_END]) + "\n"


def _script_of(finding: Finding) -> list[str]:
    """Its commands; what is advice, a choice, or not plainly harmless stays a comment."""
    if not finding.fix.needs_root:
        return []
    live = ready_commands(finding)
    found = ["", f"# {finding.id} {_comment(finding.title)}"]
    for line, command in zip(finding.fix.lines, _unattended(finding), strict=True):
        done = command in live
        found.append(f"{command} || failed {finding.id}" if done else f"#   {_comment(line)}")
    return found


def ready_commands(finding: Finding) -> list[Command | Shell]:
    """Those that root can run without a question; none where there is a choice between some."""
    ready = [command for command in _unattended(finding) if command]
    return ready if len(ready) == 1 else []


def _unattended(finding: Finding) -> list[Command | Shell | None]:
    """One for each alternative."""
    return [
        next((p for p in parts if not isinstance(p, str) and p.unattended), None)
        for parts in finding.fix.alternatives
    ]


def _comment(text: str) -> str:
    return plain(" ".join(text.split()))
