"""Explain why the steps of a run take as long as they do, by what its hosts measure anyway.

A rank computes while it uses the CPUs that its plan gives it. It exchanges while the kernel has its
bytes on their way; time in which the other end had no room does not count, as that end is late.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import Enum

from ipexctl.base import quoting
from ipexctl.base.sizes import bit_rate, short_size
from ipexctl.common.rank_paces import RankPace
from ipexctl.inventory.nodeset import fold
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.output.slow_rank import find_slow_ranks
from ipexctl.run.pace.rank_pace import HostPace
from ipexctl.run.pace.run_speed import Speed
from ipexctl.run.plan.launch import HostPlan, LaunchPlan, asked_threads

MUCH = 0.25  # share of time from which an exchange is worth shortening
WAITS = 0.15  # share of time that all ranks wait; else computing hides the exchange
LEAST = 500e3  # bytes per second; many small messages are not shortened by halving them
COMPUTES = 0.8  # share of the CPUs that the plan gives to ranks
LATE = 0.7  # the same for a host that the others wait for, which exchanges, too
IDLE = 0.5
SLEEPS = 0.5  # CPUs of a rank, below which no number of threads makes it faster
CROWDED = 0.85  # share of a host's CPUs from which other programs may take those of its ranks
NO_CPU = 0.05  # share of the time that threads wait for a CPU, from which a rank is slowed
NAMED = 0.5  # share of the time that main threads wait for one thing, from which it is named
IDLE_WAITS = {
    "asleep": "sleep",
    "disk": "wait for disks",
    "process": "wait for other processes, as workers that load data",
}


class StepWait(str, Enum):
    EXCHANGE = "exchange"
    SLOW_HOST = "slow-host"
    IDLE = "idle"
    COMPUTING = "computing"
    MIXED = "mixed"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class PaceProposal:
    slug: str
    text: str
    command: str


@dataclass(frozen=True)
class SlowSteps:
    wait: StepWait
    headline: str
    proposals: tuple[PaceProposal, ...] = ()
    speed: Speed | None = None
    computing: float | None = None  # share of the time, of the host that computes most
    sending: float | None = None  # share of the time
    sent: float = 0.0  # bytes per second, of one rank

    def spelled(self, spell: Callable[[str], str]) -> SlowSteps:
        """Complete suggested commands. `spell`: adds the user's options to a command."""
        words = [proposal.command.split(" ", 2)[1:] for proposal in self.proposals]
        commands = (" ".join((spell(name), *rest)) for name, *rest in words)
        proposals = (replace(p, command=c) for p, c in zip(self.proposals, commands, strict=True))
        return replace(self, proposals=tuple(proposals))

    def document(self) -> dict[str, object]:
        return {
            "waits_for": self.wait.value,
            "headline": self.headline,
            "proposals": [vars(proposal) for proposal in self.proposals],
            "steps_per_second": self.speed.steps_per_second if self.speed else None,
            "computing": self.computing,
            "sending": self.sending,
            "sent_bytes_per_second": self.sent,
        }


def judge_slow_steps(
    plan: LaunchPlan, paces: Sequence[HostPace], speed: Speed | None = None, script: str = ""
) -> SlowSteps:
    """Judge the steps. `speed`: of the printed ones. `script`: with its arguments, as typed.
    `paces`: also those of hosts without ranks, such as the others of a run with --queue."""
    names = {host.host for host in plan.hosts}
    by_host = {pace.host: pace for pace in paces if pace.host in names}
    if missing := [h.host for h in plan.hosts if not _has_all_ranks(h, by_host.get(h.host))]:
        return SlowSteps(
            StepWait.UNKNOWN,
            f"too little is known of {fold(missing)} to say what a step waits for",
            speed=speed,
        )
    return _Judge(plan, by_host, speed, script or quoting.quote(plan.argv)).found()


def _has_all_ranks(host: HostPlan, pace: HostPace | None) -> bool:
    return pace is not None and {p.rank for p in host.ranks} <= {rank.rank for rank in pace.ranks}


@dataclass(frozen=True)
class _Judge:
    plan: LaunchPlan
    paces: Mapping[str, HostPace]
    speed: Speed | None
    script: str

    def found(self) -> SlowSteps:
        ranks = [rank for pace in self.paces.values() for rank in pace.ranks]
        computing = {host.host: self._computing_share(host) for host in self.plan.hosts}
        shares = {name: share for name, share in computing.items() if share is not None}
        largest = max(shares.values(), default=None)
        rates = [rank.sending for rank in ranks if rank.sending is not None]
        sending = max(rates) if len(rates) == len(ranks) > 1 else None
        sent = max(rank.sent for rank in ranks)
        wait, headline, proposals = self._find_wait(ranks, shares, sending)
        return SlowSteps(wait, headline, proposals, self.speed, largest, sending, sent)

    def _find_wait(
        self, ranks: Sequence[RankPace], computing: Mapping[str, float], sending: float | None
    ) -> tuple[StepWait, str, tuple[PaceProposal, ...]]:
        """Return what the steps wait for, a headline and proposals."""
        if len(computing) < len(self.plan.hosts):
            return StepWait.UNKNOWN, "the CPUs of some hosts are unknown", ()
        largest = max(computing.values())
        if sending is not None and sending >= MUCH and largest <= 1 - WAITS:
            return StepWait.EXCHANGE, self._exchange_text(ranks), self._propose_compression(ranks)
        if slow := find_slow_ranks(computing, LATE):
            return StepWait.SLOW_HOST, *self._explain_slow_host(*slow)
        if largest >= COMPUTES:
            text = f"the ranks compute {_percent_text(largest)} of the time"
            return StepWait.COMPUTING, self._with_step_time(text), ()
        crowded = [pace.host for pace in self.paces.values() if self._is_crowded(pace)]
        usage = f"the ranks use {_percent_text(largest)} of their CPUs"
        begun = self.speed is not None or any(rank.sent for rank in ranks)
        measured = sending is not None or len(self.plan.hosts) == 1
        if largest <= IDLE and begun and measured and not crowded:
            text = f"{usage}, and wait neither for the network nor for a slow host"
            named = _name_idle_wait(ranks)
            text += f": they {named}" if named else ", but for something else: input, disks, sleep"
            asleep = max(rank.cpus for rank in ranks) < SLEEPS
            proposals = () if asleep else self._propose_tune()
            return StepWait.IDLE, self._with_step_time(text), proposals
        if crowded:
            usage += f"; the CPUs of {fold(crowded)} are busy with other programs, too"
        return StepWait.MIXED, self._with_step_time(usage), ()

    def _is_crowded(self, pace: HostPace) -> bool:
        """Decide whether other programs may hold CPUs that the ranks want."""
        threads = self._threads_of(pace.host) or 1
        waits = [rank.waited / threads for rank in pace.ranks if rank.waited is not None]
        return (pace.cpu or 0.0) >= CROWDED and (not waits or max(waits) >= NO_CPU)

    def _threads_of(self, name: str) -> int | None:
        host = next(host for host in self.plan.hosts if host.host == name)
        return asked_threads(host.rank_env) or host.threads

    def _computing_share(self, host: HostPlan) -> float | None:
        """Return the mean over its ranks of the share of their CPUs that they use."""
        threads = self._threads_of(host.host)
        if threads is None:
            return None
        per_rank = min(threads, host.quota / len(host.ranks)) if host.quota else threads
        cpus = [rank.cpus for rank in self.paces[host.host].ranks]
        return min(1.0, sum(cpus) / len(cpus) / per_rank)

    def _with_step_time(self, finding: str) -> str:
        if self.speed is None:
            return finding
        article = "an" if self.speed.unit == "epoch" else "a"
        return f"{article} {self.speed.unit} takes {self.speed.unit_time}; {finding}"

    # --- the exchange -----------------------------------------------------------------------------

    def _exchange_text(self, ranks: Sequence[RankPace]) -> str:
        sender = max(ranks, key=lambda rank: rank.sending or 0.0)
        share = sender.sending or 1.0
        speed = bit_rate(sender.sent * 8 / share)
        if self.speed:
            spent, size = self.speed.time_of(share), short_size(sender.sent / self.speed.rate)
            return self._with_step_time(f"{spent} of it the ranks exchange {size} at {speed}")
        size = short_size(sender.sent)
        return f"{_percent_text(share)} of the time the ranks exchange {size} per second at {speed}"

    def _propose_compression(self, ranks: Sequence[RankPace]) -> tuple[PaceProposal, ...]:
        compressed = any("IPEXCTL_COMPRESS" in dict(host.rank_env) for host in self.plan.hosts)
        large = max(rank.sent for rank in ranks) >= LEAST
        if self.plan.ddp and large and not compressed:
            command = f"ipexctl run --compress bf16 {self.script}"
            return (PaceProposal("compress", "gradients as bf16 are half the bytes", command),)
        return self._propose_tune()

    def _propose_tune(self) -> tuple[PaceProposal, ...]:
        text = "trials of threads, buckets and connections"
        proposal = PaceProposal("tune", text, f"ipexctl tune {self.script}")
        return () if self.plan.tuned else (proposal,)

    # --- hosts ------------------------------------------------------------------------------------

    def _explain_slow_host(
        self, slow: Sequence[str], waits: float
    ) -> tuple[str, tuple[PaceProposal, ...]]:
        name = fold(slow)
        text = f"the other ranks wait {_percent_text(waits)} of the time for {name}"
        limits = {host.quota for host in self.plan.hosts if host.host in slow and host.quota}
        if limits:
            text += f", whose control group allows {min(limits):g} CPUs' worth of time"
        proposals = [PaceProposal("doctor", f"why {name} is slow", "ipexctl doctor --level std")]
        if not any("IPEXCTL_SHARE" in dict(host.rank_env) for host in self.plan.hosts):
            why = "a script that reads IPEXCTL_SHARE gives slow hosts smaller batches"
            proposals.append(PaceProposal("share", why, f"ipexctl run {self.script}"))
        return self._with_step_time(text), tuple(proposals)


def _name_idle_wait(ranks: Sequence[RankPace]) -> str:
    """Return what the ranks' main threads mostly do: `sleep 95 % of the time`, or ""."""
    shares = {
        words: sum(getattr(rank, kind) or 0.0 for rank in ranks) / len(ranks)
        for kind, words in IDLE_WAITS.items()
    }
    words, share = max(shares.items(), key=lambda item: item[1])
    return f"{words} {_percent_text(share)} of the time" if share >= NAMED else ""


def _percent_text(share: float) -> str:
    return f"{share * 100:.0f} %"
