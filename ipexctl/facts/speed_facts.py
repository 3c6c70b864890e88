"""What `doctor --level std` measures: how fast hosts compute, and how fast the links between them.

Pure: which pairs are tried and in which order, and the hosts' answers as values. The numbers are
samples of a second or less: good enough to find the host or the cable that differs from the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ipexctl.common.speed_answers import HostSpeed, LinksMeasured, PacketsCounted
from ipexctl.facts.facts import Facts
from ipexctl.quick_dataclass import dataclass

RING = 32  # with up to this many hosts, each measures the link to the next one
SAMPLED = 64  # pairs with more hosts
AT_ONCE = 2  # pairs measured at the same time: more would measure the switch or our own hosts
SAME_MACHINE = 8  # "hosts" on one machine that are measured, one after the other

Pair = tuple[str, str]


@dataclass(frozen=True)
class HostBench:
    """One host's own speed. Numbers are None if nothing was measured; then `why` has the reason."""

    host: str
    status: str = "failed"  # or ok, no-torch, late, skipped
    why: str = ""
    torch: str = ""
    threads: int | None = None
    # 1e9 operations per second
    fp32: float | None = None
    bf16: float | None = None
    # 1e9 bytes per second, read and written; None if memory is short
    copy: float | None = None
    onednn: str = ""  # the instruction set that oneDNN reports
    cpuinfo_mounted: bool = False  # then the flags may not be the CPU's own


@dataclass(frozen=True)
class MeasuredLink:
    """One direction between two hosts: the latency of small messages, then one TCP stream."""

    source: str
    target: str
    latency: float | None = None  # median, seconds
    rate: float | None = None  # bits per second
    error: str = ""


@dataclass(frozen=True)
class Losses:
    """The lost small packets from one host to another, at a rate far below the link's capacity."""

    source: str
    target: str
    sent: int
    lost: int


@dataclass(frozen=True)
class Measurements:
    hosts: tuple[HostBench, ...] = ()
    links: tuple[MeasuredLink, ...] = ()
    losses: tuple[Losses, ...] = ()


# --- what to measure -----------------------------------------------------------------------------


def plan_rounds(names: Sequence[str]) -> list[list[Pair]]:
    """Return the pairs to measure: a host is at most once in a round, and there are few pairs.

    It is a ring up to 32 hosts, so that each one sends once and receives once. With more, each host
    is in at most one pair: with the host half the cluster away, which likely has another switch.
    """
    count = len(names)
    if count < 2:
        return []
    if count > RING:
        half = count // 2
        pairs = [(names[i], names[i + half]) for i in range(half)][:SAMPLED]
    else:
        pairs = [(name, names[(i + 1) % count]) for i, name in enumerate(names)]
        pairs = [*pairs[0::2], *pairs[1::2]]
    return _disjoint_groups(pairs)


def _disjoint_groups(pairs: Sequence[Pair]) -> list[list[Pair]]:
    """Split pairs into groups that can be measured at once: no host occurs twice in a group."""
    groups: list[list[Pair]] = []
    for pair in pairs:
        for group in groups:
            busy = {name for other in group for name in other}
            if len(group) < AT_ONCE and not busy & set(pair):
                group.append(pair)
                break
        else:
            groups.append([pair])
    return groups


def benchmark_waves(hosts: Sequence[Facts]) -> tuple[list[list[str]], list[str]]:
    """Return which hosts compute at the same time, and those left out.

    Containers on one machine share its cores, so they take turns.
    """
    machines: dict[str, list[str]] = {}
    for facts in hosts:
        machines.setdefault(facts.boot_id or facts.host, []).append(facts.host)
    waves = [
        [names[turn] for names in machines.values() if turn < len(names)]
        for turn in range(SAME_MACHINE)
    ]
    skipped = [name for names in machines.values() for name in names[SAME_MACHINE:]]
    return [wave for wave in waves if wave], skipped


# --- the hosts' answers --------------------------------------------------------------------------


def host_bench(host: str, speed: HostSpeed) -> HostBench:
    return HostBench(
        host,
        speed.status,
        speed.why,
        speed.torch,
        speed.threads,
        speed.fp32,
        speed.bf16,
        speed.copy,
        speed.onednn,
        speed.cpuinfo_mounted,
    )


def links_to(source: str, targets: Sequence[str], answer: LinksMeasured) -> list[MeasuredLink]:
    """Return one link for each target, whether or not the host speaks of it."""
    links = {
        link.target: MeasuredLink(source, link.target, link.latency, link.rate, link.error)
        for link in answer.links
    }
    return [links.get(t) or MeasuredLink(source, t, error="no answer") for t in targets]


def losses_to(source: str, target: str, counted: PacketsCounted) -> Losses | None:
    """Return the losses; None if the host could not count them."""
    sent, lost = counted.sent, counted.lost
    return None if not sent or lost is None else Losses(source, target, sent, lost)


def onednn_level(text: str) -> str:
    """Return our level for oneDNN's text; "" for unknown text."""
    words = text.lower()
    if "amx" in words:
        return "amx"
    if "avx-512" in words or "avx512" in words:
        return "avx512-bf16" if "bfloat16" in words or "bf16" in words else "avx512"
    if "avx2" in words or "avx10" in words:
        return "avx2"
    return "sse" if "sse" in words or "avx" in words else ""


def median(numbers: Iterable[float]) -> float:
    """Return the median of at least one number."""
    ordered = sorted(numbers)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
