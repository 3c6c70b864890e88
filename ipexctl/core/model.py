"""The nouns. All frozen; read this file first.

Unknown is None and never zero: a fact nobody could read must not look like a bad one.
"""

from __future__ import annotations

from dataclasses import field
from enum import Enum

from ipexctl.core.doctor.suggested_fix import Fix
from ipexctl.core.facts.software_facts import Mpi, SoftwareFacts
from ipexctl.core.facts.system_facts import Condition
from ipexctl.core.stack.env_choice import EnvUsed
from ipexctl.errors import EXIT_FAILED, EXIT_OK, EXIT_UNREACHABLE, UNREACHABLE, worst_exit
from ipexctl.quick_dataclass import dataclass

# --- who -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """Where in the user's text something stands (1-based)."""

    source: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.source}:{self.line}:{self.column}"


@dataclass(frozen=True)
class Host:
    """One machine as the user named it. `name` is what every output calls it.

    `port` 0 and `user` "" mean: not given here, ssh_config decides. `slots` 0 means: not given.
    `address` is what ssh connects to where it isn't the name. `python`, `nic` and `root` are there
    where this host differs from the others. `groups` has the groups around its groups, too.
    """

    name: str
    user: str = ""
    port: int = 0
    slots: int = 0
    local: bool = False
    place: Place | None = None
    address: str = ""
    python: str = ""
    nic: str = ""
    root: str = ""
    groups: tuple[str, ...] = ()
    vars: tuple[tuple[str, str], ...] = ()  # for plays: what means nothing to the other commands


@dataclass(frozen=True)
class Inventory:
    """`notes` are for the user: what was read in another way than it may have been meant."""

    hosts: tuple[Host, ...]
    source: str
    notes: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Host:
        return next(h for h in self.hosts if h.name == name)


# --- facts ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cpu:
    """One logical CPU. None where the kernel tells nothing.

    `core` is the lowest CPU of the same core: unique on the host, where the kernel's own core ids
    repeat in each socket or die.
    """

    id: int
    core: int | None
    socket: int | None
    node: int | None


@dataclass(frozen=True)
class Node:
    """One NUMA node. It may have memory and no CPU (HBM, CXL)."""

    id: int
    cpus: tuple[int, ...]
    mem_total: int | None
    mem_free: int | None


@dataclass(frozen=True)
class CpuFacts:
    arch: str
    vendor: str
    model_name: str
    family: int | None
    model: int | None
    flags: frozenset[str]
    cpus: tuple[Cpu, ...]  # those online
    allowed: tuple[int, ...] | None  # what this process may run on (affinity, cgroup cpuset)
    quota: float | None = None  # CPUs' worth of time the control group allows; None: no limit
    stepping: int | None = None
    microcode: str = ""
    offline: tuple[int, ...] = ()
    smt: str = ""  # on, off, forceoff, notsupported, ...; "" on kernels that do not say
    isolated: tuple[int, ...] = ()  # from the kernel's scheduler (isolcpus)
    efficient: tuple[int, ...] = ()  # of a hybrid processor's slower cores
    simulated: bool = False  # something else lies over /proc/cpuinfo: a practice host
    amx_kernel: bool | None = None  # the kernel gives AMX to programs; None: it did not say


@dataclass(frozen=True)
class MemFacts:
    total: int | None
    available: int | None
    swap_total: int | None
    shm_total: int | None
    shm_free: int | None
    limit: int | None = None  # of the control group; None: no limit
    limit_left: int | None = None  # of that, for more than what is in it now
    mems: tuple[int, ...] | None = None  # the NUMA nodes whose memory we may use; None: unknown
    swap_free: int | None = None
    commit_limit: int | None = None
    committed: int | None = None
    huge: int | None = None  # set aside as huge pages
    shm_there: bool | None = None
    shm_writable: bool | None = None
    shm_read_only: bool | None = None  # its file system is; where there is none, that of /dev
    shm_noexec: bool | None = None


@dataclass(frozen=True)
class Python:
    """An interpreter found on the host."""

    path: str
    version: tuple[int, ...]  # (3, 11, 4), or (3, 11) where nobody told the patch number
    venv_ok: bool | None = None  # ensurepip there; None: not looked


@dataclass(frozen=True)
class Nic:
    name: str
    up: bool
    mtu: int | None
    addresses: tuple[str, ...]
    speed: int | None = None  # Mbit/s; None: not told, or not that of a cable (veth, tun)
    duplex: str = ""  # full, half


@dataclass(frozen=True)
class Route:
    nic: str
    network: str  # 10.0.0.0/24


@dataclass(frozen=True)
class NameServer:
    """`said`: why it did not respond, or the error that it responded with."""

    address: str
    configured: bool  # False: the local one, which is asked where none is named
    responds: bool
    said: str = ""


@dataclass(frozen=True)
class NetFacts:
    hostname: str
    hostname_addresses: tuple[str, ...]  # what the host's own name resolves to on itself
    ssh_address: str  # the address by which the controller's connection came in; "" if local
    nics: tuple[Nic, ...]
    default_nic: str  # "" if there is no default route
    routes: tuple[Route, ...] = ()
    port_range: tuple[int, int] | None = None  # from which the kernel takes ports
    reserved: str = ""  # ports that it leaves alone: "29500-29600,4000"
    somaxconn: int | None = None
    master_port_busy: bool | None = None
    hostname_resolves: bool | None = None
    resolver_silent: bool | None = None  # asked for the own name, it gave no answer in time
    localhost: tuple[str, ...] | None = None  # what that name resolves to; None: not looked
    firewalls: tuple[str, ...] = ()  # those that look switched on
    range_port: int | None = None  # where it listens for the doctor beside MASTER_PORT
    open_ports: tuple[tuple[int, int], ...] = ()  # of its firewall; asked where ports are closed
    ssh_nic: str = ""  # the interface of ssh_address, where that is a link-local one
    name_servers: tuple[NameServer, ...] = ()  # that were asked; none where DNS is not used


@dataclass(frozen=True)
class DiskFacts:
    """About a folder, or the one above in which it would be made."""

    root: str  # its absolute path
    free: int | None
    free_inodes: int | None
    filesystem: str
    noexec: bool | None
    writable: bool | None
    there: bool | None = None
    read_only: bool | None = None  # the file system, whatever the permissions are
    total: int | None = None
    source: str = ""  # the device, or server:/path
    point: str = ""  # where that is mounted
    real: str = ""  # `root` without links on the way
    quota: bool | None = None  # mounted with quotas
    owner: int | None = None  # the user id of the folder, or of the one above


@dataclass(frozen=True)
class ClockFacts:
    """Offset of the host's clock against the controller's, and how wrong that may be (seconds)."""

    offset: float
    uncertainty: float


@dataclass(frozen=True)
class Facts:
    host: str
    kernel: str
    os_name: str
    libc: str  # "glibc 2.36", "musl 1.2", "" unknown
    user: str
    uid: int | None
    home: str
    boot_id: str
    agent: str  # "python" or "sh": who answered
    cpu: CpuFacts
    mem: MemFacts
    net: NetFacts
    disk: DiskFacts
    pythons: tuple[Python, ...]
    clock: ClockFacts | None
    nodes: tuple[Node, ...] = ()
    os_ids: tuple[str, ...] = ()  # ID and ID_LIKE of os-release: ("ubuntu", "debian")
    software: SoftwareFacts | None = None  # None: nobody looked
    condition: Condition = Condition()
    home_disk: DiskFacts | None = None
    tmp: DiskFacts | None = None  # TMPDIR, or /tmp
    hung: tuple[str, ...] = ()  # Pythons that gave no answer
    tried: tuple[tuple[str, str], ...] = ()  # (path, its own words) of those that do not run
    nodes_contradict: bool = False  # one CPU in two NUMA nodes; then `nodes` is ()


# --- verdicts ------------------------------------------------------------------------------------


class Severity(str, Enum):
    FAIL = "fail"  # a training on these hosts would break
    WARN = "warn"  # it would be slow or fragile
    NOTE = "note"  # good to know


@dataclass(frozen=True)
class Finding:
    """One thing a check saw on one host (host "" = about the cluster)."""

    id: str
    severity: Severity
    host: str
    title: str
    evidence: str
    why: str
    fix: Fix


@dataclass(frozen=True)
class HostDown:
    """The outcome of a host that gave no facts."""

    host: str
    slug: str
    what: str
    why: str = ""
    hint: str = ""

    @property
    def state(self) -> Recap:
        return Recap.UNREACHABLE if self.slug in UNREACHABLE else Recap.FAILED

    @property
    def brief(self) -> str:
        """What happened, for a line that already names the host."""
        return without_host(self.host, self.what)


def without_host(host: str, what: str) -> str:
    """The message without the host name that it starts with."""
    return what.removeprefix(f"{host}: ")


@dataclass(frozen=True)
class Peer:
    """Could `source` open a TCP connection to `target` at `address`?"""

    source: str
    target: str
    address: str
    ok: bool
    error: str = ""
    in_range: str | None = None  # the same at a port beside MASTER_PORT: "" it works, None untried
    resolved: tuple[str, ...] | None = (
        None  # the target's name there; None: not asked, or no answer
    )
    unanswered: bool = False  # asked for the target's name, the resolver gave no answer
    lost: bool | None = None  # 64 KiB did not arrive, though a byte did; None: not known
    passes: int | None = None  # bytes of the largest packet that arrives, where some are lost


# --- stack ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Blob:
    """A file by content."""

    name: str
    sha256: str
    size: int


# --- launch --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Prepared:
    """What a host said it would run with."""

    prefix: str  # its environment: <root>/envs/<hash>
    packages: tuple[tuple[str, str], ...]
    mpi_env: tuple[tuple[str, str], ...]
    path: str
    port: int
    mpi: Mpi | None = None  # None: our agents start the ranks
    preload: tuple[str, ...] = ()  # OpenMP and malloc libraries in the environment
    borrowed: bool = False  # nothing is installed; this is the user's own on this machine
    accelerators: tuple[str, ...] = ()  # devices that are not CPUs: /dev/nvidia0
    modules: frozenset[str] | None = None  # that can be imported; None: not all of them are known
    environment: EnvUsed | None = None  # None: not one of ipexctl's

    @property
    def command_env(self) -> tuple[tuple[str, str], ...]:
        """For a command or shell of the user's. ipexctl's environments have no pip: the host's own
        must not install into the host's Python from there."""
        no_pip = (("PIP_REQUIRE_VIRTUALENV", "1"),) if self.environment else ()
        return (*self.mpi_env, *no_pip)


@dataclass(frozen=True)
class RankPlace:
    rank: int
    local_rank: int
    cpus: tuple[int, ...]  # where it may run
    comm: tuple[int, ...] = ()  # where its communication threads run
    node: int | None = None  # whose memory it takes first; None: nobody knows, or several


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
    threads: int | None = None  # of each rank; None: nobody knows the host's CPUs
    reasons: tuple[tuple[str, str], ...] = ()  # why a variable of rank_env is what it is
    mpi_bin: str = ""  # the folder of mpirun and its daemons
    flags: tuple[str, ...] = ()  # instruction sets on which the plan of dtype and stack counts


@dataclass(frozen=True)
class LaunchPlan:
    hosts: tuple[HostPlan, ...]  # node0 first; hosts that get no rank are not in it
    master_addr: str
    master_port: int
    argv: tuple[str, ...]  # what follows the interpreter: script and its arguments
    mpirun: tuple[str, ...]
    machinefile: str
    notes: tuple[str, ...] = ()
    backend: str = "gloo"
    mpi: str = ""  # the row of core/run/mpi.py; "": our agents start the ranks
    secret: tuple[str, ...] = ()  # names of variables whose values are in no plan
    run_id: str = ""
    environment: EnvUsed | None = None

    @property
    def world_size(self) -> int:
        return sum(len(h.ranks) for h in self.hosts)

    @property
    def master(self) -> str:
        """ADDRESS:PORT of rank 0."""
        address = f"[{self.master_addr}]" if ":" in self.master_addr else self.master_addr
        return f"{address}:{self.master_port}"

    def host_of(self, rank: int) -> str:
        return next(h.host for h in self.hosts if any(p.rank == rank for p in h.ranks))


class Recap(str, Enum):
    """Every host ends in exactly one of these."""

    OK = "ok"
    CHANGED = "changed"
    UNREACHABLE = "unreachable"
    FAILED = "failed"
    SKIPPED = "skipped"

    @property
    def exit_code(self) -> int:
        codes = {Recap.UNREACHABLE: EXIT_UNREACHABLE, Recap.FAILED: EXIT_FAILED}
        return codes.get(self, EXIT_OK)


@dataclass(frozen=True)
class HostRecap:
    host: str
    state: Recap
    detail: str = ""
    seconds: float = 0.0
    notes: tuple[str, ...] = field(default=())
    sent: int = 0  # bytes to this host, if all arrived


class PerHost:
    """Base of outcomes that have one recap per host."""

    recaps: tuple[HostRecap, ...]

    @property
    def declined(self) -> bool:
        """The user said no, so nothing was changed."""
        return False

    @property
    def exit_code(self) -> int:
        codes = [recap.state.exit_code for recap in self.recaps]
        return worst_exit([*codes, EXIT_FAILED if self.declined else EXIT_OK])
