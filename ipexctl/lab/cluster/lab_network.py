"""The switch, network cards and cables of a lab, through `ip` and `tc`."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterable
from ipaddress import IPv4Network
from typing import Any

from ipexctl.common.waiting import wait_until
from ipexctl.errors import HostFailed
from ipexctl.lab.cluster import linux
from ipexctl.lab.cluster.lab_plan import LabHostPlan, LabPlan
from ipexctl.lab.cluster.processes import ENV, run_tool

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


def list_used_networks() -> list[IPv4Network]:
    """Return every IPv4 network this machine has an address in or a route to, but the default."""
    networks = []
    for link in _ip("-4", "addr"):
        for info in link.get("addr_info", ()):
            networks.append(f"{info['local']}/{info['prefixlen']}")
    for route in _ip("-4", "route", "show", "table", "all"):
        if route.get("dst", "default") != "default":
            networks.append(route["dst"])
    return [net for word in networks if (net := IPv4Network(word, strict=False)).prefixlen]


def start_switch() -> int:
    """Start a process that only holds the switch's network namespace; it ends with its parent."""
    ready, report = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid:
        os.close(report)
        answer = os.read(ready, 1)
        os.close(ready)
        if not answer:
            raise HostFailed(
                "the lab's switch did not start",
                why="no network namespace",
                slug="lab-network-failed",
            )
        return pid
    try:
        linux.die_with_parent()
        if os.getppid() != parent:  # it ended before the request for its death signal
            os._exit(1)
        linux.unshare(linux.CLONE_NEWNET)
        os.write(report, b"g")
        os.execve("/bin/sleep", ["lab-switch", "infinity"], ENV)
    finally:
        os._exit(1)


def connect_uplink(link: str, switch: int) -> bool:
    """Connect this machine to the switch; False if another lab has that link's name."""
    words = ["link", "add", link, "type", "veth", "peer", "name", "uplink", "netns", str(switch)]
    result = subprocess.run(["ip", *words], env=ENV, capture_output=True, text=True)
    if result.returncode and "File exists" not in result.stderr:
        raise HostFailed(
            "cannot add a network link", why=result.stderr.strip(), slug="lab-network-failed"
        )
    return result.returncode == 0


def open_switch(plan: LabPlan, switch: int) -> None:
    run_ip_batch(
        ["link set lo up", "link add br0 type bridge", "link set br0 up"]
        + ["link set uplink master br0 up"],
        switch,
    )
    run_ip_batch([_address_add(plan.gateway, plan.link), f"link set {plan.link} up"])


def plug_host_nics(host: LabHostPlan, switch: int, pid: int) -> None:
    """Give the host its network cards; their other ends go to the switch."""
    lines = []
    for nic in host.nics:
        peer = f"peer name {nic.name} address {nic.mac} netns {pid}"
        lines += [f"link add {nic.port} type veth {peer}", f"link set {nic.port} master br0 up"]
    run_ip_batch(lines, switch)
    for nic, rate in zip(host.nics, host.spec.rates, strict=False):
        if rate:
            limit_rate(nic.port, rate, switch)
            limit_rate(nic.name, rate, pid)


def set_cable_state(host: LabHostPlan, switch: int, state: str) -> None:
    """Unplug the host's cables ("down") or plug them in ("up")."""
    run_ip_batch([f"link set {nic.port} {state}" for nic in host.nics], switch)


def announce_host(host: LabHostPlan, switch: int, pid: int) -> None:
    """Announce the host to the network, as a starting machine does.

    Otherwise a peer that got no answer shortly before reports "no route to host" a second longer.
    """
    _wait_forwarding(host, switch)
    # With arp_notify the kernel sends an ARP request for its own address when the MAC is set.
    run_ip_batch([f"link set {nic.name} address {nic.mac}" for nic in host.nics], pid)


def _wait_forwarding(host: LabHostPlan, switch: int) -> None:
    ports = {nic.port for nic in host.nics}

    def all_forward() -> bool:
        links = json.loads(_run([*_inside(switch), "ip", "-j", "-d", "link", "show"]) or "[]")
        return ports <= {link["ifname"] for link in links if _forwards(link)}

    wait_until(all_forward, 10)


def _forwards(link: dict[str, Any]) -> bool:
    slave = link.get("linkinfo", {}).get("info_slave_data", {})
    return bool(link.get("operstate") == "UP" and slave.get("state") == "forwarding")


def unplug_for_good(host: LabHostPlan, switch: int) -> None:
    """Remove the ports; the kernel may have done it already."""
    for nic in host.nics:
        argv = [*_inside(switch), "ip", "link", "del", nic.port]
        subprocess.run(argv, env=ENV, capture_output=True)


def host_batch_text(host: LabHostPlan) -> str:
    """Return the commands for `ip -batch` in the host itself."""
    lines = ["link set lo up"]
    for nic in host.nics:
        lines += [_address_add(address, nic.name) for address in nic.addresses]
        lines += [f"link set {nic.name} up"]
    return "".join(f"{line}\n" for line in lines)


def _address_add(address: str, device: str) -> str:
    """Return the command, for IPv6 without the second or two of duplicate address detection."""
    return f"address add {address} dev {device}{' nodad' if ':' in address else ''}"


def remove_uplink(link: str) -> None:
    """Remove the cable and wait until the kernel has done so."""
    subprocess.run(["ip", "link", "del", link], env=ENV, capture_output=True)


def wait_gone(link: str) -> bool:
    return wait_until(lambda: not os.path.exists(f"/sys/class/net/{link}"), 10, 0.02)


def limit_rate(device: str, rate: str, pid: int = 0) -> None:
    """Limit what leaves `device` to `rate` with a token bucket."""
    burst = max(32 * 1024, _bits(rate) // 8 // 100)
    words = ["root", "tbf", "rate", rate, "burst", str(burst), "latency", "400ms"]
    _run([*_inside(pid), "tc", "qdisc", "replace", "dev", device, *words])


def run_ip_batch(lines: Iterable[str], pid: int = 0) -> None:
    """Run `ip -batch` here, or in the network namespace of process `pid`."""
    _run([*_inside(pid), "ip", "-batch", "-"], "".join(f"{line}\n" for line in lines))


def _inside(pid: int) -> list[str]:
    return ["nsenter", "-t", str(pid), "-n"] if pid else []


def _bits(rate: str) -> int:
    number, unit = re.fullmatch(r"([\d.]+)([kmgt]?)bit", rate).groups()  # type: ignore[union-attr]
    return int(float(number) * _UNITS[unit])


def _ip(*words: str) -> Any:
    return json.loads(_run(["ip", "-j", *words]) or "[]")


def _run(argv: list[str], stdin: str = "") -> str:
    return run_tool(argv, stdin, what=f"the lab's network failed at: {' '.join(argv)}")
