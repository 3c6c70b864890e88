"""Decide for hosts and a request who runs how many ranks, on which cores, over which network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ipexctl.base.sizes import count
from ipexctl.common.secret_names import is_secret_name
from ipexctl.errors import InputError
from ipexctl.facts import core_pinning
from ipexctl.inventory.hostfile_text import fold
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.plan import (
    interface_choice,
    port_plan,
    rank_variables,
    ranks_per_host,
    tuning_variables,
)
from ipexctl.run.plan.launch import PlannedHost, RankPlace, RunRequest, asked_threads
from ipexctl.run.plan.tuning_variables import Backend, Site, Variable
from ipexctl.stack import mpi

LONGEST = 100  # characters of a value in a note


@dataclass(frozen=True)
class Decided:
    """The part of a plan that does not depend on which MPI starts the ranks."""

    sites: tuple[Site, ...]  # without hosts that have no ranks
    backend: Backend
    master_addr: str
    master_port: int
    notes: tuple[str, ...]


def decide_placement(nodes: Sequence[PlannedHost], request: RunRequest) -> Decided:
    """Decide ranks per host, their cores, the backend and the master's address."""
    counts = ranks_per_host.share_out(nodes, request)
    used = [(node, count) for node, count in zip(nodes, counts, strict=True) if count]
    backend = tuning_variables.choose_backend([node for node, _ in used], request)
    alone = len(used) == 1
    cpu_only = not any(tuning_variables.usable_accelerators(node.prepared) for node, _ in used)
    sites = tuple(
        replace(
            _place_ranks(node, count, backend, asked_threads(request.env), alone=alone),
            frameworks=request.frameworks,
            cpu_only=cpu_only,
        )
        for node, count in used
    )
    _refuse_unequal(sites, request)
    master = _own_master(sites[0])
    notes = (
        *ranks_per_host.rank_count_notes(nodes, counts, request),
        *_placement_notes(sites, request, master),
    )
    chosen = {**master, **dict(request.env)}
    return Decided(sites, backend, chosen["MASTER_ADDR"], _parse_port(chosen["MASTER_PORT"]), notes)


def rank_places(site: Site, first: int) -> tuple[RankPlace, ...]:
    """Return the ranks of a host, from rank `first` on."""
    return tuple(
        RankPlace(first + i, i, part.cpus, part.comm, part.node)
        for i, part in enumerate(site.places.parts)
    )


def variables_of(site: Site, request: RunRequest) -> tuple[Variable, ...]:
    planned = (
        *tuning_variables.planned_vars(site),
        *tuning_variables.of_compression(request.compress),
        *tuning_variables.of_project(request.roots),
    )
    return tuning_variables.merge_variables(planned, request, dict(request.env))


def process_variables(site: Site, request: RunRequest) -> tuple[Variable, ...]:
    """Return the variables that MPI's own programs get, too."""
    planned = _of_processes(site, request)
    env = dict(request.env)
    return tuning_variables.merge_variables(
        planned, request, {v.name: env[v.name] for v in planned if v.name in env}
    )


def _of_processes(site: Site, request: RunRequest) -> tuple[Variable, ...]:
    port = site.node.prepared.port
    bounded = port_plan.port_variables(request.ports, port) if request.ports else ()
    return (
        Variable("I_MPI_PIN", "0", "ipexctl pins the ranks itself, so MPI must not"),
        *(Variable(name, value, "--ports") for name, value in bounded),
    )


def host_variables(site: Site) -> tuple[tuple[str, str], ...]:
    """Return variables by which processes on the host find programs and libraries."""
    prepared = site.node.prepared
    path = f"{dict(prepared.mpi_env)['PATH']}:{prepared.path}"
    return (
        *((k, v) for k, v in prepared.mpi_env if k != "PATH"),
        *mpi.nic_vars(mpi.row_of(prepared.mpi), site.nic),
        ("PATH", path),
    )


def _place_ranks(
    node: PlannedHost, count: int, backend: Backend, threads: int | None, *, alone: bool
) -> Site:
    places = core_pinning.place_ranks(node.facts, count, backend.workers, threads)
    if alone:
        return Site(node, places, backend, "lo", "only one host, so loopback is used", alone=True)
    nic = interface_choice.choose_host_nic(node)
    why = "the hostfile says so" if node.host.nic else "other hosts connect to this interface"
    why = node.measured.why if node.measured else why
    return Site(node, places, backend, nic, why, alone=False)


def _own_master(first: Site) -> dict[str, str]:
    """Return where rank 0 is found, unless the user says so."""
    address = "127.0.0.1" if first.alone else interface_choice.choose_host_address(first.node)
    return {"MASTER_ADDR": address, "MASTER_PORT": str(first.node.prepared.port)}


def _parse_port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text[:9]) < 65536):
        raise InputError(f"MASTER_PORT={text}: not a port", slug="not-a-port")
    return int(text)


# --- notes for the user --------------------------------------------------------------------------


def _placement_notes(
    sites: Sequence[Site], request: RunRequest, master: Mapping[str, str]
) -> Iterator[str]:
    yield from _tight_notes(sites)
    if "OMP_NUM_THREADS" not in dict(request.env):
        yield from _unequal_notes(sites)
    yield from _override_notes(sites, request, master)
    yield from _not_joined(sites)
    if request.compress != "off" and sum(len(site.places.parts) for site in sites) == 1:
        yield f"--compress {request.compress} has no effect: a single rank exchanges no gradients"
    if request.ports and len(sites) > 1:
        yield port_plan.port_note([site.node for site in sites], sites[0].backend.name)
    for name in filter(is_secret_name, dict(request.env)):
        yield (
            f"{request.origin_of(name)} {name}: looks like a secret; "
            f"--secret-env {name} keeps it out of plans and logs"
        )


def _tight_notes(sites: Sequence[Site]) -> Iterator[str]:
    """Yield notes about the CPUs of hosts; equal notes about several hosts become one."""
    hosts: dict[str, list[str]] = {}
    for site in sites:
        for text in _of_one(site):
            hosts.setdefault(text, []).append(site.node.host.name)
    for text, names in hosts.items():
        warning = "WARNING: " if " ranks share " in text else ""
        yield f"{warning}{fold(names)}: {text}"


def _of_one(site: Site) -> Iterator[str]:
    """Yield notes about too few CPUs on one host."""
    places, cpu = site.places, site.node.facts.cpu
    ranks = len(places.parts)
    if places.threads is None:
        yield (
            "the kernel does not show its CPUs: ranks are not pinned, and torch chooses the "
            "number of threads"
        )
    elif places.shared:
        cores = len(places.parts[0].cpus)
        each = f"each gets {cores / ranks:.0%} of a core"
        yield f"{ranks} ranks share {count(cores, 'core')}, {each}; -ppn {cores} fits"
    if places.crowded:
        yield "too few cores: communication threads share those on which ranks compute"
    if places.capped:
        yield (
            f"its control group allows {cpu.quota:g} CPUs' worth of time: "
            f"{places.threads} of {min(len(part.cpus) for part in places.parts)} threads per rank"
        )
    if cpu.quota is not None and ranks * (1 + site.backend.workers) > cpu.quota:
        yield f"{ranks} ranks must share {cpu.quota:g} CPUs' worth of time"


def _unequal_notes(sites: Sequence[Site]) -> Iterator[str]:
    """Note which ranks have the fewest threads and so slow down the others: shares are equal."""
    threads = {site.places.threads for site in sites if site.places.threads}
    if len(threads) > 1:
        fewest = min(threads)
        slow = [site.node.host.name for site in sites if site.places.threads == fewest]
        yield (
            f"ranks on {fold(slow)} have {count(fewest, 'thread')}, others up to {max(threads)}: "
            "each step waits for the slowest"
        )


def _override_notes(
    sites: Sequence[Site], request: RunRequest, master: Mapping[str, str]
) -> Iterator[str]:
    """Yield notes about variables of --env and run.env that replace planned values."""
    env = dict(request.env)
    for name in sorted(env.keys() & rank_variables.FIXED):
        yield f"{request.origin_of(name)} {name}: not used, as it differs in each rank"
    planned = {name: [value] for name, value in master.items()}
    for name in env.keys() & _of_contract():
        planned.setdefault(name, []).append("one for each rank or host")
    for site in sites:
        variables = (*tuning_variables.planned_vars(site), *_of_processes(site, request))
        for name, value in (*((v.name, v.value) for v in variables), *host_variables(site)):
            planned.setdefault(name, []).append(value)
    for name, values in planned.items():
        different = sorted({value for value in values if value != env.get(name)})
        if name in env and different:
            plan_values = " or ".join(map(_shorten_value, different[:3]))
            given = f"{request.origin_of(name)} {name}={_shorten_value(env[name])}"
            yield f"{given} is used, the plan had {plan_values}"


def _refuse_unequal(sites: Sequence[Site], request: RunRequest) -> None:
    """Refuse unequal hosts for Lightning: it computes ranks as host number x ranks per host."""
    counts = {site.node.host.name: len(site.places.parts) for site in sites}
    if "lightning" in request.frameworks.used and len(set(counts.values())) > 1:
        fewest = min(counts.values())
        raise InputError(
            "Lightning needs the same number of ranks on every host",
            why=", ".join(f"{name} has {count}" for name, count in counts.items()),
            hint=f"-n {fewest * len(counts)} -ppn {fewest}",
            slug="lightning-ranks-uneven",
        )


def _not_joined(sites: Sequence[Site]) -> Iterator[str]:
    """Note why Accelerate is not told to join the ranks, if it has to be told."""
    first = sites[0]
    if not ({"accelerate", "transformers"} & first.frameworks.used):
        return
    if first.frameworks.sharding:
        sharding = " and ".join(sorted(first.frameworks.sharding))
        yield (
            f"ACCELERATE_USE_CPU is not set, as it would turn off {sharding}: "
            + (
                "Accelerate has no FSDP on CPUs, so ranks may train alone; use torch's fully_shard"
                if "FSDP" in first.frameworks.sharding
                else "check the line about what ranks exchanged"
            )
        )
    elif not first.cpu_only:
        with_devices = [
            s.node.host.name for s in sites if tuning_variables.usable_accelerators(s.node.prepared)
        ]
        yield (
            f"{fold(with_devices)}: accelerators found, so ACCELERATE_USE_CPU is not set: "
            "Accelerator(cpu=True) or --use_cpu trains on the CPUs of all hosts"
        )


def _shorten_value(value: str) -> str:
    """Shorten a value: paths of libraries can be longer than a screen."""
    return value if len(value) <= LONGEST else f"{value[: LONGEST - 3]}..."


def _of_contract() -> frozenset[str]:
    named = frozenset(entry.name for entry in rank_variables.TABLE)
    return named - rank_variables.FIXED - {"MASTER_ADDR", "MASTER_PORT"}
