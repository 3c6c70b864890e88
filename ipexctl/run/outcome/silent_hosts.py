"""Decide when to report silent hosts and stopped ranks. No clock here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from ipexctl.common.run_events import HostLoad, Sample
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.output.slow_rank import RankLoads, Slow
from ipexctl.run.plan.launch import LaunchPlan

SHOWN_AFTER = 10.0


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

    def sample(self, host: str, sample: Sample) -> None:
        self.loads[host] = sample
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
