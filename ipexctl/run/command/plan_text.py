"""Print what `run --explain` shows: who runs where, and every variable with its reason."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from rich.text import Text

from ipexctl.base.quoting import quote
from ipexctl.base.sizes import count, fold_numbers
from ipexctl.base.wrapping import wrap_text
from ipexctl.inventory.hostfile_text import fold
from ipexctl.run.gather_plan import Planned
from ipexctl.run.outcome.result_document import full_plan
from ipexctl.run.plan import rank_variables
from ipexctl.run.plan.launch import YOURS_ANYHOW, HostPlan, LaunchPlan
from ipexctl.stack import mpi
from ipexctl.terminal.console import stdout_console

WIDTH = 80
COLUMN = 34


def show_plan(planned: Planned, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(plan_document(planned), indent=2))
        return
    console = stdout_console()
    for line in plan_lines(planned):
        console.print(line, soft_wrap=True)


def plan_lines(planned: Planned) -> Iterator[Text]:
    plan = planned.plan
    hosts, ranks = count(len(plan.hosts), "host"), count(plan.world_size, "rank")
    hosts = plan.hosts_text if plan.candidates else hosts
    master = "" if plan.candidates else f", master {plan.master}"
    launcher = mpi.flavour_title(plan.mpi)
    yield Text(f"{ranks} on {hosts}, {launcher}, {plan.backend}{master}", "bold")
    if plan.candidates:
        first = fold([host.host for host in plan.hosts])
        yield Text(f"It takes the first that are free; below is its plan on {first}.")
    if plan.environment:
        yield from map(Text, _wrap_text(str(plan.environment), "", "  "))
    for group in _groups(plan):
        yield Text("")
        yield from _host_lines(group)
    yield from _network_lines(planned)
    yield from _variable_lines(plan)
    if plan.notes:
        yield Text("")
    for note in plan.notes:
        yield from map(Text, wrap_text(f"note: {note}", WIDTH, "      "))
    yield Text("")
    yield Text("Nothing was started. A free port is chosen again when it runs.", "dim")


# --- hosts ---------------------------------------------------------------------------------------


def _groups(plan: LaunchPlan) -> list[list[HostPlan]]:
    """Group hosts whose ranks have the same cores."""
    groups: dict[object, list[HostPlan]] = {}
    for host in plan.hosts:
        places = tuple((place.cpus, place.comm, place.node) for place in host.ranks)
        groups.setdefault((places, host.nic, host.threads), []).append(host)
    return list(groups.values())


def _host_lines(group: Sequence[HostPlan]) -> Iterator[Text]:
    """Describe hosts of equal placement: a headline, then the CPUs of each rank."""
    host = group[0]
    ranks = count(len(host.ranks), "rank")
    threads = f", {count(host.threads, 'thread')} per rank" if host.threads else ""
    each = " on each" if len(group) > 1 else ""
    names = fold([host_plan.host for host_plan in group])
    yield Text(f"{names}: {ranks}{each}{threads}, interface {host.nic}", "bold")
    for i, place in enumerate(host.ranks):
        all_ranks = fold_numbers(host_plan.ranks[i].rank for host_plan in group)
        comm = f", communication on {fold_numbers(place.comm)}" if place.comm else ""
        node = f", memory of node {place.node} first" if place.node is not None else ""
        cpus = f"{'CPUs' if place.cpus[1:] else 'CPU'} {fold_numbers(place.cpus)}"
        cpus = cpus if place.cpus else "not pinned"
        yield from map(Text, _wrap_text(f"rank {all_ranks}: {cpus}{comm}{node}", "  ", "     "))


def _network_lines(planned: Planned) -> Iterator[Text]:
    if not planned.networks:
        return
    yield Text("")
    yield Text("Networks of all hosts", "bold")
    rows = planned.networks.list_rows()
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for nics, name, rate, remark in rows:
        line = f"  {nics:{widths[0]}}  {name:{widths[1]}}  {rate:>{widths[2]}}  {remark}"
        yield Text(line.rstrip())


# --- variables -----------------------------------------------------------------------------------


def _variable_lines(plan: LaunchPlan) -> Iterator[Text]:
    yield Text("")
    yield Text("Variables of the ranks", "bold")
    for name in dict.fromkeys(name for host in plan.hosts for name, _ in host.rank_env):
        yield from _variable(plan, name, [dict(host.rank_env).get(name) for host in plan.hosts])
    names = ", ".join(entry.name for entry in (*rank_variables.TABLE, rank_variables.ERROR_FILE))
    yield from map(
        Text, _wrap_text(f"Each rank also gets its place in the run: {names}.", "  ", "  ")
    )
    for name in plan.secret:
        yield from _variable_entry(name, "yours, from --secret-env: visible only to the ranks")
    yield Text("")
    yield Text("Variables of MPI's programs, too", "bold")
    first = plan.hosts[0]
    for name, _ in first.env:
        if name in dict(first.reasons):
            yield from _variable(plan, name, [dict(host.env).get(name) for host in plan.hosts])


def _variable(plan: LaunchPlan, name: str, values: Sequence[str | None]) -> Iterator[Text]:
    """Yield an entry for each value of a variable, with the hosts that have it."""
    entries: dict[tuple[str, str], list[str]] = {}
    for host, value in zip(plan.hosts, values, strict=True):
        why = dict(host.reasons).get(name, "")
        # a value that the user has set for the script may be a secret
        short = (value or "").replace(f"{host.prefix}/", "ENV/")
        entry = f"{name}={quote((short,))}" if why else name
        entries.setdefault((entry, why or YOURS_ANYHOW), []).append(host.host)
    for (entry, why), names in entries.items():
        where = f" ({fold(names)})" if len(entries) > 1 else ""
        yield from _variable_entry(entry, why + where)


def _variable_entry(entry: str, why: str) -> Iterator[Text]:
    """Yield a variable and its reason, on one line if the variable is short."""
    indent = " " * (COLUMN + 4)
    rest = _wrap_text(why, indent, indent)
    if len(entry) <= COLUMN:
        first = next(rest)
        yield Text(f"  {entry:{COLUMN}}  {first.lstrip()}")
    else:
        yield Text(f"  {entry}")
    yield from map(Text, rest)


def _wrap_text(text: str, first: str, rest: str) -> Iterator[str]:
    yield from textwrap.wrap(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )


def plan_document(planned: Planned) -> dict[str, Any]:
    networks = planned.networks.document() if planned.networks else []
    return {**full_plan(planned.plan), "networks": networks}
