"""Format a diagnosis as lines for a terminal, and as a document for --json.

Its sentences are those of rank_rules.py, run_rules.py and advice.py.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from ipexctl.base.sizes import duration, rank_text
from ipexctl.base.wrapping import wrap_text
from ipexctl.common.rank_looks import RankLook
from ipexctl.inventory.nodeset import fold
from ipexctl.run.hang.hang_report import Diagnosis, HangGroup, Situation, Suspect
from ipexctl.run.hang.rank_evidence import thread_text

MOST_LINES = 23  # lines: the caller puts one above
_CPU = re.compile(r", (\d+) % CPU$")


def diagnosis_lines(diagnosis: Diagnosis, width: int) -> list[str]:
    """Return suspects, then groups that wait, then the likely cause; limits if there is room."""
    width = max(60, width)
    end = _cut_lines(wrap_text(diagnosis.likely or diagnosis.headline, width, ""), 5, width)
    limits = [
        line for limit in diagnosis.limits for line in _cut_lines(wrap_text(limit, width), 2, width)
    ]
    limits = limits[:4]
    room = MOST_LINES - len(end) - len(limits)
    suspects = [line for block in _suspect_blocks(diagnosis, width) for line in block]
    groups = [line for block in _group_blocks(diagnosis, width) for line in block]
    suspect_room = max(room // 2, room - len(groups))
    suspects = _shorten_block(suspects, suspect_room)
    groups = _shorten_block(groups, room - len(suspects))
    return [*suspects, *groups, *end, *limits]


def diagnosis_document(diagnosis: Diagnosis) -> dict[str, Any]:
    return {
        "kind": diagnosis.kind.name,
        "headline": diagnosis.headline,
        "suspects": [{**vars(suspect)} for suspect in diagnosis.suspects],
        "groups": [{**vars(group), "ranks": [*group.ranks]} for group in diagnosis.groups],
        "likely": diagnosis.likely,
        "limits": [*diagnosis.limits],
    }


def stack_lines(situation: Situation) -> Iterator[str]:
    """Yield the Python stacks of all threads of the ranks and of their child processes."""
    for look in situation.looks:
        yield f"rank {look.rank} ({look.host}), PID {look.pid}"
        yield from _thread_lines(look, "  ")
        for child in look.children:
            yield f"  process {child.pid} ({child.name or '?'}), state {child.state}"
            yield from _thread_lines(child, "    ")


def _thread_lines(look: RankLook, indent: str) -> Iterator[str]:
    if not look.threads:
        yield f"{indent}no Python stack"
    for thread in look.threads:
        yield f"{indent}{'main thread' if thread.main else thread_text(thread)}"
        for frame in thread.frames:
            yield f"{indent}  {frame.path}:{frame.line} in {frame.function}"


def stack_document(look: RankLook) -> dict[str, Any]:
    return {
        "pid": look.pid,
        "threads": [
            {
                "name": thread.name or None,
                "main": thread.main,
                "frames": [[frame.path, frame.line, frame.function] for frame in thread.frames],
            }
            for thread in look.threads
        ],
        "children": [stack_document(child) for child in look.children],
    }


def _suspect_blocks(diagnosis: Diagnosis, width: int) -> list[list[str]]:
    """Format suspects; those that do the same share a line, with their range of CPU use."""
    by_activity = defaultdict[tuple[str, str], list[Suspect]](list)
    for suspect in diagnosis.suspects:
        by_activity[suspect.where, _CPU.sub("", suspect.doing)].append(suspect)
    return [
        _columns(_who_text(suspects), where, doing + _cpu_text(suspects), width)
        for (where, doing), suspects in by_activity.items()
    ]


def _cpu_text(suspects: list[Suspect]) -> str:
    percents = [int(match[1]) for suspect in suspects if (match := _CPU.search(suspect.doing))]
    if not percents:
        return ""
    low, high = min(percents), max(percents)
    return f", {low} % CPU" if low == high else f", {low}-{high} % CPU"


def _who_text(suspects: list[Suspect]) -> str:
    hosts = fold(suspect.host for suspect in suspects if suspect.host)
    return rank_text(suspect.rank for suspect in suspects) + (f" ({hosts})" if hosts else "")


def _group_blocks(diagnosis: Diagnosis, width: int) -> list[list[str]]:
    return [_group_lines(group, len(diagnosis.groups) == 1, width) for group in diagnosis.groups]


def _group_lines(group: HangGroup, only: bool, width: int) -> list[str]:
    count = len(group.ranks)
    label = f"{count} ranks" if only and count > 1 else rank_text(group.ranks)
    since = f" since {duration(group.seconds)}" if group.seconds and group.waits else ""
    verb = f" wait{'s' * (count == 1)} in" if group.waits else ""
    return _columns(label + verb, group.what + since, group.where, width)


def _columns(label: str, first: str, second: str, width: int) -> list[str]:
    """Format on one line if it fits, else with the last part below."""
    parts = [part for part in (first, second) if part]
    line = "  ".join(["", label, "   ".join(parts)])
    if len(line) <= width:
        return [line.rstrip()]
    head = f"  {label}  {parts[0]}"
    if len(parts) == 1 or len(head) > width:
        head, rest = f"  {label}", "   ".join(parts)
    else:
        rest = parts[1]
    return [
        _cut_line(head, width),
        *_cut_lines(wrap_text(f"      {rest}", width, "      "), 2, width),
    ]


def _cut_line(line: str, width: int) -> str:
    return line if len(line) <= width else line[: width - 1] + "…"


def _cut_lines(lines: list[str], limit: int, width: int) -> list[str]:
    short = [_cut_line(line, width) for line in lines if line.strip()]
    return (
        short
        if len(short) <= limit
        else [*short[: limit - 1], _cut_line(short[limit - 1] + " …", width)]
    )


def _shorten_block(lines: list[str], limit: int) -> list[str]:
    return lines if len(lines) <= limit else [*lines[: max(0, limit - 1)], "  …"]
