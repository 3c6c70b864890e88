"""run --restarts: the orders of a run whose hosts start it again, and its spares."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ipexctl.base.typed_command import Typed
from ipexctl.errors import InputError
from ipexctl.inventory.host_patterns import select
from ipexctl.inventory.inventory import Host, Inventory
from ipexctl.machines.fleet import Fleet
from ipexctl.run.plan.launch import LaunchPlan
from ipexctl.run.plan.plan_request import Node
from ipexctl.run.plan.run_options import RunOptions
from ipexctl.run.prepare_hosts import each
from ipexctl.run.watch.start_request import Orders

NEEDED = "option-needs-restarts"


def check(options: RunOptions) -> None:
    """Raises InputError for an option that means nothing without --restarts."""
    if options.restarts:
        return
    for option, given in (
        ("--spares", options.spares),
        ("--min-hosts", options.min_hosts),
        ("--stall-action restart", options.stall_action == "restart"),
    ):
        if given:
            raise InputError(f"{option} needs --restarts", hint="--restarts 3", slug=NEEDED)


def spares_of(options: RunOptions, hosts: Inventory) -> tuple[Host, ...]:
    """Raises InputError."""
    if not options.spares:
        return ()
    spares = select(hosts, options.spares, option="--spares").hosts
    if len(spares) == len(hosts.hosts):
        raise InputError(
            "--spares selects every host, which leaves none to start on", slug="spares-select-all"
        )
    return spares


def kept_going(
    fleet: Fleet, orders: Orders, nodes: Sequence[Node], work: Mapping[str, tuple[str, str]],
    plan: Callable[[Sequence[Node], RunOptions], LaunchPlan],
) -> Orders:  # fmt: skip
    """Orders with which the hosts' keepers begin; spares stand by once this returns. `nodes`: the
    hosts of the first attempt, then the spares."""
    from ipexctl.run.restart.host_sheets import Cast, nights

    given = orders.options
    ppn = len(orders.plan.hosts[0].ranks) if given.n or given.ppn else None
    options = replace(given, n=None, ppn=ppn)

    def plan_on(chosen: Sequence[Node]) -> LaunchPlan:
        return plan(chosen, options)

    def orders_of(made: LaunchPlan) -> Orders:
        return replace(orders, plan=made, keys={}, resumed="")

    cast = Cast(orders.plan, nodes, plan_on, orders_of, work, orders.keys, orders.resumed)
    made = nights(cast)
    first = {host.host for host in orders.plan.hosts}
    spares = [node.host for node in nodes if node.host.name not in first]
    if spares:
        _stand_by(fleet, spares, replace(orders, plan=plan_on(nodes), nights=made), work)
    return replace(orders, nights=made)


def _stand_by(
    fleet: Fleet, spares: Sequence[Host], of_all: Orders, work: Mapping[str, tuple[str, str]]
) -> None:
    def stand_by(host: Host) -> None:
        asked = {**of_all.of(host.name, work[host.name][0]), "spare": True, "run": None}
        asked |= {"root": fleet.root_of(host), "host": host.name}
        fleet.agents[host].call("restart.attempts.spare", asked)

    each(fleet, stand_by, spares, typed=Typed())
