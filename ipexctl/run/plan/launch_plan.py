"""Make a LaunchPlan from nodes and a request. Pure: the same facts always give the same plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ipexctl.base.host_answer import Answer
from ipexctl.common.env_answers import EnvFound
from ipexctl.errors import InputError, RunFailed
from ipexctl.facts import usable_cores
from ipexctl.facts.cpu_facts import CpuFacts
from ipexctl.facts.env_choice import EnvChoice, EnvUsed
from ipexctl.inventory.hostfile_text import fold
from ipexctl.run.plan import interface_choice, port_plan, rank_variables, ranks_per_host
from ipexctl.run.plan.launch import HostPlan, LaunchPlan, PlannedHost, Prepared, RunRequest, Socket
from ipexctl.run.plan.mpirun import machinefile_text, mpirun_command
from ipexctl.run.plan.placement import (
    decide_placement,
    host_variables,
    process_variables,
    rank_places,
    variables_of,
)
from ipexctl.run.plan.tuning_variables import Site
from ipexctl.stack import mpi


def make_launch_plan(nodes: Sequence[PlannedHost], request: RunRequest, run_id: str) -> LaunchPlan:
    """Plan the ranks, variables and mpirun command of a run. Raise RunFailed, InputError."""
    placement = decide_placement(nodes, request)
    first = placement.sites[0].node
    installed = _common_mpi([site.node for site in placement.sites])
    ipv6 = any(interface_choice.ipv6_only(site.node, site.nic) for site in placement.sites)
    starter = _starter_for_ipv6(installed, placement.backend.name) if ipv6 else installed
    if ipv6 and request.ports and starter == mpi.OPENMPI.name:
        raise RunFailed(
            "--ports cannot be used with Open MPI on hosts without an IPv4 address",
            why="over IPv6, its daemons cannot find each other at fixed ports",
            hint="leave --ports out, or: ipexctl install --mpi intel",
            slug="ports-need-ipv4",
        )
    hosts: list[HostPlan] = []
    rank = 0
    for i, site in enumerate(placement.sites):
        hosts.append(_host_plan(site, i, rank, request))
        rank += len(site.places.parts)
    _refuse_planned_secrets(request.secret, hosts)
    port_flags = port_plan.of_mpirun(hosts[0], mpi.FLAVOURS[starter].flags) if starter else ()
    run_dir = f"{first.facts.disk.root}/runs/{run_id}"
    return LaunchPlan(
        hosts=tuple(hosts),
        master_addr=placement.master_addr,
        master_port=placement.master_port,
        argv=request.argv,
        mpirun=mpirun_command(hosts[0], starter, rank, run_dir, port_flags, ipv6=ipv6),
        machinefile=machinefile_text(hosts, starter),
        notes=(*placement.notes, *_no_mpi(installed, starter)),
        backend=placement.backend.name,
        mpi=starter,
        secret=request.secret,
        run_id=run_id,
        ddp=request.frameworks.ddp,
        joins=request.frameworks.joins,
        trains=request.frameworks.trains,
        environment=_common_environment(nodes),
        candidates=ranks_per_host.find_candidates(nodes, request),
    )


def read_env_found(answer: Answer, choice: EnvChoice | None = None) -> EnvFound:
    """Read what a host would run with. Raise HostFailed if it is not as declared, or not the
    environment that was chosen."""
    found = answer.read(EnvFound)
    if found.port == 0:
        raise answer.invalid_reply("'port' is 0")
    if choice and choice.key and (not found.environment or found.environment.key != choice.key):
        raise answer.invalid_reply("an environment other than the requested one")
    return found


def prepared_with(found: EnvFound, choice: EnvChoice | None = None) -> Prepared:
    """Return what the plan of a run needs of a host's environment."""
    prefix, built = found.prefix, found.environment
    starter = mpi.in_packages(found.packages, prefix) or mpi.recognise_mpi(found.system)
    return Prepared(
        prefix,
        tuple(found.packages.items()),
        mpi.with_setvars(mpi.env_vars(prefix, starter), found.setvars),
        found.path,
        found.port,
        mpi=starter,
        preload=tuple(path for path in found.preload if path.startswith(f"{prefix}/")),
        allocators=tuple(found.allocators),
        borrowed=found.borrowed,
        accelerators=tuple(found.accelerators),
        modules=None if found.modules is None else frozenset(found.modules),
        environment=EnvUsed(built.key, built.built, tuple(built.users), choice) if built else None,
        keeper_port=found.keeper_port,
    )


def read_prepared(answer: Answer, choice: EnvChoice | None = None) -> Prepared:
    return prepared_with(read_env_found(answer, choice), choice)


def _refuse_planned_secrets(names: Sequence[str], hosts: Sequence[HostPlan]) -> None:
    """Refuse a secret for a variable that the plan sets."""
    placed = {entry.name for entry in rank_variables.TABLE}
    planned = placed | {name for host in hosts for name, _ in (*host.env, *host.rank_env)}
    for name in names:
        if name in planned or name.startswith("IPEXCTL_"):
            raise InputError(
                f"--secret-env {name}: ipexctl sets this variable, and it is not a secret",
                hint=f"--env {name}",
                slug="secret-is-planned",
            )


def _common_environment(nodes: Sequence[PlannedHost]) -> EnvUsed | None:
    """Return the environment of all hosts; None if ipexctl did not create it. Raise RunFailed."""
    environments = [node.prepared.environment for node in nodes]
    hosts: dict[str, list[str]] = {}
    for node, used in zip(nodes, environments, strict=True):
        if used:
            hosts.setdefault(f"{used.key} (project {used.project})", []).append(node.host.name)
    if len(hosts) > 1:
        raise RunFailed(
            "the hosts' current environments are not the same",
            why="; ".join(f"{key} on {fold(names)}" for key, names in hosts.items()),
            hint="ipexctl install   # in your project: `run` then uses the one of its ipexctl.lock",
            slug="environments-differ",
        )
    return environments[0]


def _common_mpi(nodes: Sequence[PlannedHost]) -> str:
    """Return the name of the MPI that all hosts have. Raise RunFailed if they differ."""
    by_host = {node.host.name: node.prepared.mpi for node in nodes}
    kinds = {(m.flavour, m.version) if m else () for m in by_host.values()}
    if len(kinds) > 1:
        raise RunFailed(
            "the hosts do not have one MPI in common",
            why="; ".join(f"{name}: {m or 'none'}" for name, m in by_host.items()),
            hint="ipexctl install",
            slug="no-common-mpi",
        )
    return mpi.row_of(nodes[0].prepared.mpi)


def _starter_for_ipv6(name: str, backend: str) -> str:
    """Return the MPI that starts the ranks if a host has no IPv4 address; NONE: this one cannot."""
    if name == mpi.NONE or mpi.FLAVOURS[name].ipv6 is not None:
        return name
    if backend == "mpi":
        raise RunFailed(
            f"{mpi.flavour_title(name)} cannot start ranks on hosts without an IPv4 address",
            why="its mpirun looks up IPv4 addresses only, and the backend mpi needs it",
            hint="ipexctl install --mpi openmpi   # or intel",
            slug="mpi-needs-ipv4",
        )
    return mpi.NONE


def _no_mpi(installed: str, starter: str) -> tuple[str, ...]:
    if installed == starter:
        return ()
    return (
        f"{mpi.flavour_title(installed)} needs IPv4 addresses, which some hosts lack: the agents "
        "start the ranks without MPI, which is enough for gloo",
    )


def _cores_by_socket(cpu: CpuFacts) -> tuple[Socket, ...]:
    location = {thread.id: (thread.socket, thread.node) for thread in cpu.cpus}
    sockets: dict[tuple[int | None, int | None], list[usable_cores.Core]] = {}
    for core in usable_cores.list_cores(replace(cpu, allowed=None)):
        sockets.setdefault(location[core[0]], []).append(core)
    return tuple((*key, tuple(cores)) for key, cores in sockets.items())


def _host_plan(site: Site, index: int, first_rank: int, request: RunRequest) -> HostPlan:
    node, nic = site.node, site.nic
    variables, shared = variables_of(site, request), process_variables(site, request)
    prepared = node.prepared
    starter = mpi.row_of(prepared.mpi)
    return HostPlan(
        host=node.host.name,
        label=mpi.host_label(starter, node.host.name, index),
        mpi_bin=prepared.mpi.bin if prepared.mpi else "",
        prefix=prepared.prefix,
        nic=nic,
        ranks=rank_places(site, first_rank),
        env=(*host_variables(site), *((v.name, v.value) for v in shared)),
        rank_env=tuple((v.name, v.value) for v in variables),
        threads=site.places.threads,
        quota=node.facts.cpu.quota,
        sockets=_cores_by_socket(node.facts.cpu),
        reasons=tuple((v.name, v.why) for v in (*variables, *shared) if v.why),
    )
