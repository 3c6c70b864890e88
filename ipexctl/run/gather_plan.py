"""run --explain: make the plan of a run without running it. Hosts are asked; nothing is sent."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ipexctl.data.rules.dataset_rules import Held
from ipexctl.facts.facts import Facts
from ipexctl.local.run_options import RunOptions
from ipexctl.machines.fleet import Fleet
from ipexctl.machines.target import Target
from ipexctl.project import send_agreed
from ipexctl.quick_dataclass import dataclass
from ipexctl.run import start_keepers
from ipexctl.run.outcome import line_filter
from ipexctl.run.plan.launch import LaunchPlan, Prepared
from ipexctl.run.preflight import review_script
from ipexctl.run.prepare_hosts import call_every_host, prepare_host
from ipexctl.run.run import check_run_options, read_line_choice
from ipexctl.run.run_plan import add_shares, choose_run_network, make_run_plan
from ipexctl.run.run_script import new_run_id, read_script

if TYPE_CHECKING:
    from ipexctl.run.network.network_choice import NetworkChoice


@dataclass(frozen=True)
class Planned:
    """A plan, and the inputs from which it was made (in the order of its hosts)."""

    plan: LaunchPlan
    facts: tuple[Facts, ...]
    networks: NetworkChoice | None = None  # None: there is nothing to choose between
    prepared: tuple[Prepared, ...] = ()


def gather_run_plan(target: Target, options: RunOptions) -> Planned:
    """Make the plan. Raise IpexctlError if `run` would, before it starts anything."""
    options = check_run_options(options)
    fleet = Fleet(start_keepers.add_spares(target, options), options.root)
    choice = read_line_choice(options, fleet.hosts)
    script = read_script(options, fits=False)  # a plan is no less true without arguments
    for note in script.notes:
        target.note(note)
    datasets: dict[str, tuple[Held, ...]] = {}
    run_id = new_run_id()
    with fleet:
        spares = start_keepers.select_spares(options, fleet.hosts)
        nodes = call_every_host(
            fleet,
            lambda host: prepare_host(fleet, host, options, script, run_id, datasets),
            typed=script.typed,
            spares=spares,
        )
        on_network, networks = choose_run_network(
            fleet, [*nodes.values()], options, script, target.note
        )
        spares = tuple(host for host in spares if host in nodes)
        first = [node for node in on_network if node.host not in spares]
        shared = add_shares(fleet, first, options, script, target.note)
        plan = make_run_plan(shared, options, script, datasets, run_id)
        line_filter.require_selected_ranks(choice, plan)
        by_name = {node.host.name: node for node in nodes.values()}
        planned = [by_name[host.host] for host in plan.hosts]
        start_keepers.review_restarts(options, script, len(planned), len(spares), target.note)
        agreeing = replace(options, confirm=send_agreed.answer_yes)
        files = script.read_files(agreeing, target.note, contents=False)
        review_script(
            script.argv, script.sources, plan, files, planned, target.note, force=options.force
        )
        facts, prepared = ([n.facts for n in planned], [n.prepared for n in planned])
        return Planned(plan, tuple(facts), networks, tuple(prepared))
