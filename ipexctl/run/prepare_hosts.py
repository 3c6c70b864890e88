"""Prepare the hosts of a run: each is asked, and all must be able to take part."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from ipexctl.base import retry_command
from ipexctl.base.host_outcome import HostDown, HostState
from ipexctl.base.typed_command import Typed
from ipexctl.common.copy_messages import COPY_WORKER
from ipexctl.data.rules.dataset_rules import Held
from ipexctl.errors import NOT_THE_HOST, IpexctlError, RunFailed, Unreachable
from ipexctl.facts.env_choice import asked_env
from ipexctl.inventory.inventory import Host
from ipexctl.local import hostfile_reader
from ipexctl.local.environment import environment
from ipexctl.local.run_options import RunOptions
from ipexctl.machines.agent_start import AHEAD, Ahead
from ipexctl.machines.fleet import Fleet
from ipexctl.machines.probe_host import facts_request, read_facts_reply
from ipexctl.machines.suggested_commands import hint_install, merged_hints, retry_without
from ipexctl.run.outcome.run_result import EXIT_HOST_FAILED
from ipexctl.run.plan import launch_plan
from ipexctl.run.plan.launch import PlannedHost
from ipexctl.run.plan.port_plan import reserved_ports
from ipexctl.run.run_script import Script
from ipexctl.stack import mpi

EXIT_NOT_STARTED = 120

T = TypeVar("T")


def prepare_host(
    fleet: Fleet,
    host: Host,
    options: RunOptions,
    script: Script,
    run_id: str,
    datasets: dict[str, tuple[Held, ...]],
) -> PlannedHost:
    """Connect to a host; read its facts and environment in the same round trip."""
    root, env = fleet.root_of(host), script.env.key if script.env else ""
    facts_asked = replace(
        facts_request(root, listen=False, env=env, load=False),
        fork="restart.attempts.begin" if options.kept else "run.stand_by.begin",
        also=(COPY_WORKER,) * bool(options.checkpoints),
        sent=fleet.asked.set,
    )
    ports = reserved_ports(options.ports) if options.ports else None
    request = {"root": root, "run_id": run_id, "ports": ports, "pythons": _local_pythons(host)}
    extra = {"keeper": options.kept, **asked_env(script.env)}
    env_asked = Ahead("run.run_environment.find", {**request, **extra})
    agent = fleet.connect(host, ahead=[facts_asked, env_asked])
    if agent.hello.kind != "python":
        raise _not_ready(f"{host.name}: no Python 3.6 or newer on this host", "ipexctl doctor")
    facts = read_facts_reply(agent, AHEAD, agent.hello.sent, root)[0]
    with hint_install(fleet.target, script.env, fleet.root):
        done = agent.wait(AHEAD + 1).done
    found = launch_plan.read_env_found(done, script.env)
    prepared = launch_plan.prepared_with(found, script.env)
    if found.mpi == mpi.SYSTEM and not prepared.mpi:
        raise mpi.no_mpirun(host.name, found.system)
    if prepared.mpi and not found.mpirun and not found.mpi:
        raise _not_ready(f"{host.name}: there is no mpirun in {prepared.prefix}", "ipexctl install")
    if options.data:
        from ipexctl.data import data

        datasets[host.name] = data.use_datasets(agent, root, options.data)
    return PlannedHost(host, facts, prepared)


def _local_pythons(host: Host) -> list[str]:
    """Return the user's Pythons on this machine, where ipexctl may not have installed any."""
    if not host.local:
        return []
    active = [environment().get(name) for name in ("VIRTUAL_ENV", "CONDA_PREFIX")]
    on_path = [shutil.which(name) for name in ("python3", "python")]
    last = [*filter(None, on_path), sys.executable]
    return [*(f"{prefix}/bin/python" for prefix in active if prefix), *last]


def _not_ready(what: str, hint: str) -> RunFailed:
    return RunFailed(what, hint=hint, slug="not-installed")


def call_every_host(
    fleet: Fleet,
    work: Callable[[Host], T],
    hosts: Sequence[Host] | None = None,
    *,
    typed: Typed,
    spares: Sequence[Host] = (),
) -> dict[Host, T]:
    """Do the same on all hosts, and require success: a run needs every one of them. A spare that is
    not reached is left out."""
    from ipexctl.hosts.trust import unknown_keys

    results = fleet.map_hosts(work, hosts)
    for host in spares if results else ():
        if (down := fleet.downs.get(host)) and down.state is HostState.UNREACHABLE:
            fleet.target.note(f"{host.name} does not stand by as a spare: {down.what}")
            fleet.leave_out(host)
    if downs := list(fleet.downs.values()):
        if downs[0].slug == "not-installed" and not (fleet.target.hostfile or fleet.target.hosts):
            raise _explain_no_hosts(downs[0], typed)
        blamed = [down.host for down in downs if down.slug not in NOT_THE_HOST]
        retry = retry_without(typed, blamed) if results and len(blamed) == len(downs) else ""
        raise unknown_keys(downs, fleet.target) or _merge_host_failures(downs, len(results), retry)
    return results


def _explain_no_hosts(down: HostDown, typed: Typed) -> RunFailed:
    """Make the error for a command without hosts that this machine cannot run either."""
    file = hostfile_reader.hostfile_here()
    complete = replace(typed, options=(*typed.options, "-f", file))
    command = retry_command.compose_retry_command(complete, (), None) if file else ""
    hint = [f"{command}   # on the hosts of {file}" if command else ""]
    hint += ["" if file else hostfile_reader.NEW, f"{down.hint}   # to use this machine"]
    why = "no hosts are given (-f, -H), so this machine is used"
    return RunFailed(
        down.what,
        why=f"{why}, {down.why}" if down.why else why,
        hint="\n".join(filter(None, hint)),
        exit_code=EXIT_HOST_FAILED,
    )


def _merge_host_failures(downs: Sequence[HostDown], succeeded: int, retry: str) -> IpexctlError:
    """Make one error of all failures. `succeeded`: number of hosts without one."""
    first, total = downs[0], len(downs) + succeeded
    what, why, slug = first.what, first.why, first.slug
    unreachable = any(down.state is HostState.UNREACHABLE for down in downs)
    lines = (retry, merged_hints(downs)) if unreachable else (merged_hints(downs), retry)
    hint = "\n".join(filter(None, lines))
    if len(downs) > 1:
        what = f"{len(downs)} of {total} hosts cannot run this"
        why = "\n".join(down.what for down in downs)
        slug = "hosts-not-ready"
    if unreachable:
        meant = next((down for down in downs if any(down.meant)), downs[0])
        error = Unreachable(what, why=why, hint=hint, slug=slug)
        return error.with_meant(*meant.meant, at=meant.meant_at)
    only_missing = all(down.slug == "not-installed" for down in downs)
    code = EXIT_HOST_FAILED if only_missing else EXIT_NOT_STARTED
    return RunFailed(what, why=why, hint=hint, slug=slug, exit_code=code)


def note_borrowed_envs(nodes: Iterable[PlannedHost]) -> Iterator[str]:
    for node in nodes:
        if node.prepared.borrowed:
            version = dict(node.prepared.packages).get("torch", "")
            started = f"by {node.prepared.mpi}" if node.prepared.mpi else "without MPI"
            yield (
                f"nothing is installed here, so {node.prepared.prefix}/bin/python3 is used: "
                f"torch {version}".rstrip()
                + f", ranks are started {started}"
            )
