"""The properties of a host, put together from those of each subject.

remote/facts/read_NAME.py reads a subject on the host, NAME_facts.py here declares what it
sends, and doctor/checks/NAME.py judges it.

Unknown is None and never zero: a fact that could not be read must not look like a bad one.
A field is read from the host's answer by its type, or by its reader (base/host_answer.py).
"""

from __future__ import annotations

from dataclasses import field

from ipexctl.base.values import by, command_safe_name
from ipexctl.facts.clocks_facts import ClockFacts
from ipexctl.facts.cpu_facts import CpuFacts, NumaNode
from ipexctl.facts.cpu_frequency_facts import Power
from ipexctl.facts.interfaces_facts import Nic, Route, read_address, read_addresses
from ipexctl.facts.kernel_facts import Kernel
from ipexctl.facts.limits_facts import UserLimits
from ipexctl.facts.load_facts import Load
from ipexctl.facts.memory_and_swap_facts import MemFacts
from ipexctl.facts.name_resolution_facts import NameServer
from ipexctl.facts.pythons_facts import Python
from ipexctl.facts.software_facts import SoftwareFacts
from ipexctl.facts.storage_facts import DiskFacts
from ipexctl.facts.system_facts import System
from ipexctl.quick_dataclass import dataclass

NAME = by(command_safe_name)
ADDRESS = by(read_address)


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
class Condition:
    power: Power = Power()
    kernel: Kernel = Kernel()
    limits: UserLimits = UserLimits()
    system: System = System()
    load: Load = Load()


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
