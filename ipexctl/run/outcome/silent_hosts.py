"""Decide when to report silent hosts and stopped ranks. No clock here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import field

from ipexctl.common.run_events import HostLoad, Sample
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.output.slow_rank import RankLoads, Slow
from ipexctl.run.plan.launch import LaunchPlan

SHOWN_AFTER = 10.0
SILENT = "printed nothing so far"


@dataclass
class Health:
    """Fed with samples and with the time of every sign of life; queried now and then."""

    plan: LaunchPlan
    host_timeout: float
    loads: dict[str, HostLoad] = field(default_factory=dict)  # the last report of each host
    rank_loads: RankLoads = field(default_factory=RankLoads)
    _cpu: dict[str, tuple[float, int]] = field(default_factory=dict)  # sum and number of samples
    _peak: dict[str, int] = field(default_factory=dict)
    _stopped: dict[int, float] = field(default_factory=dict)
    _told: set[str | int] = field(default_factory=set)  # silent hosts, stopped ranks
    _ended: set[int] = field(default_factory=set)  # later reports about them are outdated
    _doing: dict[int, str] | None = field(default_factory=dict)  # None: a rank has printed a line
    _stage: tuple[str, float] = ("", 0.0)  # what most ranks do, and since when
    _stage_noted: bool = False

    def sample(self, host: str, sample: Sample) -> None:
        self.loads[host] = sample
        if self._doing is not None:
            self._doing.update(sample.doing)
        self.rank_loads.add((r, cpus) for r, cpus in sample.ranks.items() if r not in self._ended)
        if sample.cpu is not None:
            total, count = self._cpu.get(host, (0.0, 0))
            self._cpu[host] = total + sample.cpu, count + 1
        if sample.used is not None:
            self._peak[host] = max(self._peak.get(host, 0), sample.used)
        own_ranks = {p.rank for h in self.plan.hosts if h.host == host for p in h.ranks}
        self._stopped = {r: s for r, s in self._stopped.items() if r not in own_ranks}
        self._stopped.update((r, s) for r, s in sample.stopped.items() if r not in self._ended)

    def ended(self, rank: int) -> None:
        self._ended.add(rank)
        self.rank_loads.ended(rank)
        self._stopped.pop(rank, None)

    def printed(self) -> None:
        """Note that a rank has printed something: from now on its lines say what it does."""
        self._doing = None

    def describe_start(self, now: float) -> str:
        """Return what the ranks do until the first line: `ranks are importing torch (12 s)`."""
        stages = Counter(stage for r, stage in (self._doing or {}).items() if r not in self._ended)
        if not stages:
            return ""
        (stage, most), total = stages.most_common(1)[0], stages.total()
        if stage != self._stage[0] or not self._stage[1]:
            self._stage = stage, now
        who = "ranks" if most == total > 1 else f"{most} of {self.plan.world_size} ranks"
        verbs = ("is", "has") if most == 1 else ("are", "have")
        verb = f"{verbs[0]} {stage}" if stage else f"{verbs[1]} {SILENT}"
        return f"{who} {verb} ({now - self._stage[1]:.0f} s)"

    def start_note(self, now: float, began: float) -> str:
        """Return the same once, some time after the run began; else ""."""
        if self._stage_noted or now - began < SHOWN_AFTER:
            return ""
        text = self.describe_start(now)
        self._stage_noted = bool(text)
        return text

    def summarize_load(self, host: str) -> HostLoad:
        """Return the mean CPU use and the peak memory of a host."""
        last, (total, count) = self.loads.get(host, HostLoad()), self._cpu.get(host, (0.0, 0))
        return HostLoad(total / count if count else None, self._peak.get(host), last.total)

    def known_loads(self) -> tuple[tuple[str, HostLoad], ...]:
        hosts = (host.host for host in self.plan.hosts)
        return tuple((host, self.loads[host]) for host in hosts if host in self.loads)

    def judged(self) -> tuple[Slow | None, tuple[float, ...]]:
        """Return ranks that the others wait for, and how much of their CPUs the ranks use."""
        return self.rank_loads.slow(), self.busy()

    def busy(self) -> tuple[float, ...]:
        """Return for each host with known CPUs the share of them that its ranks use."""
        shares = []
        for host in self.plan.hosts:
            cpus = self.rank_loads.busy(place.rank for place in host.ranks)
            if cpus is not None and host.threads:
                shares.append(cpus / (host.threads * len(host.ranks)))
        return tuple(shares)

    def news(self, now: float, heard: Mapping[str, float]) -> list[str]:
        """Return the notes to show now. `heard`: time of each host's last message."""
        quiet = {host: now - when for host, when in heard.items() if now - when >= SHOWN_AFTER}
        notes = [
            f"{host} has not responded for {seconds:.0f} s; after {self.host_timeout:g} s it is "
            "considered lost (--host-timeout)"
            for host, seconds in quiet.items()
            if host not in self._told
        ]
        stopped = {r: s for r, s in self._stopped.items() if s >= SHOWN_AFTER}
        notes += [
            f"{self._rank_text(rank)} has been stopped for {seconds:.0f} s (all its threads are in "
            f"state T); after {self.host_timeout:g} s the run ends (--host-timeout)"
            for rank, seconds in stopped.items()
            if rank not in self._told
        ]
        notes += [
            f"{host} responds again" for host in heard if host in self._told and host not in quiet
        ]
        self._told = {*quiet, *stopped}
        return notes

    def _rank_text(self, rank: int) -> str:
        return f"rank {rank} on {self.plan.host_of(rank)}"
