"""Make a LaunchPlan from nodes and a request. Pure: the same facts always give the same plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ipexctl.base.host_answer import Answer, AnyText
from ipexctl.errors import InputError, RunFailed
from ipexctl.facts import usable_cores
from ipexctl.facts.cpu_facts import CpuFacts
from ipexctl.facts.env_choice import EnvChoice, EnvUsed
from ipexctl.inventory.hostfile_text import fold
from ipexctl.run.plan import interface_choice, port_plan, rank_variables
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
from ipexctl.stack.mpi import HostMpi


def make_launch_plan(nodes: Sequence[PlannedHost], request: RunRequest, run_id: str) -> LaunchPlan:
    decided = decide_placement(nodes, request)
    first = decided.sites[0].node
    installed = _common_mpi([site.node for site in decided.sites])
    ipv6 = any(interface_choice.ipv6_only(site.node, site.nic) for site in decided.sites)
    starter = _starter_for_ipv6(installed, decided.backend.name) if ipv6 else installed
    if ipv6 and request.ports and starter == mpi.OPENMPI.name:
        raise RunFailed(
            "--ports cannot be used with Open MPI on hosts without an IPv4 address",
            why="over IPv6, its daemons cannot find each other at fixed ports",
            hint="leave --ports out, or: ipexctl install --mpi intel",
            slug="ports-need-ipv4",
        )
    hosts: list[HostPlan] = []
    rank = 0
    for i, site in enumerate(decided.sites):
        hosts.append(_host_plan(site, i, rank, request))
        rank += len(site.places.parts)
    _refuse_planned_secrets(request.secret, hosts)
    more = port_plan.of_mpirun(hosts[0], mpi.FLAVOURS[starter].flags) if starter else ()
    run_dir = f"{first.facts.disk.root}/runs/{run_id}"
    return LaunchPlan(
        hosts=tuple(hosts),
        master_addr=decided.master_addr,
        master_port=decided.master_port,
        argv=request.argv,
        mpirun=mpirun_command(hosts[0], starter, rank, run_dir, more, ipv6=ipv6),
        machinefile=machinefile_text(hosts, starter),
        notes=(*decided.notes, *_no_mpi(installed, starter)),
        backend=decided.backend.name,
        mpi=starter,
        secret=request.secret,
        run_id=run_id,
        ddp=request.frameworks.ddp,
        joins=request.frameworks.joins,
        trains=request.frameworks.trains,
        environment=_common_environment(nodes),
    )


def read_prepared(done: Answer, choice: EnvChoice | None = None) -> Prepared:
    """Read the environment that a host reports for a run. Raise HostFailed."""
    prefix, found = done.path("prefix"), done.value("packages", dict[str, str])
    system = done.optional("system", HostMpi)
    starter = mpi.in_packages(found, prefix) or (system.recognised if system else None)
    variables = done.value("setvars", dict[str, AnyText])
    preload = done.value("preload", tuple[str, ...])
    modules = done.optional("modules", tuple[str, ...])
    used = done.optional("environment", EnvUsed)
    if choice and choice.key and (not used or used.key != choice.key):
        raise done.odd("an environment other than the requested one")
    return Prepared(
        prefix,
        tuple(found.items()),
        mpi.with_setvars(mpi.env_vars(prefix, starter), variables),
        done.value("path", AnyText),
        done.whole("port", 65535, 1),
        mpi=starter,
        preload=tuple(path for path in preload if path.startswith(f"{prefix}/")),
        allocators=done.value("allocators", tuple[str, ...]),
        borrowed=done.flag("borrowed"),
        accelerators=done.value("accelerators", tuple[str, ...]),
        modules=None if modules is None else frozenset(modules),
        environment=replace(used, choice=choice) if used else None,
        keeper_port=done.whole("keeper_port", 65535),
    )


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
    found = [node.prepared.environment for node in nodes]
    hosts: dict[str, list[str]] = {}
    for node, used in zip(nodes, found, strict=True):
        if used:
            hosts.setdefault(f"{used.key} (project {used.project})", []).append(node.host.name)
    if len(hosts) > 1:
        raise RunFailed(
            "the hosts' current environments are not the same",
            why="; ".join(f"{what} on {fold(names)}" for what, names in hosts.items()),
            hint="ipexctl install   # in your project: `run` then uses the one of its ipexctl.lock",
            slug="environments-differ",
        )
    return found[0]


def _common_mpi(nodes: Sequence[PlannedHost]) -> str:
    """Return the row of the MPI that all of them have."""
    have = {node.host.name: node.prepared.mpi for node in nodes}
    kinds = {(m.flavour, m.version) if m else () for m in have.values()}
    if len(kinds) > 1:
        raise RunFailed(
            "the hosts do not have one MPI in common",
            why="; ".join(f"{name}: {m or 'none'}" for name, m in have.items()),
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
    where = {c.id: (c.socket, c.node) for c in cpu.cpus}
    found: dict[tuple[int | None, int | None], list[usable_cores.Core]] = {}
    for core in usable_cores.list_cores(replace(cpu, allowed=None)):
        found.setdefault(where[core[0]], []).append(core)
    return tuple((*key, tuple(cores)) for key, cores in found.items())


def _host_plan(site: Site, index: int, first_rank: int, request: RunRequest) -> HostPlan:
    node, nic = site.node, site.nic
    variables, of_all = variables_of(site, request), process_variables(site, request)
    prepared = node.prepared
    starter = mpi.row_of(prepared.mpi)
    return HostPlan(
        host=node.host.name,
        label=mpi.host_label(starter, node.host.name, index),
        mpi_bin=prepared.mpi.bin if prepared.mpi else "",
        prefix=prepared.prefix,
        nic=nic,
        ranks=rank_places(site, first_rank),
        env=(*host_variables(site), *((v.name, v.value) for v in of_all)),
        rank_env=tuple((v.name, v.value) for v in variables),
        threads=site.places.threads,
        quota=node.facts.cpu.quota,
        sockets=_cores_by_socket(node.facts.cpu),
        reasons=tuple((v.name, v.why) for v in (*variables, *of_all) if v.why),
    )
