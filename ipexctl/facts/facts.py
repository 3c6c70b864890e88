"""The properties of a host.

Unknown is None and never zero: a fact that could not be read must not look like a bad one.
A field is read from the host's answer by its type, or by its reader (base/host_answer.py).
"""

from __future__ import annotations

import ipaddress
from dataclasses import field
from typing import Any

from ipexctl.base.values import by, command_safe_name, count_or_none, list_of, plain
from ipexctl.facts.software_facts import SoftwareFacts
from ipexctl.facts.system_facts import Condition
from ipexctl.quick_dataclass import dataclass


def read_address(value: Any) -> str:
    """Return an IP address without its zone; "" for anything else."""
    text = plain(value).partition("%")[0]
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return ""


def read_addresses(value: Any) -> tuple[str, ...]:
    return tuple(dict.fromkeys(a for a in map(read_address, list_of(value)) if a))


NAME = by(command_safe_name)
ADDRESS = by(read_address)


@dataclass(frozen=True)
class Cpu:
    """One logical CPU. None: the kernel does not report it.

    `core` is the lowest CPU of the same core: unique on the host, where the kernel's own core ids
    repeat in each socket or die.
    """

    id: int = field(metadata=by(count_or_none, needed=True))
    core: int | None
    socket: int | None
    node: int | None


@dataclass(frozen=True)
class NumaNode:
    """One NUMA node. It may have memory and no CPU (HBM, CXL)."""

    id: int = field(metadata=by(count_or_none, needed=True))
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
    # what this process may run on (affinity, cgroup cpuset)
    allowed: tuple[int, ...] | None
    # CPUs' worth of time the control group allows; None: no limit
    quota: float | None = None
    stepping: int | None = None
    microcode: str = ""
    offline: tuple[int, ...] = ()
    smt: str = ""  # on, off, forceoff, notsupported, ...; "" on kernels that do not report it
    efficient: tuple[int, ...] = ()  # the slower cores of a hybrid processor
    simulated: bool = False  # another file covers /proc/cpuinfo: a practice host
    amx_kernel: bool | None = None  # the kernel lets programs use AMX; None: not reported


@dataclass(frozen=True)
class MemFacts:
    total: int | None
    available: int | None
    swap_total: int | None
    shm_total: int | None
    shm_free: int | None
    limit: int | None = None  # of the control group; None: no limit
    limit_left: int | None = None  # the rest of it that is still free
    # the NUMA nodes whose memory we may use; None: unknown
    mems: tuple[int, ...] | None = None
    swap_free: int | None = None
    commit_limit: int | None = None
    committed: int | None = None
    huge: int | None = None  # set aside as huge pages
    shm_there: bool | None = None
    shm_writable: bool | None = None
    shm_read_only: bool | None = None  # its file system is; without one, that of /dev


@dataclass(frozen=True)
class Python:
    """An interpreter found on the host."""

    path: str = field(metadata=by(plain, needed=True))
    version: tuple[int, ...]  # (3, 11, 4), or (3, 11) where the patch number is unknown
    lacks: tuple[str, ...] = ()  # modules of the standard library that were not built


@dataclass(frozen=True)
class Nic:
    name: str = field(metadata=by(command_safe_name, needed=True))
    up: bool
    mtu: int | None
    addresses: tuple[str, ...] = field(metadata=by(read_addresses))
    # Mbit/s; None: not reported, or not that of a cable (veth, tun)
    speed: int | None = None
    duplex: str = ""  # full, half


@dataclass(frozen=True)
class Route:
    nic: str = field(metadata=by(plain, needed=True))
    network: str = field(metadata=by(plain, needed=True))  # 10.0.0.0/24


@dataclass(frozen=True)
class NameServer:
    """`said`: why it did not respond, or its error."""

    address: str = field(metadata=by(command_safe_name, needed=True))
    configured: bool  # False: the local one, which is used if none is named
    responds: bool
    said: str = ""


@dataclass(frozen=True)
class NetFacts:
    hostname: str = field(metadata=NAME)
    # what the host's own name resolves to on itself
    hostname_addresses: tuple[str, ...] = field(metadata=by(read_addresses))
    # the address at which the controller's connection arrived; "" if local
    ssh_address: str = field(metadata=ADDRESS)
    nics: tuple[Nic, ...]
    default_nic: str = field(metadata=NAME)  # "" if there is no default route
    routes: tuple[Route, ...] = ()
    # the range from which the kernel takes ports
    port_range: tuple[int, int] | None = None
    master_port_busy: bool | None = None
    hostname_resolves: bool | None = None
    resolver_silent: bool | None = None  # it gave no answer in time for the host's own name
    # what that name resolves to; None: not checked
    localhost: tuple[str, ...] | None = None
    firewalls: tuple[str, ...] = ()  # those that appear to be active
    range_port: int | None = None  # where it listens for the doctor beside MASTER_PORT
    # the interface of ssh_address, if that is a link-local one
    ssh_nic: str = field(default="", metadata=NAME)
    name_servers: tuple[NameServer, ...] = ()  # those that were queried; none if DNS is not used


@dataclass(frozen=True)
class DiskFacts:
    """Facts about a folder, or about its nearest existing parent."""

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
    """The offset of the host's clock from the controller's, and its uncertainty (seconds)."""

    offset: float
    uncertainty: float


@dataclass(frozen=True)
class Facts:
    host: str
    kernel: str
    os_name: str
    libc: str  # "glibc 2.36", "musl 1.2", "" unknown
    user: str = field(metadata=NAME)
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
    nodes: tuple[NumaNode, ...] = ()
    os_ids: tuple[str, ...] = ()  # ID and ID_LIKE of os-release: ("ubuntu", "debian")
    software: SoftwareFacts | None = None  # None: not read
    condition: Condition = Condition()
    home_disk: DiskFacts | None = None
    tmp: DiskFacts | None = None  # TMPDIR, or /tmp
    tried: tuple[tuple[str, str], ...] = ()  # (path, message) of those that do not run
    nodes_contradict: bool = False  # one CPU in two NUMA nodes; then `nodes` is ()


@dataclass(frozen=True)
class Peer:
    """The result of a TCP connection from `source` to `target` at `address`."""

    source: str
    target: str
    address: str
    ok: bool
    error: str = ""
    in_range: str | None = None  # the error at a port beside MASTER_PORT: "" it works, None untried
    lost: bool | None = None  # 64 KiB did not arrive, though a byte did; None: not known
    passes: int | None = None  # bytes of the largest packet that arrives, if some are lost
