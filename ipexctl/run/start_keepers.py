"""run --restarts: the orders of a run whose hosts start it again, and its spares."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ipexctl.base.typed_command import Typed
from ipexctl.errors import InputError
from ipexctl.inventory.host_patterns import select_hosts
from ipexctl.inventory.inventory import Host, Inventory
from ipexctl.local.run_options import WAIT_FOR_HOSTS, RunOptions
from ipexctl.machines.fleet import Fleet
from ipexctl.machines.target import Target
from ipexctl.run.plan.checkpoint_options import describe_one_checkpoint
from ipexctl.run.plan.launch import LaunchPlan, PlannedHost
from ipexctl.run.prepare_hosts import call_every_host
from ipexctl.run.run_script import Script
from ipexctl.run.watch.start_request import Orders, compose_restart_plans
from ipexctl.user_code.source import CHECKPOINT

Note = Callable[[str], None]
NEEDED = "option-needs-restarts"


def check_restart_options(options: RunOptions) -> None:
    """Raise InputError for an option that has no meaning without --restarts."""
    if options.restarts:
        return
    for option, value in (
        ("--spares", options.spares),
        ("--min-hosts", options.min_hosts),
        ("--wait-for-hosts", options.wait_for_hosts != WAIT_FOR_HOSTS),
        ("--stall-action restart", options.stall_action == "restart"),
        ("--without-checkpoint", options.without_checkpoint != "wait"),
    ):
        if value:
            raise InputError(f"{option} needs --restarts", hint="--restarts 3", slug=NEEDED)


def select_spares(options: RunOptions, hosts: Inventory) -> tuple[Host, ...]:
    """Return the spares. Raise InputError."""
    if not options.spares:
        return ()
    spares = select_hosts(hosts, options.spares, option="--spares").hosts
    if len(spares) == len(hosts.hosts):
        raise InputError(
            "--spares selects every host, which leaves none to start on", slug="spares-select-all"
        )
    return spares


def add_spares(target: Target, options: RunOptions) -> Target:
    """Add the spares to the target, whichever hosts --limit selects."""
    if not target.limit or not options.spares:
        return target
    return replace(target, limit=(*target.limit, *options.spares))


def review_restarts(
    options: RunOptions, script: Script, hosts: int, spares: int, note: Note
) -> None:
    """Check the options. `hosts`: number of hosts of the first attempt; `spares`: of those beside
    them. Raise InputError."""
    if together := describe_one_checkpoint(options.checkpoints):
        note(together)
    if not options.restarts:
        return
    if (options.min_hosts or 0) > hosts:
        raise InputError(
            f"--min-hosts {options.min_hosts}: the run has {hosts} hosts",
            slug="min-hosts-too-many",
        )
    if hosts + spares == 2:
        note(
            "--restarts on two hosts: a lost host ends the run, as more than half of the hosts "
            "have to be there; add one, any machine: --spares HOST"
        )
    called = {name for source in script.sources for name in source.called}
    frameworks = script.frameworks.used if script.frameworks else ()
    reads = any(CHECKPOINT in source.reads for source in script.sources)
    loads = frameworks or reads or any(name.startswith("load") for name in called)
    if options.checkpoints and called and not loads:
        note(
            f"{script.argv[0]} loads nothing, so each attempt starts from the beginning; it has to "
            "read the checkpoint in IPEXCTL_CHECKPOINT (docs/restarts.md)"
        )


def prepare_keepers(
    fleet: Fleet,
    orders: Orders,
    nodes: Sequence[PlannedHost],
    work: Mapping[str, tuple[str, str]],
    plan: Callable[[Sequence[PlannedHost], RunOptions], LaunchPlan],
) -> Orders:
    """Return the orders with which the hosts' keepers begin; spares stand by once this returns, and
    all hosts of a run that is queued.
    `nodes`: the hosts that the first attempt may have, then the spares."""
    original, first = orders.options, orders.plan.hosts
    ppn = len(first[0].ranks) if original.n or original.ppn else None

    def orders_on(chosen: Sequence[PlannedHost], ranks: int | None = None) -> Orders:
        options = replace(original, n=None, ppn=ranks or ppn)
        return replace(orders, plan=plan(chosen, options), options=options, keys={}, resumed="")

    clock = nodes[0].facts.clock  # which all that queue a run there have in common
    queued = time.time() + (clock.offset if clock else 0.0) if original.queue else 0.0
    plans = compose_restart_plans(orders, nodes, work, orders_on, queued)
    starting = set() if queued else {host.host for host in first}
    spares = [node.host for node in nodes if node.host.name not in starting]
    if spares:
        everywhere = replace(orders, plan=orders_on(nodes).plan, restart_plans=plans)
        if orders.plan.candidates:
            everywhere = replace(everywhere, about=orders.about.replace(any_of=len(first)))
        _start_spares(fleet, spares, everywhere, work)
    return replace(orders, restart_plans=plans)


def _start_spares(
    fleet: Fleet, spares: Sequence[Host], orders: Orders, work: Mapping[str, tuple[str, str]]
) -> None:
    def stand_by(host: Host) -> None:
        order = orders.compose_start_order(host.name, work[host.name][0])
        order = order.replace(spare=True, run=None, root=fleet.root_of(host), host=host.name)
        fleet.agents[host].call("restart.attempts.spare", order.document())

    call_every_host(fleet, stand_by, spares, typed=Typed())
