"""Findings about what `--level std` measured; there are none at the level quick."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from ipexctl.doctor.checks.interfaces import look_at_link, peer_nic
from ipexctl.doctor.checks.registry import Evidence, cluster_check
from ipexctl.doctor.report.cluster import CheckedHosts
from ipexctl.doctor.report.finding import Severity, Shell, command, do, ipexctl_command
from ipexctl.facts import isa
from ipexctl.facts.facts import Facts
from ipexctl.facts.speed_facts import HostBench, Losses, MeasuredLink, median, onednn_level
from ipexctl.inventory.hostfile_text import fold

EQUALS = 3  # with fewer, the slow one cannot be identified


SLOW = 0.7  # of the median of equal hosts: samples of half a second differ by 10 % or more anyway


@cluster_check(
    "PERF-001",
    title="slower than identical hosts",
    severity=Severity.WARN,
    seen="--level std: below 70 % of the median of at least three identical hosts",
    why="In each step, all hosts wait for the slowest one. Another program, a power or heat limit, "
    "a missing memory module or a busy neighbor in the cloud are the usual causes.",
    fix=do(
        command("top -bn1", pipe="head -20"),
        "   and compare clock rates: ",
        command("grep MHz /proc/cpuinfo"),
    ),
)
def slow_host(cluster: CheckedHosts) -> Iterator[Evidence]:
    for equal in _equal_hosts(cluster):
        for label, unit, value in _SPEEDS:
            rates = [(bench, v) for bench in equal if (v := value(bench))]
            if len(rates) < EQUALS:
                continue
            typical = median(v for _, v in rates)
            for bench, v in rates:
                if v < SLOW * typical:
                    evidence = f"{label} {v:.0f} {unit}, median {typical:.0f} of {len(rates)} hosts"
                    yield Evidence(evidence, host=bench.host)


BF16_GAIN = 0.9


@cluster_check(
    "PERF-002",
    title="bf16 is slower than fp32 although the CPU has it",
    severity=Severity.WARN,
    seen="--level std: bf16 is slower than fp32, although the CPU flags include it",
    why="The libraries do not use the CPU's bf16 instructions: an old torch, a limit in the "
    "environment (ONEDNN_MAX_CPU_ISA), or a hypervisor that emulates them.",
    fix=do(
        "train in fp32 here, or see which kernels are chosen: ",
        Shell("ONEDNN_VERBOSE=1 python3 train.py | head"),
    ),
)
def slow_bf16(cluster: CheckedHosts) -> Iterator[Evidence]:
    for h, facts in _comparable_hosts(cluster):
        features = {"avx512_bf16", "amx_bf16"} & facts.cpu.flags
        if features and h.bf16 and h.fp32 and h.bf16 < BF16_GAIN * h.fp32:
            flags = ", ".join(sorted(features))
            evidence = f"bf16 {h.bf16:.0f}, fp32 {h.fp32:.0f} GFLOP/s; {flags} in /proc/cpuinfo"
            yield Evidence(evidence, host=h.host)


@cluster_check(
    "PERF-004",
    title="oneDNN uses less than the CPU supports",
    severity=Severity.WARN,
    seen="--level std: oneDNN reports a lower instruction set than the CPU flags show",
    why="PyTorch runs bf16 matrix multiplications and convolutions with oneDNN.",
    fix=do(
        command("unset ONEDNN_MAX_CPU_ISA DNNL_MAX_CPU_ISA"),
        "   or install a newer torch; in a container: allow arch_prctl in its seccomp profile",
    ),
)
def onednn_low(cluster: CheckedHosts) -> Iterator[Evidence]:
    for bench, facts in _comparable_hosts(cluster):
        chosen, level = onednn_level(bench.onednn), isa.cpu_level(facts.cpu)
        if chosen in isa.LEVELS and level in isa.LEVELS and not isa.at_least(chosen, level):
            yield Evidence(f"it says: {bench.onednn}; the flags say {level}", host=bench.host)


SLOW_LINK = 500e6  # bits per second; below gigabit Ethernet by more than a sample's error
SLOW_BESIDE = 0.5  # of the median of all links
FAST_LINK = 5e9  # above that, one stream measures the hosts' processors rather than the link


@cluster_check(
    "PERF-005",
    title="a slow link",
    severity=Severity.WARN,
    seen="--level std: one TCP stream below 500 Mbit/s, or below half of the other links",
    why="Every step sends all gradients over the slowest link: for a model with 100 million "
    "parameters, half a minute at 100 Mbit/s.",
    fix=look_at_link("IFACE"),
)
def slow_link(cluster: CheckedHosts) -> list[Evidence]:
    rated = [(link, link.rate) for link in cluster.measured.links if link.rate]
    if not rated:
        return []
    typical = median(rate for _, rate in rated)
    relative = min(SLOW_BESIDE * typical, FAST_LINK) if len(rated) >= EQUALS else 0.0
    limit = max(SLOW_LINK, relative)
    slow = [(link, rate) for link, rate in rated if rate < limit]
    return [_slow_links_evidence(cluster, host, own) for host, own in _hosts_to_blame(slow, rated)]


LATENCY = 5e-3


@cluster_check(
    "PERF-006",
    title="high network latency",
    severity=Severity.WARN,
    seen="--level std: the round trip of a small message takes more than 5 ms",
    why="Collectives are chains of small messages; hosts that are far apart spend their time "
    "waiting.",
    fix="use hosts of one site and one network   (ping, ip route get: is there a VPN in between?)",
)
def far(cluster: CheckedHosts) -> list[Evidence]:
    distant = [n for n in cluster.measured.links if n.latency and n.latency > LATENCY]
    return [
        Evidence(f"to {link.target}: {(link.latency or 0) * 1e3:.1f} ms", host=link.source)
        for link in distant
    ]


@cluster_check(
    "PERF-008",
    title="torch does not work",
    severity=(Severity.FAIL, Severity.WARN),
    seen="--level std: importing torch or a matrix multiplication failed (fail) or took too "
    "long (warn)",
    why="Ranks would fail in the same way, or start just as slowly.",
    fix=do(ipexctl_command("install"), "   (rebuilds the environment)"),
)
def broken_torch(cluster: CheckedHosts) -> Iterator[Evidence]:
    for bench in cluster.measured.hosts:
        if bench.status in ("failed", "late"):
            severity = Severity.FAIL if bench.status == "failed" else Severity.WARN
            last = bench.why.strip().rpartition("\n")[2][-300:]
            yield Evidence(last or bench.status, severity=severity, host=bench.host)


@cluster_check(
    "PERF-009",
    title="a link could not be measured",
    severity=Severity.WARN,
    seen="--level std: the connection opened, but the transfer over it failed",
    why="Large packets are lost (MTU), or a firewall ends the connection.",
    fix=do(
        command("ping -c 3 -M do -s 1472 ADDRESS"),
        "   (between the two hosts: does a full-size packet arrive?)",
    ),
)
def broken_link(cluster: CheckedHosts) -> list[Evidence]:
    reached = {(peer.source, peer.target) for peer in cluster.peers if peer.ok and not peer.lost}
    return [
        Evidence(f"to {link.target}: {link.error}", host=link.source)
        for link in cluster.measured.links
        if link.error and (link.source, link.target) in reached
    ]


LOST, LEAST_LOST = 0.003, 3  # share and number of packets: fewer may be chance


@cluster_check(
    "PERF-010",
    title="packets get lost",
    severity=Severity.WARN,
    seen=f"--level std: at least {LOST:.1%} of 1,000 small packets to another host were lost, on "
    "a link that was hardly in use",
    why="TCP sends them again after a pause of 1 ms to 200 ms, and all ranks wait for the one that "
    "waits: a collective is as slow as its worst packet.",
)
def lossy_link(cluster: CheckedHosts) -> Iterator[Evidence]:
    rated = [(n, n.lost / n.sent) for n in cluster.measured.losses]
    lossy = [(n, share) for n, share in rated if n.lost >= LEAST_LOST and share >= LOST]
    for host, links in _hosts_to_blame(lossy, rated):
        ends = ((n.target if n.source == host else n.source, n) for n, _ in links)
        text = "; ".join(f"with {name}: {n.lost} of {n.sent} lost" for name, n in ends)
        fix = do(
            command("ip -s link show", _nic_of(cluster, host)),
            "   (errors and drops, on both hosts; then the cable and the switch port)",
        )
        yield Evidence(text, host=host, fix=fix)


# --- shared --------------------------------------------------------------------------------------

Speed = Callable[[HostBench], float | None]
_SPEEDS: tuple[tuple[str, str, Speed], ...] = (
    ("fp32", "GFLOP/s", lambda h: h.fp32),
    ("bf16", "GFLOP/s", lambda h: h.bf16),
    ("memory copy", "GB/s", lambda h: h.copy),
)


def _equal_hosts(cluster: CheckedHosts) -> list[list[HostBench]]:
    """Group comparable hosts, one per machine: its containers share their speed with each other."""
    facts = {host.host: host for host in cluster.hosts}
    groups: dict[tuple[object, ...], list[HostBench]] = {}
    machines = set[str]()
    for bench in cluster.measured.hosts:
        info = facts.get(bench.host)
        if info and bench.status == "ok" and (info.boot_id or bench.host) not in machines:
            machines.add(info.boot_id or bench.host)
            groups.setdefault((info.cpu.model_name, bench.threads, bench.torch), []).append(bench)
    return list(groups.values())


def _comparable_hosts(cluster: CheckedHosts) -> Iterator[tuple[HostBench, Facts]]:
    """Yield the hosts whose CPU flags, as far as can be detected, are those of the real CPU."""
    facts = {host.host: host for host in cluster.hosts}
    for bench in cluster.measured.hosts:
        if bench.host in facts and not bench.cpuinfo_mounted:
            yield bench, facts[bench.host]


_Pair = TypeVar("_Pair", MeasuredLink, Losses)


def _hosts_to_blame(
    slow: Sequence[tuple[_Pair, float]], all_: Sequence[tuple[_Pair, float]]
) -> list[tuple[str, list[tuple[_Pair, float]]]]:
    """Return the hosts whose links are all slow while others are good; else the links' sources."""
    hosts = {name for link, _ in all_ for name in (link.source, link.target)}
    slow_ids = {id(link) for link, _ in slow}
    rest = list(slow)
    blamed: list[tuple[str, list[tuple[_Pair, float]]]] = []
    if len(slow_ids) < len(all_) and len(hosts) > 2:
        for host in sorted(hosts):
            of_host = [(n, r) for n, r in all_ if host in (n.source, n.target)]
            remaining = [(n, r) for n, r in rest if host in (n.source, n.target)]
            if len(of_host) > 1 and remaining and all(id(n) in slow_ids for n, _ in of_host):
                blamed.append((host, remaining))
                rest = [(n, r) for n, r in rest if (n, r) not in remaining]
    for link, rate in rest:
        blamed.append((link.source, [(link, rate)]))
    return blamed


def _nic_of(cluster: CheckedHosts, host: str) -> str:
    facts = cluster.facts_of(host)
    nic = peer_nic(facts) if facts else None
    return nic.name if nic else "IFACE"


_GRADIENTS = 400e6 * 8  # bits of 100 million fp32 gradients


def _slow_links_evidence(
    cluster: CheckedHosts, host: str, links: Sequence[tuple[MeasuredLink, float]]
) -> Evidence:
    rate = min(r for _, r in links)
    names = fold(n.target if n.source == host else n.source for n, _ in links)
    return Evidence(
        f"with {names}: {rate / 1e6:.0f} Mbit/s; 100 million gradients take "
        f"{_GRADIENTS / rate:.0f} s",
        fix=look_at_link(_nic_of(cluster, host)),
        host=host,
    )
