"""What the keepers of a run with --restarts need to start it again without this machine. Pure.

A sheet is what one host is told whichever other hosts take part. remote/restart/attempt_orders.py
puts the orders of an attempt together from them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from ipexctl.quick_dataclass import dataclass
from ipexctl.run.outcome.listed_checkpoints import resume_words
from ipexctl.run.plan import mpi, rank_variables, shown_plan
from ipexctl.run.plan.launch import HostPlan, LaunchPlan
from ipexctl.run.plan.plan_request import Node
from ipexctl.run.watch.start_request import Orders

VOTERS = 7  # hosts that keep the record of the run, and of which one leads
N = "{n}"  # as attempt_orders.py has it


@dataclass(frozen=True)
class Cast:
    """`first`: the plan of the first attempt. `nodes`: its hosts and then the spares. `plan`: of
    any of them, the host of rank 0 first. `orders`: by that plan. `work`: where ranks start, and
    the mark that this folder has on all hosts that share it, if any."""

    first: LaunchPlan
    nodes: Sequence[Node]
    plan: Callable[[Sequence[Node]], LaunchPlan]
    orders: Callable[[LaunchPlan], Orders]
    work: Mapping[str, tuple[str, str]]
    resumed: str = ""  # the checkpoint of the first attempt


def nights(cast: Cast) -> dict[str, dict[str, Any]]:
    """For the keeper of each host."""
    of_all = cast.plan(cast.nodes)
    orders = cast.orders(of_all)
    options, first = orders.options, [host.host for host in cast.first.hosts]
    least = len(first) if options.min_hosts is None else options.min_hosts
    leads = {node.host.name: _as_first(cast, node) for node in cast.nodes}
    places = [
        [node.host.name, leads[node.host.name].master_addr, node.prepared.keeper_port]
        for node in cast.nodes[:VOTERS]
    ]
    night = {
        "run_id": orders.run_id,
        "hosts": [node.host.name for node in cast.nodes],
        "first": first,
        "places": places,
        "restarts": options.restarts,
        "least": least,
        "lease": options.host_timeout,
        "kept": bool(options.checkpoints),
        "without": options.without_checkpoint,
    }
    more = {
        "common": _common(of_all, orders, cast.resumed),
        "sheets": {
            host.host: _sheet(host, leads[host.host], orders, cast.work[host.host])
            for host in of_all.hosts
        },
    }
    voters = [place[0] for place in places]
    return {name: night | (more if name in voters else {}) for name in cast.work}


def _as_first(cast: Cast, node: Node) -> LaunchPlan:
    return cast.plan([node, *(other for other in cast.nodes if other is not node)])


def _common(plan: LaunchPlan, orders: Orders, resumed: str) -> dict[str, Any]:
    shown = orders.shown()
    same = ("argv", "mpi", "ddp", "faster", "tuned", "secret", "host_timeout")
    return {
        "run_id": orders.run_id,
        "about": dict(orders.about),
        "of_all": orders.of_all(),
        "shown": {name: shown[name] for name in same},
        "varies": rank_variables.VARIES,
        "resume": list(resume_words(orders.options.resume_arg, "{checkpoint}")),
        "resumed": resumed,
    }


def _sheet(
    host: HostPlan, lead: LaunchPlan, orders: Orders, work: tuple[str, str]
) -> dict[str, Any]:
    cwd, mark = work
    asked = {**orders.of(host.host, cwd), "host": host.host, "run": None, "keys": {}}
    mpirun = [N if before == "-n" else word for before, word in pairwise(("", *lead.mpirun))]
    return {
        "asked": asked,
        "work": mark or host.host,
        "row": orders.row(host),
        "mpirun": mpirun,
        "line": mpi.machinefile([host], lead.mpi),
        "address": lead.master_addr,
        "port": lead.master_port,
        "shown": shown_plan.of_host(host),
    }
