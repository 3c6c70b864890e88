"""The classes of a run's plan and of its inputs: who runs which rank, where, with what."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ipexctl.common.addresses import host_port
from ipexctl.facts.env_choice import EnvUsed
from ipexctl.facts.facts import Facts
from ipexctl.facts.mpi_install_facts import Mpi
from ipexctl.inventory.hostfile_text import fold
from ipexctl.inventory.inventory import Host
from ipexctl.quick_dataclass import dataclass
from ipexctl.user_code.frameworks import Frameworks

if TYPE_CHECKING:
    from ipexctl.local.run_options import Ports


@dataclass(frozen=True)
class Prepared:
    """The environment that a host reported for a run."""

    prefix: str  # its environment: <root>/envs/<hash>
    packages: tuple[tuple[str, str], ...]
    mpi_env: tuple[tuple[str, str], ...]
    path: str
    port: int
    mpi: Mpi | None = None  # None: ipexctl's agents start the ranks
    preload: tuple[str, ...] = ()  # OpenMP and malloc libraries in the environment
    allocators: tuple[str, ...] = ()  # malloc libraries of the host itself
    borrowed: bool = False  # nothing is installed; this is the user's own on this machine
    accelerators: tuple[str, ...] = ()  # devices that are not CPUs: /dev/nvidia0
    modules: frozenset[str] | None = None  # modules that can be imported; None: not all are known
    environment: EnvUsed | None = None  # None: not created by ipexctl
    keeper_port: int = 0  # a free port for --restarts, as `port` is

    @property
    def command_env(self) -> tuple[tuple[str, str], ...]:
        """The variables for a user's command or shell. ipexctl's environments have no pip, and the
        host's own must not install into the host's Python from there."""
        no_pip = (("PIP_REQUIRE_VIRTUALENV", "1"),) if self.environment else ()
        return (*self.mpi_env, *no_pip)


@dataclass(frozen=True)
class RankPlace:
    rank: int
    local_rank: int
    cpus: tuple[int, ...]  # where it may run
    comm: tuple[int, ...] = ()  # where its communication threads run
    node: int | None = None  # whose memory it prefers; None: unknown, or several


# (socket, NUMA node, its cores as the ids of their threads)
Socket = tuple[int | None, int | None, tuple[tuple[int, ...], ...]]


@dataclass(frozen=True)
class HostPlan:
    """What one host of a run gets. Everything in it comes from that host's own facts."""

    host: str
    label: str  # its name in mpirun's machine file
    prefix: str
    nic: str
    ranks: tuple[RankPlace, ...]
    env: tuple[tuple[str, str], ...]  # for every process of the run on this host
    rank_env: tuple[tuple[str, str], ...]  # for the ranks on this host
    threads: int | None = None  # of each rank; None: the host's CPUs are unknown
    quota: float | None = None  # CPUs' worth of time that its control group allows
    reasons: tuple[tuple[str, str], ...] = ()  # why a variable of rank_env is what it is
    mpi_bin: str = ""  # the folder of mpirun and its daemons
    sockets: tuple[Socket, ...] = ()  # with all of its cores, also those of no rank


@dataclass(frozen=True)
class LaunchPlan:
    hosts: tuple[HostPlan, ...]  # node0 first; hosts without ranks are left out
    master_addr: str
    master_port: int
    argv: tuple[str, ...]  # what follows the interpreter: script and its arguments
    mpirun: tuple[str, ...]
    machinefile: str
    notes: tuple[str, ...] = ()
    backend: str = "gloo"
    mpi: str = ""  # the row of stack/mpi.py; "": ipexctl's agents start the ranks
    secret: tuple[str, ...] = ()  # names of variables whose values are in no plan
    run_id: str = ""
    ddp: bool = False  # whether the code exchanges gradients by DistributedDataParallel
    joins: bool = True  # whether the code joins ranks, as far as known
    trains: bool = True  # whether the code trains a model, as far as known
    tuned: bool = False  # whether `ipexctl tune` ran here before, with these hosts
    environment: EnvUsed | None = None
    restarts: int = 0
    candidates: tuple[str, ...] = ()  # it takes as many hosts of these, the first that are free

    @property
    def world_size(self) -> int:
        return sum(len(host.ranks) for host in self.hosts)

    @property
    def master(self) -> str:
        """ADDRESS:PORT of rank 0."""
        return host_port(self.master_addr, self.master_port)

    @property
    def hosts_text(self) -> str:
        if not self.candidates:
            return fold([host.host for host in self.hosts])
        number = f" {len(self.hosts)}" if self.hosts[1:] else ""
        return f"any{number} of {fold(self.candidates)}"

    def host_of(self, rank: int) -> str:
        return next(h.host for h in self.hosts if any(p.rank == rank for p in h.ranks))


def asked_threads(env: Iterable[tuple[str, str]]) -> int | None:
    """Return the number of OpenMP threads that the variables ask for, if it is a number."""
    text = dict(env).get("OMP_NUM_THREADS", "")
    return int(text) if re.fullmatch("[0-9]{1,5}", text) else None


# how the reason for a variable of the user begins, and the reason if its origin is not known
YOURS = "yours, with"
YOURS_ANYHOW = f"{YOURS} --env or run.env"


@dataclass(frozen=True)
class RunRequest:
    argv: tuple[str, ...]  # script and its arguments, or -m module ...
    n: int | None = None
    ppn: int | None = None
    env: tuple[tuple[str, str], ...] = ()
    ports: Ports | None = None  # None: any
    secret: tuple[str, ...] = ()  # names of --secret-env
    frameworks: Frameworks = Frameworks()  # what the script's code uses
    roots: tuple[str, ...] = ()  # folders of its own packages, relative to where ranks start
    compress: str = "off"  # --compress
    configured: frozenset[str] = frozenset()  # those variables that a settings file sets
    queue: bool = False  # --queue

    def origin_of(self, name: str) -> str:
        return "run.env" if name in self.configured else "--env"


@dataclass(frozen=True)
class NicChoice:
    """The interface of a host that was chosen by measurement (run/network)."""

    nic: str
    address: str
    why: str


@dataclass(frozen=True)
class Share:
    """The part of the global batch of each rank of a host (run/shares)."""

    value: float
    why: str


@dataclass(frozen=True)
class PlannedHost:
    """A host with all that is known about it."""

    host: Host
    facts: Facts
    prepared: Prepared
    measured: NicChoice | None = None  # None: the one through which others reach it over SSH
    share: Share | None = None  # None: the script does not use it
