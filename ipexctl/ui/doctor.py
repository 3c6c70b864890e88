"""A doctor's report as text: verdict, hosts in few rows, then what was found."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import IO

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ipexctl.core import facts as of
from ipexctl.core import isa
from ipexctl.core.checks.cluster import GIB
from ipexctl.core.inventory import fold
from ipexctl.core.model import Facts, Finding, HostDown, Severity
from ipexctl.verbs.doctor import Report

WIDE = 120
WITHOUT_TERMINAL = 160
_STYLES = {
    "ok": "green",
    "warn": "yellow",
    "fail": "red",
    "failed": "red",
    "unreachable": "bright_red",
    "note": "cyan",
}
Row = tuple[str, ...]


def show(report: Report, file: IO[str], *, verbose: bool = False, width: int | None = None) -> None:
    """Colours and the terminal's width only on a terminal; rich itself honours NO_COLOR."""
    console = Console(file=file, width=width, highlight=False, markup=False, emoji=False)
    if width is None and not console.is_terminal:
        console.width = WITHOUT_TERMINAL
    console.print(verdict(report))
    console.print()
    console.print(_table(report, wide=console.width >= WIDE))
    for part in (*_down(report, verbose=verbose), *_findings(report, verbose=verbose)):
        # a command to copy is broken by the terminal alone, never by us
        console.print(part, soft_wrap=isinstance(part, Text))


def verdict(report: Report) -> Text:
    """One line that answers the question."""
    states = [report.state(h.name) for h in report.hosts]
    good = sum(s in ("ok", "warn") for s in states)
    total = len(states)
    text = Text()
    color = "green" if good == total else "red"
    text.append(f"{good} of {total} host{'s' if total != 1 else ''} can train", f"bold {color}")
    together = any(f.severity is Severity.FAIL and not f.host for f in report.findings)
    if together and good:
        text.append(", but not together", "bold red")
    counted = [
        (states.count("unreachable"), "unreachable"),
        (states.count("failed") + states.count("fail"), "failed"),
        (len(_grouped(report.findings, Severity.WARN)), "warning"),
        (len(_grouped(report.findings, Severity.NOTE)), "note"),
    ]
    words = [
        f"{n} {word}{'s' if n > 1 and word in ('warning', 'note') else ''}"
        for n, word in counted
        if n
    ]
    return text.append("".join(f" · {w}" for w in words)).append(f" · {report.seconds:.1f} s")


# --- the table -----------------------------------------------------------------------------------

_COLUMNS = ("host", "state", "cpu", "cores", "memory", "python", "address")
_WIDE_COLUMNS = (*_COLUMNS, "nic", "processor", "system")


def _table(report: Report, *, wide: bool) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in _WIDE_COLUMNS if wide else _COLUMNS:
        right = name in ("cores", "memory")
        table.add_column(
            name,
            justify="right" if right else "left",
            overflow="fold",
            no_wrap=name in ("state", "cpu", "cores", "memory"),
        )
    for names, row, addresses in _rows(report):
        state, *rest = row
        shown = [*rest[:4], fold(a for a in addresses if a), *rest[4:]]
        cells = [Text(state, _STYLES[state]), *(Text(of.plain(word)) for word in shown)]
        table.add_row(Text(of.plain(fold(names))), *cells[: len(table.columns) - 1])
    return table


def _rows(report: Report) -> list[tuple[list[str], Row, list[str]]]:
    """Hosts that look the same, together: their names, what they share, their addresses."""
    found: dict[Row, tuple[list[str], list[str]]] = {}
    for host in report.hosts:
        facts = report.facts_of(host.name)
        row = (report.state(host.name), *(_row(facts) if facts else ("",) * 7))
        names, addresses = found.setdefault(row, ([], []))
        names.append(host.name)
        addresses.append(of.peer_address(facts) if facts else "")
    return [(names, row, addresses) for row, (names, addresses) in found.items()]


def _row(facts: Facts) -> Row:
    return (
        isa.level(facts.cpu) or facts.cpu.arch,
        _cores(facts),
        _memory(facts.mem.total),
        ", ".join(_minors(facts)),
        _nic(facts),
        _processor(facts),
        facts.os_name,
    )


def _cores(facts: Facts) -> str:
    """8, or 8×2 where each core runs two threads."""
    cores, cpus = of.cores(facts), of.usable(facts)
    if not cores or not cpus:
        return "?"
    if len(cpus) == cores:
        return str(cores)
    return f"{cores}×{len(cpus) // cores}" if len(cpus) % cores == 0 else f"{cores}/{len(cpus)}"


def _processor(facts: Facts) -> str:
    """Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz -> Intel Xeon E5-2680 v4"""
    name = (facts.cpu.model_name or facts.cpu.vendor).partition(" @ ")[0]
    return " ".join(re.sub(r"\((R|TM|tm)\)|\bCPU\b|\bProcessor$", " ", name).split())


def _memory(total: int | None) -> str:
    return "?" if total is None else f"{total / GIB:.0f} GiB"


def _minors(facts: Facts) -> list[str]:
    """The newest three."""
    minors = sorted({p.version[:2] for p in facts.pythons}, reverse=True)
    shown = [".".join(map(str, m)) for m in minors[:3]]
    return shown + ["…"] if len(minors) > 3 else shown or ["none"]


def _nic(facts: Facts) -> str:
    address = of.peer_address(facts)
    own = [n.name for n in facts.net.nics if address and address in n.addresses]
    return own[0] if own else facts.net.default_nic


# --- below the table -----------------------------------------------------------------------------


def _down(report: Report, *, verbose: bool) -> Iterable[Text | Padding]:
    unknown = [d for d in report.down if d.slug == "host-key-unknown"]
    if unknown:
        names = fold(d.host for d in unknown)
        yield _heading("unreachable", "", names, "nobody has vouched for these host keys yet")
        for down in unknown:
            yield _line("key", f"{down.host}: {down.why or down.what}")
        yield _fix(f"{report.trust}   (compare the fingerprints first)")
    for down in report.down:
        if down not in unknown:
            yield from _one_down(down, verbose=verbose)


def _one_down(down: HostDown, *, verbose: bool) -> Iterable[Text | Padding]:
    state = "unreachable" if down.slug.startswith(("unreachable", "host-key")) else "failed"
    what = down.what.removeprefix(f"{down.host}: ")
    yield _heading(state, "", down.host, what)
    why = down.why if verbose else down.why.strip().rpartition("\n")[2]
    if why:
        yield _line("why", why)
    if down.hint:
        yield _fix(down.hint)


def _findings(report: Report, *, verbose: bool) -> Iterable[Text | Padding]:
    for severity in Severity:
        for same in _grouped(report.findings, severity):
            first = same[0]
            names = fold(f.host for f in same) if first.host else "all hosts"
            yield _heading(severity.value, first.id, names, first.title)
            yield from (_line("seen", text) for text in _evidence(same))
            if verbose:
                yield _line("why", first.why)
            yield _fix(first.fix)


def _grouped(findings: Iterable[Finding], severity: Severity) -> list[list[Finding]]:
    """Findings with the same id, words and fix, on whatever hosts."""
    found: dict[tuple[str, str, str], list[Finding]] = {}
    for f in findings:
        if f.severity is severity:
            found.setdefault((f.id, f.title, f.fix), []).append(f)
    return list(found.values())


def _evidence(same: list[Finding], most: int = 4) -> list[str]:
    """Each different thing that was seen, with its hosts where they saw different things."""
    hosts: dict[str, list[str]] = {}
    for f in same:
        hosts.setdefault(f.evidence, []).append(f.host)
    if len(hosts) == 1:
        return list(hosts)
    lines = [f"{fold(names)}: {text}" for text, names in hosts.items()]
    more = len(lines) - most
    return lines if more <= 0 else [*lines[:most], f"… and {more} more"]


def _heading(state: str, number: str, names: str, title: str) -> Text:
    text = Text("\n")
    text.append(state, f"bold {_STYLES[state]}")
    if number:
        text.append(f" {number}")
    return text.append(f"  {of.plain(names)}: ", "bold").append(of.plain(title))


def _fix(text: str) -> Text:
    return Text("\n".join(f"  fix {of.plain(line)}" for line in text.splitlines()))


def _line(label: str, text: str) -> Padding:
    lines = Text()
    for i, line in enumerate(text.splitlines() or [""]):
        lines.append("\n" if i else "").append(of.plain(line))
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column(overflow="fold")
    grid.add_row(label, lines)
    return Padding(grid, (0, 0, 0, 2), expand=False)
