"""The table of hosts: equal hosts share a row; as many columns as the terminal has room for."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.cells import cell_len
from rich.text import Text

from ipexctl.base.sizes import GIB
from ipexctl.doctor.report.report import Report
from ipexctl.doctor_command.report_lines import STYLES, fold_hosts, truncate_text
from ipexctl.facts import host_facts as of
from ipexctl.facts import isa, processors
from ipexctl.facts.facts import Facts
from ipexctl.quick_dataclass import dataclass

GAP = 2
ROWS = 12
# In the order of the screen; the last ones are left out first when there is no room.
COLUMNS = ("host", "state", "isa", "cores", "memory", "python", "address", "nic", "cpu", "system")
_RIGHT = ("cores", "memory")
_NEAR = 0.03  # amounts this close count as the same: kernels reserve different parts of it
Look = tuple[str, ...]


@dataclass(frozen=True)
class HostTableRow:
    """A row of the table; `cells` are for COLUMNS after host."""

    hosts: tuple[str, ...]
    state: str
    cells: tuple[str, ...]


def host_table_lines(report: Report, width: int | None, *, verbose: bool = False) -> list[Text]:
    rows = host_table_rows(report)
    shown = rows if verbose else rows[:ROWS]
    table = _fit_columns(_table_cells(shown, width, verbose=verbose), width)
    text = [_table_line(row, table, header=i == 0) for i, row in enumerate(table)]
    if len(rows) > len(shown):
        rest = sum(len(r.hosts) for r in rows[ROWS:])
        text.append(Text(f"… and {rest} more hosts in {len(rows) - ROWS} rows: -v", "dim"))
    return text


def whole_table(report: Report) -> tuple[list[str], list[list[str]]]:
    """Return the columns that have content, and their cells, not truncated."""
    rows = [(fold_hosts(row.hosts, None), row.state, *row.cells) for row in host_table_rows(report)]
    columns = [i for i in range(len(COLUMNS)) if any(cells[i] for cells in rows)]
    return [COLUMNS[i] for i in columns], [[cells[i] for i in columns] for cells in rows]


def host_table_rows(report: Report) -> list[HostTableRow]:
    """Return the rows, the largest group first, so that hosts that differ follow below."""
    sizes = _memory_texts(report.facts)
    by_look: dict[Look, list[Facts | None]] = {}
    names: dict[Look, list[str]] = {}
    for host in report.hosts:
        facts = report.facts_of(host.name)
        look = (report.state(host.name), *(_row_of_facts(facts, sizes) if facts else ("",) * 7))
        by_look.setdefault(look, []).append(facts)
        names.setdefault(look, []).append(host.name)
    rows = []
    for (state, level, cores, memory, pythons, nic, cpu, system), group in by_look.items():
        addresses = [a for a in (of.peer_address(f) if f else "" for f in group) if a]
        cells = (level, cores, memory, pythons, _addresses_text(addresses), nic, cpu, system)
        hosts = names[state, level, cores, memory, pythons, nic, cpu, system]
        rows.append(HostTableRow(tuple(hosts), state, cells))
    return sorted(rows, key=lambda row: -len(row.hosts))


def _addresses_text(addresses: Sequence[str]) -> str:
    return fold_hosts(addresses, 32) if addresses else ""


def _table_cells(
    rows: Sequence[HostTableRow], width: int | None, *, verbose: bool
) -> list[list[str]]:
    limit = None if verbose or width is None else max(24, width // 2)
    table = [list(COLUMNS)]
    for row in rows:
        cells = (truncate_text(cell, 40) for cell in row.cells)
        table.append([fold_hosts(row.hosts, limit), row.state, *cells])
    return table


def _fit_columns(table: list[list[str]], width: int | None) -> list[list[str]]:
    keep = [i for i in range(len(COLUMNS)) if any(row[i] for row in table[1:])]
    widths = [max(cell_len(row[i]) for row in table) for i in range(len(COLUMNS))]
    while width and len(keep) > 3 and sum(widths[i] + GAP for i in keep) - GAP > width:
        keep.pop()
    return [[row[i] for i in keep] for row in table]


def _table_line(row: list[str], table: list[list[str]], *, header: bool) -> Text:
    text = Text()
    for i, cell in enumerate(row):
        size = max(cell_len(cells[i]) for cells in table)
        pad = " " * (size - cell_len(cell))
        style = "bold" if header else STYLES.get(cell, "") if table[0][i] == "state" else ""
        text.append(pad + cell if table[0][i] in _RIGHT else cell + pad, style)
        text.append(" " * GAP)
    text.rstrip()
    return text


# --- what a host looks like ----------------------------------------------------------------------


def _row_of_facts(facts: Facts, sizes: dict[int, str]) -> Look:
    return (
        (isa.cpu_level(facts.cpu) or facts.cpu.arch)
        + (" (simulated)" if facts.cpu.simulated else ""),
        _cores_text(facts),
        "?" if (memory := of.usable_memory(facts)) is None else sizes[memory],
        ", ".join(_python_minors(facts)),
        _nic_text(facts),
        _processor_text(facts),
        facts.os_name,
    )


def _memory_texts(hosts: Sequence[Facts]) -> dict[int, str]:
    """Return each amount of memory as text; amounts that are nearly the same get the same text."""
    texts: dict[int, str] = {}
    together: list[int] = []
    for total in [*sorted({n for n in map(of.usable_memory, hosts) if n is not None}), None]:
        if together and (total is None or total > together[0] * (1 + _NEAR)):
            texts.update(dict.fromkeys(together, f"{together[-1] / GIB:.0f} GiB"))
            together = []
        if total is not None:
            together.append(total)
    return texts


def _cores_text(facts: Facts) -> str:
    """Return the cores as text: "8", or "8×2" if each core runs two threads."""
    cores, cpus = of.count_usable_cores(facts), of.usable_cpus(facts)
    if not cores or not cpus:
        return "?"
    if len(cpus) == cores:
        return str(cores)
    return f"{cores}×{len(cpus) // cores}" if len(cpus) % cores == 0 else f"{cores}/{len(cpus)}"


def _processor_text(facts: Facts) -> str:
    """Return "Xeon E5-2680 v4, Broadwell" for "Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz".

    "AMD EPYC", shortened by a hypervisor, becomes "EPYC Turin".
    """
    name = (facts.cpu.model_name or facts.cpu.vendor).partition(" @ ")[0]
    name = " ".join(re.sub(r"\((R|TM|tm)\)|\bCPU\b|\bProcessor$", " ", name).split())
    generation = processors.processor_generation(facts.cpu)
    if not generation:
        return name
    name = name.removeprefix("Intel ").removeprefix("AMD ")
    if generation.startswith(name):
        return generation
    rest = " ".join(word for word in generation.split() if word not in name.split())
    return f"{name}, {rest}" if rest else name


def _python_minors(facts: Facts) -> list[str]:
    """Return the newest three Python versions."""
    minors = sorted({python.version[:2] for python in facts.pythons}, reverse=True)
    shown = [".".join(map(str, minor)) for minor in minors[:3]]
    return shown + ["…"] if len(minors) > 3 else shown or ["none"]


def _nic_text(facts: Facts) -> str:
    address = of.peer_address(facts)
    names = [n.name for n in facts.net.nics if address and address in n.addresses]
    return names[0] if names else facts.net.default_nic
