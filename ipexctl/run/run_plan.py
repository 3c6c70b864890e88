"""Make the plan of a run from its hosts: which network, which share of the batch, which ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ipexctl.data.rules.dataset_rules import Held, check_versions
from ipexctl.local.run_options import RunOptions
from ipexctl.machines.fleet import Fleet
from ipexctl.run.network import rate_cache
from ipexctl.run.plan import interface_choice, launch_plan, ranks_per_host
from ipexctl.run.plan.dataset_variables import with_data
from ipexctl.run.plan.launch import LaunchPlan, PlannedHost, RunRequest
from ipexctl.run.run_script import Script
from ipexctl.user_code.frameworks import Frameworks
from ipexctl.user_code.source import SHARE

if TYPE_CHECKING:
    from ipexctl.run.network.network_choice import NetworkChoice


def choose_run_network(
    fleet: Fleet,
    nodes: Sequence[PlannedHost],
    options: RunOptions,
    script: Script,
    note: Callable[[str], None],
) -> tuple[Sequence[PlannedHost], NetworkChoice | None]:
    """Return the hosts with the network that their ranks use; None: there is only one."""
    variables = {*options.env, *options.secret_env}
    if not interface_choice.may_choose(nodes, variables):
        return nodes, None
    from ipexctl.run.network import measure_networks

    choice = measure_networks.choose_network(fleet, nodes, make_run_request(options, script), note)
    return (choice.assign_network(nodes) if choice else nodes), choice


def add_shares(
    fleet: Fleet,
    nodes: Sequence[PlannedHost],
    options: RunOptions,
    script: Script,
    note: Callable[[str], None],
) -> Sequence[PlannedHost]:
    """Return the hosts with their ranks' shares of the global batch, if the script uses them."""
    uses_share = any(SHARE in source.reads for source in script.sources)
    if not uses_share or SHARE in {*options.env, *options.secret_env}:
        return nodes
    from ipexctl.run.shares import measure_speeds

    return measure_speeds.measure_shares(fleet, nodes, make_run_request(options, script), note)


def make_run_plan(
    nodes: Sequence[PlannedHost],
    options: RunOptions,
    script: Script,
    datasets: Mapping[str, tuple[Held, ...]],
    run_id: str,
) -> LaunchPlan:
    """Make the plan of a run; check that its ranks and datasets fit the hosts."""
    plan = launch_plan.make_launch_plan(nodes, make_run_request(options, script), run_id)
    facts = {node.host.name: node.facts for node in nodes}
    plan = ranks_per_host.check_rank_room(plan, facts, force=options.force)
    plan = replace(plan, restarts=options.restarts)
    plan = replace(plan, tuned=was_tuned(plan))
    if options.data:
        folders = [name for name in options.data if Path(name).is_dir()]
        held = {host.host: datasets[host.host] for host in plan.hosts}
        check_versions(options.data, held, folders)
        plan = with_data(plan, datasets, options.env)
    return plan


def plan_candidates(
    plan: LaunchPlan,
    nodes: Sequence[PlannedHost],
    options: RunOptions,
    make_plan: Callable[[Sequence[PlannedHost], RunOptions], LaunchPlan],
) -> LaunchPlan:
    """Return a plan with ranks on every host that the run may have: what is sent, checked and
    recorded before it is known which of them it takes."""
    if not plan.candidates:
        return plan
    return make_plan(nodes, replace(options, n=None, ppn=len(plan.hosts[0].ranks)))


def was_tuned(plan: LaunchPlan) -> bool:
    return rate_cache.recall_rates(rate_cache.TUNED, _tuned_mark(plan)) is not None


def remember_tuned(plan: LaunchPlan) -> None:
    rate_cache.remember_rates(rate_cache.TUNED, _tuned_mark(plan), {}, complete=True)


def _tuned_mark(plan: LaunchPlan) -> str:
    """Return a mark of this folder on these hosts: a profile's settings hold for all scripts."""
    return "\n".join([str(Path.cwd()), *sorted(host.host for host in plan.hosts)])


def make_run_request(options: RunOptions, script: Script) -> RunRequest:
    return RunRequest(
        argv=script.argv,
        n=options.n,
        ppn=options.ppn,
        env=tuple(options.env.items()),
        ports=options.ports,
        secret=tuple(options.secret_env),
        frameworks=script.frameworks or Frameworks(grouped=True, trains=True),
        roots=script.roots,
        compress=options.compress,
        configured=options.configured,
        queue=options.queue,
    )
