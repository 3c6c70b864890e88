"""What a host sent -> Facts. A host may send anything: odd values become None, text is made plain.

The raw document is what remote/facts/probe.py returns. From a host without python comes the text
of the few shell commands in machines/agent_start.py instead.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from ipexctl.base.values import MOST, record
from ipexctl.base.values import count_or_none as count_or_none
from ipexctl.base.values import listed as _list
from ipexctl.base.values import name as _name
from ipexctl.base.values import plain as plain
from ipexctl.base.values import texts as _texts
from ipexctl.errors import HostFailed
from ipexctl.facts import hardware_facts, software_facts, system_facts, usable_cores
from ipexctl.facts.facts import (
    ClockFacts,
    Cpu,
    CpuFacts,
    DiskFacts,
    Facts,
    MemFacts,
    NameServer,
    NetFacts,
    Nic,
    Route,
)
from ipexctl.facts.hardware_facts import cpu_list as cpu_list
from ipexctl.facts.hardware_facts import int_of

_HUGE = 1 << 62


def from_json(host: str, raw: Any, clock: ClockFacts | None = None) -> Facts:
    """Raises HostFailed when this is no answer of our probe at all."""
    if not isinstance(raw, Mapping):
        raise _unreadable(host, "not a document")
    parts = {name: raw.get(name) for name in ("host", "cpu", "mem", "disk", "net")}
    wrong = [name for name, part in parts.items() if not isinstance(part, Mapping)]
    if wrong:
        raise _unreadable(host, "no " + ", ".join(wrong))
    about, cpu, mem, disk, net = (parts[n] or {} for n in parts)
    nodes = hardware_facts.nodes(raw.get("nodes"))
    return record(
        Facts,
        about,
        host=host,
        user=_name(about.get("user")),
        agent="python",
        cpu=hardware_facts.cpu(cpu, nodes),
        mem=hardware_facts.mem(mem),
        net=_net(net),
        disk=hardware_facts.disk(disk),
        pythons=tuple(p for p in map(hardware_facts.python, _list(raw.get("pythons"))) if p),
        clock=clock,
        nodes=nodes,
        software=software_facts.parse(raw.get("software")),
        condition=system_facts.parse(raw.get("state")),
        home_disk=_disk(raw.get("home_disk")),
        tmp=_disk(raw.get("tmp")),
        hung=(),
        tried=(),
        nodes_contradict=hardware_facts.contradictory(raw.get("nodes"), nodes),
    )


def from_sh(host: str, text: str, root: str = "~/.ipexctl") -> Facts:
    """Facts from the `:name` sections that plain sh printed."""
    parts = _sections(text)
    if "kernel" not in parts:
        raise _unreadable(host, "not what our shell commands print")
    line = {name: plain(lines[0]) if lines else "" for name, lines in parts.items()}
    info = "\n".join(parts.get("cpu", []))
    blocks = [_fields(block) for block in info.split("\n\n") if block.strip()]
    mem = _fields("\n".join(parts.get("mem", [])))
    release = _release(parts.get("os", []))
    home = line.get("home", "")
    df = _df(parts.get("df", []))
    shm = df.get("/dev/shm")
    ssh = line.get("ssh", "").split()
    return Facts(
        host=host,
        kernel=line.get("kernel", ""),
        os_name=plain(release.get("PRETTY_NAME")),
        libc="",
        user=_name(line.get("user")),
        uid=int_of(line.get("uid")),
        home=home,
        boot_id=line.get("boot", ""),
        agent="sh",
        cpu=replace(_cpuinfo(blocks), arch=line.get("arch", "")),
        mem=MemFacts(
            total=_kib(mem.get("MemTotal")),
            available=_kib(mem.get("MemAvailable")),
            swap_total=_kib(mem.get("SwapTotal")),
            shm_total=shm[0] if shm else None,
            shm_free=shm[1] if shm else None,
        ),
        net=NetFacts(
            hostname=_name(line.get("hostname")),
            hostname_addresses=(),
            ssh_address=_address(ssh[2]) if len(ssh) == 4 else "",
            nics=(),
            default_nic="",
        ),
        disk=DiskFacts(
            root=root.replace("~", home, 1) if root.startswith("~/") else root,
            free=next((free for point, (_, free) in df.items() if point != "/dev/shm"), None),
            free_inodes=None,
            filesystem="",
            noexec=None,
            writable=None,
        ),
        pythons=(),
        clock=None,
        os_ids=tuple((release.get("ID", "") + " " + release.get("ID_LIKE", "")).split()),
        tried=tuple(t for t in map(_tried, parts.get("tried", [])) if t),
    )


def clock(*, sent: float, received: float, now: float, remote: Any) -> ClockFacts | None:
    """From one question: when it left and when the answer came (monotonic), our clock `now` at the
    arrival, and the time the host told. The host read its clock somewhere between the two."""
    if not isinstance(remote, (int, float)) or isinstance(remote, bool) or not 0 < remote < _HUGE:
        return None
    half = (received - sent) / 2
    return ClockFacts(offset=remote - (now - half), uncertainty=half)


def peer_address(facts: Facts) -> str:
    """Where the other hosts reach this one; "" if nobody knows.

    The address our own connection came in by is proven to work; behind loopback (a forwarded port,
    a host that is this machine) it tells the others nothing, so then the default NIC's. A
    link-local one is of use with an interface of who connects: then another one of its NIC's.
    """
    known = facts.net.ssh_address
    if link_local(known):
        own = (n.addresses for n in facts.net.nics if n.name == facts.net.ssh_nic and n.up)
        return best(next(own, ())) or known
    if known and not loopback(known):
        return known
    for nic in sorted(facts.net.nics, key=lambda n: n.name != facts.net.default_nic):
        for address in nic.addresses:
            if nic.up and not loopback(address):
                return address
    return known


@cache  # asked again and again about the same addresses
def _parsed(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(address)
    except ValueError:
        return None


def loopback(address: str) -> bool:
    ip = _parsed(address)
    return ip is not None and ip.is_loopback


def link_local(address: str) -> bool:
    """fe80::/10. What is such a one of IPv4 (169.254.x.y) needs no interface beside it."""
    ip = _parsed(address)
    return ip is not None and ip.version == 6 and ip.is_link_local


def best(addresses: Iterable[str]) -> str:
    """Of one interface's addresses that which the other hosts can use, IPv4 where there is one."""
    return min((a for a in addresses if not link_local(a)), key=lambda a: ":" in a, default="")


def public(address: str) -> bool:
    ip = _parsed(address)
    return ip is not None and ip.is_global


def is_address(name: str) -> bool:
    return bool(_address(name))


def cores(facts: Facts) -> int | None:
    """Physical cores that this user may run on; logical CPUs where the kernel hides cores."""
    return None if usable(facts) is None else len(usable_cores.cores(facts.cpu))


def usable(facts: Facts) -> frozenset[int] | None:
    """The logical CPUs that are online and allowed; None when the host told nothing."""
    online = frozenset(c.id for c in facts.cpu.cpus)
    if not online:
        return None if facts.cpu.allowed is None else frozenset(facts.cpu.allowed)
    return online if facts.cpu.allowed is None else online & frozenset(facts.cpu.allowed)


def memory(facts: Facts) -> int | None:
    """The bytes that this user's processes can have: less than the host's where a control group
    limits them or allows the memory of some NUMA nodes only."""
    known = (facts.mem.total, facts.mem.limit, _of_allowed_nodes(facts))
    return min((n for n in known if n is not None), default=None)


def _of_allowed_nodes(facts: Facts) -> int | None:
    allowed = facts.mem.mems
    if allowed is None or not facts.nodes or not {n.id for n in facts.nodes} - set(allowed):
        return None
    sizes = [n.mem_total for n in facts.nodes if n.id in allowed]
    return sum(n or 0 for n in sizes) if sizes and None not in sizes else None


# --- plain values --------------------------------------------------------------------------------


def _unreadable(host: str, why: str) -> HostFailed:
    return HostFailed(
        f"{host}: the host sent invalid facts",
        why=why,
        hint="is another program running under the name python3 on that host?",
    )


def _kib(text: Any) -> int | None:
    words = plain(text).split()
    number = int_of(words[0]) if words else None
    return None if number is None else number * 1024


def _address(value: Any) -> str:
    """An IP address without its zone; "" for anything else."""
    text = plain(value).partition("%")[0]
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return ""


def _addresses(value: Any) -> tuple[str, ...]:
    return tuple(dict.fromkeys(a for a in map(_address, _list(value)) if a))


# --- parts ---------------------------------------------------------------------------------------


def _disk(raw: Any) -> DiskFacts | None:
    return hardware_facts.disk(raw) if isinstance(raw, Mapping) else None


def _net(raw: Mapping[str, Any]) -> NetFacts:
    nics = []
    for row in _list(raw.get("nics")):
        if isinstance(row, list) and len(row) == 6 and (name := _name(row[0])):
            speed, duplex = count_or_none(row[4]) or None, plain(row[5], 40)
            duplex = duplex if duplex in ("full", "half") else ""
            mtu, addresses = count_or_none(row[2]), _addresses(row[3])
            nics.append(Nic(name, row[1] is True, mtu, addresses, speed, duplex))
    return record(
        NetFacts,
        raw,
        hostname=_name(raw.get("hostname")),
        hostname_addresses=_addresses(raw.get("hostname_addresses")),
        ssh_address=_address(raw.get("ssh_address")),
        ssh_nic=_name(plain(raw.get("ssh_address")).partition("%")[2]),
        nics=tuple(nics),
        default_nic=_name(raw.get("default_nic")),
        routes=tuple(r for r in map(_route, _list(raw.get("routes"))) if r),
        port_range=_range(raw.get("port_range")),
        open_ports=(),
        name_servers=tuple(s for s in map(_name_server, _list(raw.get("name_servers"))) if s),
        localhost=_addresses(raw.get("localhost")) if "localhost" in raw else None,
    )


def _route(raw: Any) -> Route | None:
    words = _texts(raw)
    return Route(*words) if len(words) == 2 else None


def _name_server(raw: Any) -> NameServer | None:
    if not isinstance(raw, list) or len(raw) != 4 or not (address := _name(raw[0])):
        return None
    return NameServer(address, raw[1] is True, raw[2] is True, plain(raw[3], 200))


def _range(raw: Any) -> tuple[int, int] | None:
    numbers = [count_or_none(n) for n in _list(raw)]
    if len(numbers) != 2 or numbers[0] is None or numbers[1] is None:
        return None
    return numbers[0], numbers[1]


# --- what plain sh printed -----------------------------------------------------------------------


def _tried(line: str) -> tuple[str, str] | None:
    """`127 /usr/bin/python3: what it said` -> (path, words)."""
    code, _, rest = plain(line, 1000).partition(" ")
    path, colon, words = rest.partition(": ")
    if not code.isdigit() or not path.startswith("/"):
        return None
    return path.removesuffix(":"), words.strip() if colon else f"exit code {code}"


def _sections(text: str) -> dict[str, list[str]]:
    parts: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith(":") and line[1:].isalpha():
            lines = parts.setdefault(line[1:], [])
        else:
            lines.append(line)
    return parts


def _fields(text: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon:
            fields.setdefault(name.strip(), value.strip())
    return fields


def _release(lines: list[str]) -> dict[str, str]:
    pairs = (line.partition("=") for line in lines)
    return {name: plain(value.strip("\"'")) for name, _, value in pairs}


def _df(lines: list[str]) -> dict[str, tuple[int | None, int | None]]:
    """mount point -> (bytes in all, bytes free), in the order of `df -Pk`."""
    found = {}
    for line in lines:
        words = line.split()
        if len(words) >= 6 and words[1].isdigit():
            found[words[5]] = (_kib(words[1]), _kib(words[3]))
    return found


def _cpuinfo(blocks: list[dict[str, str]]) -> CpuFacts:
    cpus: list[Cpu] = []
    cores: dict[tuple[str, str], int] = {}
    for block in blocks[:MOST]:
        number = int_of(block.get("processor"))
        if number is None:
            continue
        where = block.get("physical id", ""), block.get("core id", "")
        core = cores.setdefault(where, number) if where[1] else None
        cpus.append(Cpu(number, core, int_of(where[0]), None))
    first = blocks[0] if blocks else {}
    raw = {
        "vendor": first.get("vendor_id") or first.get("CPU implementer"),
        "model_name": first.get("model name"),
        "family": first.get("cpu family"),
        "model": first.get("model") or first.get("CPU part"),
        "flags": first.get("flags") or first.get("Features"),
    }
    return replace(hardware_facts.cpu(raw, ()), cpus=tuple(cpus))
