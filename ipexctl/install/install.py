"""Install: facts -> stack -> lock -> blobs on every host -> environment built, proved, current."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from ipexctl.base.host_outcome import HostState
from ipexctl.base.quoting import quote
from ipexctl.blobs.blob_store import missing_blobs
from ipexctl.common.root_paths import PATH_HINT, PATH_WHY, path_problem
from ipexctl.errors import HostFailed, Interrupted
from ipexctl.facts.facts import Facts
from ipexctl.facts.host_facts import peer_address
from ipexctl.facts.package_changes import compare_packages
from ipexctl.facts.pythons_facts import Python
from ipexctl.install import bundle as bundles
from ipexctl.install import carried_python, fleet_locks, requirement_files
from ipexctl.install.bundle import AcceptedBundle
from ipexctl.install.fetch_wheels import supply_wheels
from ipexctl.install.host_steps import dry_run_recaps, on_hosts, state_of
from ipexctl.install.install_options import InstallOptions
from ipexctl.install.install_plan import (
    HostInstall,
    InstallReport,
    Plan,
    Work,
    is_complete,
)
from ipexctl.install.lock_wheels import lock_for, not_here
from ipexctl.inventory.hostfile_text import fold
from ipexctl.inventory.inventory import Host
from ipexctl.local.project_lock import LOCK_FILE, by_lock_again, project_of, read_lock
from ipexctl.local.shipped_tables import stack_rows
from ipexctl.machines.agent import Agent
from ipexctl.machines.fleet import Fleet
from ipexctl.machines.probe_host import probe_facts
from ipexctl.machines.suggested_commands import suggest_command
from ipexctl.machines.target import Target
from ipexctl.packages.resolver import Resolved
from ipexctl.project.training_script import training_script
from ipexctl.stack import mpi
from ipexctl.stack.lock_file import Lock
from ipexctl.stack.selection import check_request
from ipexctl.stack.stack_decision import decide_stack
from ipexctl.terminal.progress import HostProgress


def install(target: Target, options: InstallOptions, progress: HostProgress) -> InstallReport:
    """Install. Raises NothingFits, InputError, NotHere; a failure on one host is in its recap."""
    began = time.monotonic()
    check_request(options.request)
    bundle = bundles.open_bundle(options)
    work = Work(options, progress)
    with Fleet(target, options.root) as fleet:
        requirement_files.extra_requirements(
            options.needs, None
        )  # report their errors before asking the hosts
        try:
            plan = plan_for(work, fleet, bundle)
            report = _apply_plan(work, fleet, plan, bundle) if plan else InstallReport()
        except KeyboardInterrupt:
            if work.switched:
                raise Interrupted(
                    f"interrupted; {fold(work.switched)} has the new environment, the other hosts "
                    "keep the one they had; run the same command again"
                ) from None
            raise
    recaps = report.recaps or fleet.recaps()
    fleet.remember_recaps(recaps)
    seconds = time.monotonic() - began - work.waited[0]
    report = replace(report, recaps=recaps, seconds=seconds, check=options.dry_run)
    ready = any(recap.state in (HostState.OK, HostState.CHANGED) for recap in recaps)
    if ready and not (options.dry_run or report.declined):
        script = training_script(Path.cwd())
        run = f"{suggest_command(target, 'run', options.root)} {quote((script,))}"
        return report if report.exit_code else replace(report, run=run)
    return replace(report, without_downs=fleet.without_downs())


# --- plan ----------------------------------------------------------------------------------------


def plan_for(work: Work, fleet: Fleet, bundle: AcceptedBundle | None = None) -> Plan | None:
    """Build the plan without changing anything. None if no host answered."""
    facts = fleet.map_hosts(lambda host: _read_facts(work, fleet, host))
    if not facts:
        return None
    resolved, new_lock = _resolve_files(work, tuple(facts.values()), bundle)
    lock = resolved.lock

    def part(host: Host) -> HostInstall:
        planned = _plan_host(work, fleet, host, lock)
        address, free = peer_address(facts[host]), facts[host].disk.free
        blobs = [package.blob for package in lock.files] if planned.needs_build else []
        missing = missing_blobs(fleet.agents[host], planned.state.root, blobs)
        return replace(planned, address=address, free=free, lacking=missing)

    parts = tuple(fleet.map_hosts(part).values())
    return Plan(
        resolved,
        parts,
        work.asked.folder,
        new_lock,
        () if bundle else not_here(lock),
        bool(bundle),
        work.asked.relay,
        fleet.failures,
    )


def _plan_host(work: Work, fleet: Fleet, host: Host, lock: Lock) -> HostInstall:
    own_mpi = lock.mpi if lock.mpi == mpi.SYSTEM else ""
    project = project_of(work.asked.folder)
    in_use, rebuild = work.asked.used, work.asked.rebuild
    state = state_of(fleet, host, lock.key, project, own_mpi, in_use)
    changes = compare_packages(
        dict(state.before_packages), {package.name: package.version for package in lock.packages}
    )
    complete = is_complete(state, lock.key, rebuild=rebuild)
    return HostInstall(host, state, complete, changes, rebuild=rebuild)


def _seen_again(work: Work, fleet: Fleet, plan: Plan) -> Plan:
    """Read the state of the hosts again: another install may have changed it since the plan."""
    parts = {part.host: part for part in plan.parts}
    lock = plan.lock

    def part(host: Host) -> HostInstall:
        current = _plan_host(work, fleet, host, lock)
        return replace(
            parts[host], state=current.state, complete=current.complete, changes=current.changes
        )

    reachable = [host for host in parts if host not in fleet.downs]
    return replace(plan, parts=tuple(fleet.map_hosts(part, reachable).values()))


def _read_facts(work: Work, fleet: Fleet, host: Host) -> Facts:
    requested = work.asked.python
    python = requested if "/" in requested else ""
    work.step(host.name, "connecting")
    agent = fleet.connect(host, python=python)
    seen = probe_facts(agent, fleet.root_of(host))
    if problem := path_problem(seen.disk.root, seen.disk.real):
        raise HostFailed(
            f"{host.name}: the root folder {problem}",
            why=PATH_WHY,
            hint=PATH_HINT,
            slug="root-path-unusable",
        )
    return _with_named(seen, agent, python)


def _resolve_files(
    work: Work, facts: Sequence[Facts], bundle: AcceptedBundle | None
) -> tuple[Resolved, bool]:
    """Return the files to install, and whether ipexctl.lock does not name them yet."""
    folder = work.asked.folder
    old = bundle.lock if bundle else read_lock(folder / LOCK_FILE)
    request = work.asked.request
    python = carried_python.python_to_carry(work, facts, old)
    if bundle:
        return bundles.resolve_from_bundle(facts, request, python, bundle), bundle.new_lock
    resolved, new_lock = lock_for(
        work, decide_stack(facts, request, old, stack_rows(), python).candidates, old
    )
    return carried_python.in_lock(resolved, python), new_lock or resolved.lock.cpython != python


def _with_named(facts: Facts, agent: Agent, path: str) -> Facts:
    """Add the interpreter that the user named: it runs our agent, if it runs at all."""
    hello = agent.hello
    if not path or path not in (hello.path, hello.started) or len(hello.python) != 3:
        return facts
    major, minor, patch = hello.python
    return replace(facts, pythons=(*facts.pythons, Python(path, (major, minor, patch))))


# --- apply ---------------------------------------------------------------------------------------


def _apply_plan(
    work: Work, fleet: Fleet, plan: Plan, bundle: AcceptedBundle | None
) -> InstallReport:
    """Show the plan, and carry it out unless --check was given or the user declines."""
    work.progress.chosen(plan)
    agreed = not plan.todo or work.confirm_plan(plan)
    if work.asked.dry_run or not agreed:
        recaps = fleet.recaps(dry_run_recaps(plan, agreed=agreed))
        return InstallReport(recaps, plan=plan, declined=not agreed)
    files = supply_wheels(work, plan, bundle)
    project = project_of(plan.folder)
    with fleet_locks.hold_locks(fleet, project, work.step) if plan.todo else nullcontext():
        plan = _seen_again(work, fleet, plan) if plan.todo else plan
        if files.complete:
            files.wait_for_files()
        results, moved = on_hosts(work, fleet, plan, files)
        if files.complete:  # also if every host failed
            files.wait_for_files()
        by_lock_again(plan.folder)
    return InstallReport(
        fleet.recaps(results), files.fetched_bytes(), moved.sent, passed=moved.passed, plan=plan
    )
