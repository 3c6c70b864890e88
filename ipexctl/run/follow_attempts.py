"""The further attempts of a run with --restarts: its hosts start them, this shows them."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import field, replace
from itertools import pairwise
from typing import Any

from ipexctl.base.host_answer import Answer
from ipexctl.base.host_outcome import HostDown
from ipexctl.base.sizes import duration
from ipexctl.errors import EXIT_INTERRUPTED, IpexctlError, Unreachable
from ipexctl.facts.reader import rows
from ipexctl.inventory.hostfile_text import fold
from ipexctl.inventory.inventory import Host
from ipexctl.machines.fleet import Fleet, fan_out
from ipexctl.machines.target import ROOT, Target
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.attach import attach, attached
from ipexctl.run.jobs.ps import NEWEST, find
from ipexctl.run.outcome import verdict
from ipexctl.run.outcome.listed_runs import SECONDS
from ipexctl.run.outcome.run_result import Left, RunResult
from ipexctl.run.output.metric_lines import LineReader
from ipexctl.run.returned_hosts import ReturnedHosts
from ipexctl.run.watch.run_folder import Records
from ipexctl.run.watch.run_watchers import Interrupts, Painter, View
from ipexctl.shipped_tables import metric_formats

LOOK = 1.0  # seconds between two questions
ANSWER = 5.0  # seconds for a host to answer
SHOWS = 60.0  # for an attempt that was announced to be seen
SILENT = 120.0  # without an answer of any host
REACH = 30.0  # without a decision, until hosts that did not answer are tried again


@dataclass(frozen=True)
class Line:
    """Of RUN/attempts. `why`, `lasted`: how the attempt before ended, after how many seconds.
    `age`: of the checkpoint then. `open`: those that were not complete. `kept`: they are copied.
    `away`: the last one, if it is only on hosts that are not reached.
    `end`: why there is no further attempt; `by_user`: one stopped the run; `cut_off`: so says a
    host that did not reach the others, where it may go on."""

    attempt: int = 0
    run_id: str = ""
    hosts: tuple[str, ...] = ()
    why: str = ""
    checkpoint: str = ""
    end: str = ""
    lasted: float = field(default=0.0, metadata=SECONDS)
    age: float = field(default=0.0, metadata=SECONDS)
    open: tuple[str, ...] = ()
    kept: bool = False
    away: str = ""
    by_user: bool = False
    cut_off: bool = False

    @property
    def told(self) -> str:
        on = f"attempt {self.attempt} on {fold(self.hosts)}"
        left = f"; not complete: {', '.join(self.open[:4])}" if self.open else ""
        if self.checkpoint:
            return f"{on} from {self.checkpoint}, {duration(self.age)} old{left}"
        if self.away:
            return f"{on} from the beginning: no host that is reached has {self.away}{left}"
        return on + (f" from the beginning: no checkpoint is complete{left}" if self.kept else "")


def read_story(raw: Any) -> tuple[Line, ...]:
    """Odd values become empty ones."""
    return rows(Line, raw)


def summary(story: Mapping[int, Line]) -> list[str]:
    """A line for each attempt but the last, whose result follows."""
    lines = [story[attempt] for attempt in sorted(story)]
    return [
        f"attempt {line.attempt} on {fold(line.hosts)}: {duration(after.lasted)}, {after.why}"
        for line, after in pairwise(lines)
    ]


def last_step(tails: Iterable[Sequence[str]]) -> int | None:
    """Of all ranks, by their last lines."""
    found = []
    for tail in tails:
        reader = LineReader(metric_formats())
        found += [p.step for text in tail if (p := reader.point(text)) and p.step is not None]
    return max(found, default=None)


def attach_and_follow(
    target: Target, text: str, view: View, interrupts: Interrupts, root: str = ROOT
) -> RunResult | Left:
    """attach, also to the further attempts."""
    with Fleet(target, root) as fleet:
        run = find(fleet, text, newest=NEWEST)
        painter = Painter(view, target.note)
        try:
            if run.kept or run.attempt > 1:
                away = set(fleet.downs)
                attempts = Attempts(fleet, run.first_id, painter, interrupts, silent=away)
                with attempts.hosts_taken_back():
                    result = attempts.from_attempt(run.attempt)
            else:
                result = attached(fleet, run, painter, interrupts, Records())
            if isinstance(result, RunResult):
                painter.result(result)
            return result
        finally:
            painter.close()


def _stopped(result: RunResult, line: Line | None) -> RunResult:
    """Between two attempts, by Ctrl-C."""
    cause = line.end if line else ""
    return replace(result, exit_code=EXIT_INTERRUPTED, ended_by=verdict.INTERRUPTED, cause=cause)


@dataclass
class Attempts:
    fleet: Fleet
    run_id: str
    painter: Painter
    interrupts: Interrupts
    busy: Collection[str] = ()  # the hosts of the attempt that is shown
    records: Records = field(default_factory=Records)
    silent: set[Host] = field(default_factory=set)  # those that did not answer
    story: dict[int, Line] = field(default_factory=dict)  # number -> what is known of it

    def hosts_taken_back(self) -> AbstractContextManager[None]:
        """Meanwhile, hosts that were lost and are back become spares."""
        target, root = self.fleet.target, self.fleet.root
        hosts = ReturnedHosts(target, root, self.run_id, lambda: self.busy, self._back)
        return hosts.taken_back()

    def from_attempt(self, number: int) -> RunResult | Left:
        """The result of the last attempt. Raises Unreachable."""
        lines = [line for one in self._asked("story") for line in read_story(one["story"])]
        line = next((one for one in lines if one.attempt == number and one.run_id), None)
        if line and number > 1:
            self.painter.note(f"{line.why}; {line.told}")
        result = self._shown(line) if line else None
        if result is None:
            raise Unreachable(
                f"the hosts of {self.run_id} cannot be reached from here", slug="hub-unreachable"
            )
        return self.followed(result, number)

    def followed(self, result: RunResult | Left, seen: int = 1) -> RunResult | Left:
        """The result of the last attempt; `result`: of the one before."""
        while isinstance(result, RunResult):
            pressed = self.interrupts.count
            line = self._waited_for(seen, ended_well=result.exit_code == 0)
            if self.interrupts.detach:
                return Left(self.run_id)
            if line is None or line.end:
                for text in summary(self.story):
                    self.painter.note(text)
                if line and result.exit_code:
                    self.painter.note(f"no further attempt: {line.end}")
                back = [host for host in self.silent if result.reachable(host.name)]
                fan_out(back, self._reach)
                by_user = self.interrupts.count > pressed or (line and line.by_user)
                return _stopped(result, line) if by_user else result
            at = last_step(result.tails)
            then = "" if at is None else f"; the ranks were at step {at:,}"
            self.painter.note(f"{line.why}; {line.told}{then}")
            kept = self.records.of(result.run_id).kept()
            self.records.ended(replace(result, kept=kept))
            seen = line.attempt
            result = self._shown(line) or result
        return result

    def _waited_for(self, seen: int, *, ended_well: bool) -> Line | None:
        """The next attempt, or the end. Ctrl-C stops the run for good, as during an attempt."""
        pressed, self.interrupts.armed, self.busy = self.interrupts.count, True, ()
        try:
            return self._next(seen, pressed, noted=ended_well)
        finally:
            self.interrupts.armed = False

    def _next(self, seen: int, pressed: int, *, noted: bool) -> Line | None:
        """None: no host knows of a next attempt or an end, or the user leaves."""
        heard = tried = time.monotonic()
        end: Line | None = None
        while time.monotonic() - heard < SILENT and not self.interrupts.detach:
            if self.interrupts.count > pressed:
                pressed = self.interrupts.count
                self._asked("ask", ask={"stop": self.interrupts.last})
            told = self._asked("story")
            stories = [read_story(one["story"]) for one in told]
            lines = [line for story in stories for line in story]
            self.story |= {line.attempt: line for line in lines if line.attempt}
            furthest = sorted(filter(None, stories), key=lambda s: -max(one.attempt for one in s))
            later = [line for line in lines if line.attempt > seen]
            if later:
                return min(later, key=lambda line: line.attempt)
            alive = any(one["alive"] is True for one in told)
            ended = [story[-1] for story in furthest if story[-1].end]
            if known := [line for line in ended if not line.cut_off]:
                return known[0]
            if ended and not alive:  # these hosts were cut off, and the rest goes on
                self._reach_again(first=end is None)
                end = ended[0]
            elif time.monotonic() - tried > REACH:  # these may be cut off
                fan_out(list(self.silent), self._reach)
                tried = time.monotonic()
            if alive and not noted:
                self.painter.note("no rank runs now: the hosts decide how the run goes on")
            if alive:
                noted, heard = True, time.monotonic()
            time.sleep(LOOK)
        return end

    def _asked(self, what: str, **more: object) -> list[Answer]:
        """Of the hosts that answer; those that do not are not asked again: each would take long."""

        def one(host: Host) -> Answer:
            asked = {"root": self.fleet.root_of(host), "journal": host.name, "run_id": self.run_id}
            agent = self.fleet.agents[host]
            return agent.call(f"restart.attempts.{what}", asked | more, timeout=ANSWER).done

        found = fan_out([host for host in self.fleet.agents if host not in self.silent], one)
        self.silent |= {host for host, said in found.items() if isinstance(said, HostDown)}
        return [said for said in found.values() if not isinstance(said, HostDown)]

    def _shown(self, line: Line) -> RunResult | Left | None:
        """None: none of its hosts has shown it in time. Lost ones are not asked."""
        target, root = replace(self.fleet.target, limit=line.hosts, exclude=()), self.fleet.root
        until, self.busy = time.monotonic() + SHOWS, line.hosts
        while time.monotonic() < until:
            with suppress(IpexctlError):  # its journals are not there yet
                return attach(
                    target, line.run_id, self.painter, self.interrupts, root, self.records
                )
            time.sleep(LOOK)
        return None

    def _back(self, name: str) -> None:
        self.painter.note(f"{name} is back: it stands by as a spare")
        self._reach(next(host for host in self.fleet.hosts.hosts if host.name == name))

    def _reach(self, host: Host) -> None:
        with suppress(IpexctlError):
            self.fleet.reconnect(host)
            self.silent.discard(host)

    def _reach_again(self, first: bool) -> None:
        fan_out(list(self.silent), self._reach)
        if first and self.silent:
            names = fold(sorted(host.name for host in self.silent))
            self.painter.note(
                f"{names}: not reached from here; the run may go on there (trying again)"
            )
