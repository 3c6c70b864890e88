"""The recap of each host, as lines and for --json, with which every command on hosts ends."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from rich.text import Text

from ipexctl.base.host_outcome import HostResult, HostState, without_host
from ipexctl.errors import printable_text
from ipexctl.inventory.hostfile_text import fold

_COLOURS = {
    HostState.OK: "green",
    HostState.CHANGED: "yellow",
    HostState.UNREACHABLE: "bold red",
    HostState.FAILED: "red",
    HostState.SKIPPED: "cyan",
}


def host_lines(recaps: Sequence[HostResult]) -> list[Text]:
    """Return one line per host, its reasons below, then the sum."""
    width = max((len(result.host) for result in recaps), default=0)
    lines = []
    for recap in recaps:
        lines.append(_recap_line(recap, width))
        notes = map(printable_text, recap.notes)
        lines += [Text(f"    {line}") for note in notes for line in note.splitlines()]
    return [*lines, count_states(recaps)]


def folded_lines(recaps: Sequence[HostResult]) -> list[Text]:
    """Return `host_lines`, where hosts that say the same share their lines."""
    groups: dict[tuple[object, ...], list[HostResult]] = {}
    for recap in recaps:
        groups.setdefault((recap.state, recap.detail, recap.notes), []).append(recap)
    together = [
        replace(group[0], host=fold([recap.host for recap in group])) for group in groups.values()
    ]
    return [*host_lines(together)[:-1], count_states(recaps)]


def not_shown(recaps: Sequence[HostResult], shown: int) -> list[Text]:
    """Return the hosts that a listing lacks."""
    if not recaps:
        return []
    return [*host_lines(recaps)[:-1], Text(f"shown: {shown} of {shown + len(recaps)} hosts")]


def hosts_with_lines(hosts: Iterable[tuple[str, Sequence[str]]]) -> str:
    """Return `node[01-03]: first line` and the others; hosts with the same lines share them."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for host, lines in hosts:
        groups.setdefault(tuple(lines), []).append(host)
    texts = (f"{fold(names)}: " + "\n".join(lines) for lines, names in groups.items())
    return "".join(f"{text}\n" for text in texts)


def count_states(recaps: Sequence[HostResult]) -> Text:
    return Text(" ".join(f"{s.value}={sum(r.state is s for r in recaps)}" for s in HostState))


def _recap_line(recap: HostResult, width: int) -> Text:
    line = Text(f"{recap.host:{width}}  ")
    line.append(f"{recap.state.value:11}", style=_COLOURS[recap.state])
    return line.append(f"  {printable_text(without_host(recap.host, recap.detail))}")


def host_documents(recaps: Sequence[HostResult]) -> list[dict[str, Any]]:
    """Return the documents. `slug`: the name of the error of a host that failed."""
    return [
        {
            "host": recap.host,
            "state": recap.state.value,
            "slug": recap.slug or None,
            "detail": recap.detail,
            "notes": list(recap.notes),
        }
        for recap in recaps
    ]
