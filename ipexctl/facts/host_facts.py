"""Convert what a host sent to Facts. A host may send anything: invalid values become None.

The raw document is what remote/facts/probe.py returns. From a host without python comes the text
of the few shell commands in machines/agent_start.py instead.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from ipexctl.base.host_answer import read_record
from ipexctl.base.values import MOST_ENTRIES, int_of
from ipexctl.base.values import count_or_none as count_or_none
from ipexctl.base.values import plain as plain
from ipexctl.errors import HostFailed
from ipexctl.facts import usable_cores
from ipexctl.facts.clocks_facts import ClockFacts
from ipexctl.facts.facts import Facts

_PARTS = ("host", "cpu", "mem", "disk", "net")


def from_json(host: str, raw: Any, clock: ClockFacts | None = None) -> Facts:
    """Return the facts. Raises HostFailed if this is not an answer of our probe at all."""
    if not isinstance(raw, Mapping):
        raise _invalid_facts_error(host, "not a document")
    wrong = [name for name in _PARTS if not isinstance(raw.get(name), Mapping)]
    if wrong:
        raise _invalid_facts_error(host, "no " + ", ".join(wrong))
    return read_record(
        Facts, {**raw["host"], **raw}, host=host, agent="python", clock=clock, tried=()
    )


def from_sh(host: str, text: str, root: str = "~/.ipexctl") -> Facts:
    """Return facts from the `:name` sections that plain sh printed."""
    sections = _split_sections(text)
    if "kernel" not in sections:
        raise _invalid_facts_error(host, "not what our shell commands print")
    line = {name: plain(lines[0]) if lines else "" for name, lines in sections.items()}
    mem = _read_fields("\n".join(sections.get("mem", [])))
    release = _read_os_release(sections.get("os", []))
    home = line.get("home", "")
    df = _read_df(sections.get("df", []))
    shm = df.pop("/dev/shm", (None, None))
    ssh = line.get("ssh", "").split()
    system = {
        "os_name": release.get("PRETTY_NAME"),
        "os_ids": (release.get("ID", "") + " " + release.get("ID_LIKE", "")).split(),
        "uid": int_of(line.get("uid")),
        "boot_id": line.get("boot"),
    }
    raw = {
        "host": {**line, **system},
        "cpu": {**_read_cpuinfo("\n".join(sections.get("cpu", []))), "arch": line.get("arch")},
        "mem": {
            "total": _read_kib(mem.get("MemTotal")),
            "available": _read_kib(mem.get("MemAvailable")),
            "swap_total": _read_kib(mem.get("SwapTotal")),
            "shm_total": shm[0],
            "shm_free": shm[1],
        },
        "net": {
            "hostname": line.get("hostname"),
            "ssh_address": ssh[2] if len(ssh) == 4 else "",
            "ssh_nic": ssh[2].partition("%")[2] if len(ssh) == 4 else "",
        },
        "disk": {
            "root": root.replace("~", home, 1) if root.startswith("~/") else root,
            "free": next((free for _, free in df.values()), None),
        },
    }
    broken = tuple(t for t in map(_read_tried_python, sections.get("tried", [])) if t)
    return replace(from_json(host, raw), agent="sh", tried=broken)


def peer_address(facts: Facts) -> str:
    """Return the address where the other hosts reach this one; "" if it is unknown.

    The address at which our own connection arrived is proven to work; loopback (a forwarded port, a
    host that is the controller) is useless to the others, so then it is the default NIC's. A
    link-local one needs an interface on the connecting host, so then another of its NIC is used.
    """
    address = facts.net.ssh_address
    if link_local(address):
        addresses = (n.addresses for n in facts.net.nics if n.name == facts.net.ssh_nic and n.up)
        return best_address(next(addresses, ())) or address
    if address and not is_loopback(address):
        return address
    for nic in sorted(facts.net.nics, key=lambda n: n.name != facts.net.default_nic):
        for own_address in nic.addresses:
            if nic.up and not is_loopback(own_address):
                return own_address
    return address


@cache  # called repeatedly with the same addresses
def _parse_address(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(address)
    except ValueError:
        return None


def is_loopback(address: str) -> bool:
    ip = _parse_address(address)
    return ip is not None and ip.is_loopback


def link_local(address: str) -> bool:
    """Decide if an address is in fe80::/10; IPv4 link-local ones need no interface."""
    ip = _parse_address(address)
    return ip is not None and ip.version == 6 and ip.is_link_local


def best_address(addresses: Iterable[str]) -> str:
    """Return the address of an interface that other hosts can use, IPv4 if it has one."""
    return min((a for a in addresses if not link_local(a)), key=lambda a: ":" in a, default="")


def is_public(address: str) -> bool:
    ip = _parse_address(address)
    return ip is not None and ip.is_global


def count_usable_cores(facts: Facts) -> int | None:
    """Return how many cores this user may use; logical CPUs if cores are hidden."""
    return None if usable_cpus(facts) is None else len(usable_cores.list_cores(facts.cpu))


def usable_cpus(facts: Facts) -> frozenset[int] | None:
    """Return the logical CPUs that are online and allowed; None if the host reported none."""
    online = frozenset(cpu.id for cpu in facts.cpu.cpus)
    if not online:
        return None if facts.cpu.allowed is None else frozenset(facts.cpu.allowed)
    return online if facts.cpu.allowed is None else online & frozenset(facts.cpu.allowed)


def usable_memory(facts: Facts) -> int | None:
    """Return the bytes that this user's processes can have: less than the host's if a control group
    limits them or allows the memory of some NUMA nodes only."""
    amounts = (facts.mem.total, facts.mem.limit, _of_allowed_nodes(facts))
    return min((n for n in amounts if n is not None), default=None)


def _of_allowed_nodes(facts: Facts) -> int | None:
    allowed = facts.mem.mems
    if allowed is None or not facts.nodes or not {n.id for n in facts.nodes} - set(allowed):
        return None
    sizes = [n.mem_total for n in facts.nodes if n.id in allowed]
    return sum(n or 0 for n in sizes) if sizes and None not in sizes else None


# --- plain values --------------------------------------------------------------------------------


def _invalid_facts_error(host: str, why: str) -> HostFailed:
    return HostFailed(
        f"{host}: the host sent invalid facts",
        why=why,
        hint="is another program running under the name python3 on that host?",
        slug="invalid-facts",
    )


def _read_kib(text: Any) -> int | None:
    words = plain(text).split()
    number = int_of(words[0]) if words else None
    return None if number is None else number * 1024


# --- what plain sh printed -----------------------------------------------------------------------


def _read_tried_python(line: str) -> tuple[str, str] | None:
    """Parse `127 /usr/bin/python3: message` to (path, message)."""
    code, _, rest = plain(line, 1000).partition(" ")
    path, colon, words = rest.partition(": ")
    if not code.isdigit() or not path.startswith("/"):
        return None
    return path.removesuffix(":"), words.strip() if colon else f"exit code {code}"


def _split_sections(text: str) -> dict[str, list[str]]:
    sections: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith(":") and line[1:].isalpha():
            lines = sections.setdefault(line[1:], [])
        else:
            lines.append(line)
    return sections


def _read_fields(text: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon:
            fields.setdefault(name.strip(), value.strip())
    return fields


def _read_os_release(lines: list[str]) -> dict[str, str]:
    pairs = (line.partition("=") for line in lines)
    return {name: plain(value.strip("\"'")) for name, _, value in pairs}


def _read_df(lines: list[str]) -> dict[str, tuple[int | None, int | None]]:
    """Return mount point -> (total bytes, free bytes), in the order of `df -Pk`."""
    spaces = {}
    for line in lines:
        words = line.split()
        if len(words) >= 6 and words[1].isdigit():
            spaces[words[5]] = (_read_kib(words[1]), _read_kib(words[3]))
    return spaces


def _read_cpuinfo(text: str) -> dict[str, Any]:
    blocks = [_read_fields(block) for block in text.split("\n\n") if block.strip()]
    cpus = []
    cores: dict[tuple[str, str], int] = {}
    for block in blocks[:MOST_ENTRIES]:
        number = int_of(block.get("processor"))
        if number is None:
            continue
        where = block.get("physical id", ""), block.get("core id", "")
        core = cores.setdefault(where, number) if where[1] else None
        cpus.append([number, core, int_of(where[0]), None])
    first = blocks[0] if blocks else {}
    return {
        "vendor": first.get("vendor_id") or first.get("CPU implementer"),
        "model_name": first.get("model name"),
        "family": int_of(first.get("cpu family")),
        "model": int_of(first.get("model") or first.get("CPU part")),
        "flags": (first.get("flags") or first.get("Features", "")).split(),
        "cpus": cpus,
    }
