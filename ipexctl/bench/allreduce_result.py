"""Evaluate the output of the ranks of `bench allreduce`: a table, and the slow hosts and links.

Lines come from hosts, so everything in them is checked. Limits, words and reasons are those of the
doctor's checks: they judge the links that it measured, and the speeds of hosts that ranks measured
while all of them computed.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from ipexctl.base.values import count_or_none, list_of, plain, positive_or_none
from ipexctl.doctor.checks import all_checks
from ipexctl.doctor.checks.registry import Check, Evidence, run_checks
from ipexctl.doctor.checks.speed import EQUALS, SLOW
from ipexctl.doctor.report.cluster import CheckedHosts
from ipexctl.doctor.report.finding import Finding, Severity
from ipexctl.errors import InputError
from ipexctl.facts import host_facts
from ipexctl.facts.speed_facts import HostBench, MeasuredLink
from ipexctl.quick_dataclass import dataclass

MARK = "ipexctl-allreduce:"  # as in in_ranks/allreduce_bench.py
SIZES = tuple(4**k for k in range(1, 16))  # bytes
SHORTEST = 1e-3  # microseconds
BACKENDS = ("gloo", "ccl")
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


# --- why a host is slow: from the doctor's checks, and from what its ranks noticed -------------

LONGEST = 4096  # characters of a line
OF_HOST = {
    "LOAD-001": "busy",
    "LOAD-002": "busy",
    "LOAD-003": "busy",
    "LOAD-004": "busy",
    "CORE-001": "few-cpus",
    "CORE-002": "few-cpus",
    "CPU-008": "few-cpus",
    "CORE-003": "cpu-quota",
    "PWR-001": "frequency",
    "PWR-002": "frequency",
    "PWR-004": "frequency",
    "PWR-005": "frequency",
    "PWR-003": "throttled",
}


@dataclass(frozen=True)
class Reason:
    """Why something is slow, in the words of the doctor's check (or of the known failure)."""

    slug: str
    check: str
    title: str
    evidence: str
    fix: str


def reason_of(finding: Finding, slugs: Mapping[str, str] = OF_HOST) -> Reason:
    return Reason(slugs[finding.id], finding.id, finding.title, finding.evidence, str(finding.fix))


def known_checks() -> dict[str, Check]:
    return {check.id: check for check in all_checks()}


def line_of(text: str, mark: str) -> Mapping[str, Any] | None:
    """Return the document after the mark of our script; None if the line has no such mark."""
    if not text.startswith(mark):
        return None
    try:
        document = json.loads(text[len(mark) : LONGEST])
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


# --- what the ranks printed ----------------------------------------------------------------------


@dataclass(frozen=True)
class Rate:
    """What one rank computed while all others did the same."""

    gflops: float
    threads: int | None


@dataclass
class BenchLines:
    """The lines of all ranks of a run with `ranks` ranks."""

    ranks: int
    torch: str = ""
    backend: str = ""
    error: str = ""  # a slug: no-ccl, wrong-sum
    why: str = ""
    rates: dict[int, Rate] = field(default_factory=dict)
    times: dict[int, dict[int, tuple[float, int]]] = field(default_factory=dict)
    left: tuple[int, ...] = ()  # sizes that were not measured
    left_why: str = ""  # time, memory

    def add(self, rank: int, text: str) -> bool:
        """Read a line; False if it is not our script's."""
        line = line_of(text, MARK)
        if line is None:
            return False
        if 0 <= rank < self.ranks:
            self._read_document(rank, line)
        return True

    def _read_document(self, rank: int, line: Mapping[str, Any]) -> None:
        """Record the document of one printed line; invalid values are left out."""
        kind = line.get("kind")
        if kind == "size":
            size, count = count_or_none(line.get("size")), count_or_none(line.get("iterations"))
            average = positive_or_none(line.get("average"))
            if size and size in SIZES and count and average and average >= SHORTEST:
                self.times.setdefault(size, {})[rank] = average, count
        elif kind == "compute" and (gflops := positive_or_none(line.get("gflops"))):
            threads = count_or_none(line.get("threads")) or None
            self.rates[rank] = Rate(gflops, threads)
        elif kind == "left" and line.get("why") in ("time", "memory"):
            sizes = list_of(line.get("sizes"))
            self.left = tuple(size for size in SIZES if size in sizes)
            self.left_why = line["why"]
        elif kind == "rank":
            self.torch = plain(line.get("torch"), 60)
            self.backend = plain(line.get("backend"), 20)
        elif kind == "error" and not self.error:
            self.error = "no-ccl" if line.get("slug") == "no-ccl" else "wrong-sum"
            self.why = plain(line.get("why"), 200)


@dataclass(frozen=True)
class AllreduceRow:
    """One size, in OSU's columns: microseconds, over the averages of the ranks."""

    size: int
    average: float
    least: float
    most: float
    iterations: int
    bus: float  # bits per second on each link
    of_link: float | None = None  # as a share of what the slowest link carried alone


def measured_rows(report: BenchLines, link: float | None) -> tuple[AllreduceRow, ...]:
    """Return sizes that all ranks measured. `link`: bits per second of the slowest link."""
    rows = []
    for size, by_rank in sorted(report.times.items()):
        if len(by_rank) != report.ranks:
            continue
        times = [average for average, _ in by_rank.values()]
        mean = math.fsum(times) / len(times)
        bus = bus_rate(size, mean, report.ranks)
        count = min(count for _, count in by_rank.values())
        share = bus / link if link else None
        rows.append(AllreduceRow(size, mean, min(times), max(times), count, bus, share))
    return tuple(rows)


def bus_rate(size: int, microseconds: float, ranks: int) -> float:
    """Return bits per second on each link: a ring all_reduce carries 2(n-1)/n of the size."""
    return size * 8 * 2 * (ranks - 1) / ranks / (microseconds * 1e-6)


def slowest_rate(links: Iterable[MeasuredLink]) -> float | None:
    return min((link.rate for link in links if link.rate), default=None)


# --- which hosts are slow, and why ---------------------------------------------------------------

_SLOW_HOST = "PERF-001"
# measured value -> its name here
_SLOW = {
    _SLOW_HOST: "slow-host",
    "PERF-005": "slow-link",
    "PERF-006": "far-link",
    "PERF-009": "broken-link",
    "PERF-010": "lossy-link",
}
_OF_LINK = {
    "NET-013": "mtu",
    "NET-014": "mtu",
    "NET-025": "mtu",
    "NET-027": "link-speed",
    "NET-028": "link-speed",
}
_THREADS = "remove OMP_NUM_THREADS from run.env in ipexctl.toml   (ipexctl config --show-origin)"
_ONE_THREAD = "one-thread"  # a known failure; no check of doctor sees it
_USED = frozenset((*_SLOW, *OF_HOST, *_OF_LINK))


@dataclass(frozen=True)
class SlowPart:
    """A host or a link for which the others wait. `host` "": of the cluster."""

    kind: str  # host, link
    slug: str
    host: str
    check: str
    title: str
    evidence: str
    fix: str
    reasons: tuple[Reason, ...] = ()


@dataclass(frozen=True)
class Placed:
    """What the doctor found and measured on the hosts, and the ranks of each host."""

    cluster: CheckedHosts
    ranks: Mapping[str, Sequence[int]]

    def rates(self, report: BenchLines) -> dict[str, float]:
        """Return each host's 1e9 operations per second, all its ranks together."""
        rates = {}
        for host, ranks in self.ranks.items():
            gflops = [report.rates[rank].gflops for rank in ranks if rank in report.rates]
            if gflops and len(gflops) == len(ranks):
                rates[host] = math.fsum(gflops)
        return rates

    def fastest_alike(self, rates: Mapping[str, float]) -> dict[str, str]:
        """Return for each host the fastest one with the same CPU."""
        models: dict[str, list[str]] = {}
        for facts in self.cluster.hosts:
            if facts.host in rates:
                models.setdefault(facts.cpu.model_name, []).append(facts.host)
        best = {model: max(hosts, key=lambda name: rates[name]) for model, hosts in models.items()}
        return {host: best[model] for model, hosts in models.items() for host in hosts}

    def with_rates(self, report: BenchLines) -> CheckedHosts:
        """Add the hosts' rates, without threads: all hosts have the same work."""
        rates = self.rates(report).items()
        hosts = tuple(HostBench(host, "ok", torch=report.torch, fp32=rate) for host, rate in rates)
        return replace(self.cluster, measured=replace(self.cluster.measured, hosts=hosts))


def slow_parts(placement: Placed, report: BenchLines) -> tuple[SlowPart, ...]:
    """Return the slow parts, links first: they slow down every size, hosts only the computing."""
    checks = [check for name, check in known_checks().items() if name in _USED]
    findings = run_checks(checks, placement.with_rates(report))
    reasons = [(f.host, reason_of(f)) for f in findings if f.id in OF_HOST]
    reasons += _one_thread_hosts(placement, report)
    slugs: dict[str, set[str]] = {host: set() for host in placement.ranks}
    for host, reason in reasons:
        slugs.setdefault(host, set()).add(reason.slug)
    rates = placement.rates(report)
    peers = placement.fastest_alike(rates)
    lacks = {host: slugs[host] - slugs[best] for host, best in peers.items()}
    hosts = [f for f in findings if f.id == _SLOW_HOST]
    slow = {f.host for f in hosts}
    hosts += (f for f in _explained_slow_hosts(rates, peers, lacks) if f.host not in slow)
    parts = [
        _slow_part(
            f, (r for host, r in reasons if host == f.host and r.slug in lacks.get(host, ()))
        )
        for f in hosts
    ]
    slow = {f.host for f in hosts}
    parts += (
        SlowPart("host", r.slug, host, r.check, r.title, r.evidence, r.fix)
        for host, r in reasons
        if r.slug == _ONE_THREAD and host not in slow
    )
    return (*_slow_links(findings, len(placement.cluster.measured.links)), *parts)


def _slow_part(f: Finding, reasons: Iterable[Reason]) -> SlowPart:
    kind = "host" if f.id == _SLOW_HOST else "link"
    slug = {**_SLOW, **_OF_LINK}[f.id]
    first: dict[str, Reason] = {}
    for reason in reasons:
        first.setdefault(reason.slug, reason)
    causes = tuple(first.values())
    # the check's own fix only says to look for a reason
    fix = "" if any(reason.fix for reason in causes) else str(f.fix)
    return SlowPart(kind, slug, f.host, f.id, f.title, f.evidence, fix, causes)


def _slow_links(findings: Sequence[Finding], links: int) -> Iterator[SlowPart]:
    """Explain slow links by what the kernel reports of links. If none is slow, an MTU that does not
    fit counts as slow, and so do different speeds if too few links were measured to compare."""
    facts = [f for f in findings if f.id in _OF_LINK]
    slow = [f for f in findings if f.id in _SLOW and f.id != _SLOW_HOST]
    for f in slow:
        yield _slow_part(f, (reason_of(g, _OF_LINK) for g in facts if g.host in (f.host, "")))
    for f in facts if not slow else ():
        compared = _OF_LINK[f.id] == "link-speed" and links >= EQUALS
        if f.severity is not Severity.NOTE and not compared:
            yield _slow_part(f, ())


def _one_thread_hosts(placement: Placed, report: BenchLines) -> Iterator[tuple[str, Reason]]:
    """Yield hosts with cores for more threads than their ranks use."""
    title = "each rank computes on only one thread"
    for host, ranks in placement.ranks.items():
        rates = [report.rates[rank] for rank in ranks if rank in report.rates]
        facts = placement.cluster.facts_of(host)
        cores = host_facts.count_usable_cores(facts) if facts else None
        threads = max((rate.threads or 0 for rate in rates), default=0)
        if threads == 1 and cores and cores >= 2 * len(rates):
            yield host, Reason(_ONE_THREAD, _ONE_THREAD, title, f"{cores} cores", _THREADS)


def _explained_slow_hosts(
    rates: Mapping[str, float], fastest: Mapping[str, str], own_slugs: Mapping[str, set[str]]
) -> Iterator[Finding]:
    """Yield slow hosts, among too few equal ones to compare, with a reason the fastest lacks."""
    check = known_checks()[_SLOW_HOST]
    for host, best in fastest.items():
        if rates[host] < SLOW * rates[best] and own_slugs[host]:
            text = f"fp32 {rates[host]:.0f} GFLOP/s, {rates[best]:.0f} on {best}"
            yield check.make_finding(Evidence(text, host=host))


# --- the outcome ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class HostRate:
    host: str
    ranks: int
    gflops: float | None
    threads: int | None


@dataclass(frozen=True)
class Benchmark:
    """`code`: the exit code of the run; 0 if all ranks succeeded."""

    run_id: str
    code: int
    backend: str
    torch: str
    ranks: int
    rows: tuple[AllreduceRow, ...]
    left: tuple[int, ...]
    left_why: str
    hosts: tuple[HostRate, ...]
    links: tuple[MeasuredLink, ...]
    slow: tuple[SlowPart, ...]
    seconds: float

    @property
    def exit_code(self) -> int:
        return self.code or int(bool(self.slow))


def host_rates(placement: Placed, report: BenchLines) -> tuple[HostRate, ...]:
    rates = placement.rates(report)
    return tuple(
        HostRate(host, len(ranks), rates.get(host), _least_threads(report, ranks))
        for host, ranks in placement.ranks.items()
    )


def _least_threads(report: BenchLines, ranks: Iterable[int]) -> int | None:
    counts = {report.rates[rank].threads for rank in ranks if rank in report.rates}
    return min((n for n in counts if n), default=None)


def read_size(text: str) -> int:
    """Parse 4, 64k, 16M or 1GiB. Raises InputError."""
    match = re.fullmatch(r"(\d{1,10})([kmg]?)(?:i?b)?", text.strip().lower(), re.ASCII)
    size = int(match[1]) * _UNITS[match[2]] if match else 0
    if not SIZES[0] <= size <= SIZES[-1]:
        raise InputError(
            f"--max-size {text}: not a size from 4 bytes to 1 GiB",
            hint="--max-size 16M",
            slug="size-invalid",
        )
    return size
