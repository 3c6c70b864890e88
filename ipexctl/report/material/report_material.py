"""All that is known of a run, for its report."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from ipexctl.base.secret_mask import SecretMask
from ipexctl.common.run_inputs import RunInputs
from ipexctl.quick_dataclass import dataclass
from ipexctl.report.comparison.run_difference import RunComparison
from ipexctl.report.material import curves
from ipexctl.report.material.host_record import HostRecord, Printed, group_by_rank, host_pace
from ipexctl.run.outcome.listed_checkpoints import ListedCheckpoint
from ipexctl.run.outcome.listed_runs import ListedRun
from ipexctl.run.output.loss_check import BadLoss, bad_loss
from ipexctl.run.pace import slow_steps
from ipexctl.run.pace.rank_pace import HostPace
from ipexctl.run.pace.run_speed import Speed
from ipexctl.run.pace.slow_steps import SlowSteps
from ipexctl.run.plan import shown_plan
from ipexctl.run.plan.launch import LaunchPlan


@dataclass(frozen=True)
class Attempt:
    """One start of a run; --restarts makes several. `result`: the content of its local folder.
    `speed`: None if the output does not say one."""

    run: ListedRun
    records: tuple[HostRecord, ...] = ()
    printed: tuple[Printed, ...] = ()
    result: Mapping[str, Any] | None = None
    speed: Speed | None = None

    @cached_property
    def plan(self) -> LaunchPlan | None:
        raw = (record.plan for record in self.records)
        return next((p for row in raw if (p := shown_plan.read_shown_plan(row, self.run.id))), None)

    @property
    def of_run(self) -> RunInputs | None:
        """What the first host recorded for all of the run, if that host can be reached."""
        return next((record.of_run for record in self.records if record.of_run), None)

    @property
    def command(self) -> str:
        """The complete script and arguments, from the plan."""
        return shlex.join(self.plan.argv) if self.plan else self.run.about.command

    @property
    def argv(self) -> list[str]:
        """The words of the command; none if it is long and the run never left the queue: it is cut
        then."""
        try:
            return shlex.split(self.command)
        except ValueError:
            return []

    @cached_property
    def steps(self) -> dict[int, list[curves.Point]]:
        """The (time, step) pairs of each rank."""
        by_rank = group_by_rank(
            (line.rank, (line.at, line.step))
            for line in self.printed
            if line.at is not None and line.step is not None
        )
        return {rank: curves.growing_points(points) for rank, points in by_rank.items()}

    @cached_property
    def bad_loss(self) -> BadLoss | None:
        """The loss of the first rank whose loss became and stayed nan or infinite."""
        rows = group_by_rank((line.rank, line) for line in self.printed).values()
        return next((loss for row in rows if (loss := bad_loss(row))), None)

    @cached_property
    def training(self) -> tuple[float, float] | None:
        """The times of the first and the last printed step."""
        times = [time for points in self.steps.values() for time, _ in points]
        return (min(times), max(times)) if times and max(times) > min(times) else None

    @cached_property
    def paces(self) -> list[HostPace]:
        since, until = self.training or (0.0, self.run.seconds)
        return [host_pace(record, since, until) for record in self.records]

    @property
    def cpu_seconds(self) -> float:
        """The CPU time of the ranks: what each had used at its end; before, by samples."""
        ended = {rank: cpu for record in self.records for rank, cpu in record.used}
        sampled = 0.0
        for record in self.records:
            before = 0.0
            for sample in record.samples:
                cpus = sum(rank.cpus for rank in sample.ranks if rank.rank not in ended)
                sampled += (sample.at - before) * cpus
                before = sample.at
        return sum(ended.values()) + sampled

    @property
    def hosts_without_cpu_time(self) -> set[str]:
        """Hosts that were not reached, whose ranks had not ended by the records of the others."""
        ended = {rank for record in self.records for rank, _ in record.used}
        planned = self.plan.hosts if self.plan else ()
        known = {host.host for host in planned if {p.rank for p in host.ranks} <= ended}
        return {*self.run.about.hosts} - known - {record.host for record in self.records}

    @cached_property
    def slow(self) -> SlowSteps | None:
        if self.plan is None or not any(pace.ranks for pace in self.paces):
            return None
        return slow_steps.judge_slow_steps(
            self.plan, self.paces, self.speed, self.run.about.command
        )

    @cached_property
    def time_shares(self) -> dict[str, float] | None:
        """The shares of the ranks' time between the first and the last step. What is left of it, of
        the longest known wait first, is "rest"."""
        plan, paces = self.plan, {pace.host: pace for pace in self.paces}
        shares = list[tuple[float, float]]()  # computing, sending
        hosts = list[float]()
        for host in plan.hosts if plan else ():
            ranks = paces[host.host].ranks if host.host in paces else ()
            if not ranks or not host.threads:
                return None
            each = min(host.threads, host.quota / len(host.ranks)) if host.quota else host.threads
            busy = [min(1.0, rank.cpus / each) for rank in ranks]
            shares += zip(busy, (rank.sending or 0.0 for rank in ranks), strict=True)
            hosts.append(sum(busy) / len(busy))
        if not shares:
            return None
        computing = sum(cpus for cpus, _ in shares) / len(shares)
        sending = min(sum(sent for _, sent in shares) / len(shares), 1 - computing)
        waiting = min(max(hosts) - computing, 1 - computing - sending)
        rest = 1 - computing - sending - waiting
        parts = {"computing": computing, "sending": sending, "slow": waiting}
        for kind, share in self._idle_shares().items():
            parts[kind] = min(share, rest)
            rest -= parts[kind]
        return {**parts, "rest": rest}

    def _idle_shares(self) -> dict[str, float]:
        """Return what else the ranks waited for, the mean of those of which it is known: a CPU,
        sleep, a disk, another process."""
        threads = {host.host: host.threads or 1 for host in self.plan.hosts} if self.plan else {}
        ranks = [(rank, threads.get(pace.host, 1)) for pace in self.paces for rank in pace.ranks]
        waits = {
            "cpu": [rank.waited / each for rank, each in ranks if rank.waited is not None],
            "asleep": [rank.asleep for rank, _ in ranks if rank.asleep is not None],
            "disk": [rank.disk for rank, _ in ranks if rank.disk is not None],
            "process": [rank.process for rank, _ in ranks if rank.process is not None],
        }
        return {kind: sum(shares) / len(shares) for kind, shares in waits.items() if shares}


def measure_seconds(first: ListedRun, last: ListedRun) -> float:
    """Return the seconds from the start of the first attempt to the end of the last one, without
    the time in the queue."""
    before = last.began - first.began if first.began and last.began else 0.0
    return max(0.0, before) + last.seconds


@dataclass(frozen=True)
class Material:
    attempts: tuple[Attempt, ...]  # the oldest first
    made: str  # time of the report
    began: str = ""  # time of the run
    notes: tuple[str, ...] = ()
    checkpoints: tuple[ListedCheckpoint, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    other: Attempt | None = None  # --compare
    comparison: RunComparison | None = None  # with the other run
    mask: SecretMask = SecretMask()
    queued: float = 0.0  # seconds from the start of the command to its first connection
    # the checkpoint of each attempt, and why there was none
    began_from: tuple[tuple[int, str, str], ...] = ()

    @property
    def last(self) -> Attempt:
        return self.attempts[-1]

    @property
    def other_name(self) -> str:
        name = self.other.run.about.name if self.other else ""
        return name if name and name != self.last.run.about.name else "the other run"

    @cached_property
    def offsets(self) -> list[float]:
        """The start of each attempt in seconds since the run began, by the clocks of its hosts."""
        first = self.attempts[0]
        zero = {record.host: record.began for record in first.records}
        offsets = [0.0]
        for attempt in self.attempts[1:]:
            since = [r.began - zero[r.host] for r in attempt.records if r.host in zero]
            offset = min(since, default=attempt.run.began - first.run.began)
            offsets.append(max(offsets[-1], offset))
        return offsets

    @property
    def seconds(self) -> float:
        return measure_seconds(self.attempts[0].run, self.last.run)

    @property
    def seconds_between(self) -> float:
        """The time between attempts, in which no rank ran."""
        return max(0.0, self.seconds - sum(attempt.run.seconds for attempt in self.attempts))
