"""The record of a run: what its voters agreed on, line by line (common/attempt_record.py). Pure."""

import itertools

from ipexctl.common.attempt_record import (
    AttemptBegins,
    AttemptEnded,
    AttemptRuns,
    AttemptSucceeded,
    Leads,
    RecordLine,
    RunEnded,
    StopNoted,
)
from ipexctl.remote.checkpoints.checkpoint_rules import LAID_OUT
from ipexctl.remote.checkpoints.newest_checkpoint import SkippedCheckpoints
from ipexctl.remote.restart import restart_policy


class RestartRecord:
    def __init__(self, hosts: "list[str]") -> None:
        """Begin with the first attempt, which runs on these hosts already; [] if it is queued."""
        self.lines = []  # type: list[RecordLine]
        self.term, self.leader = 0, ""
        self.attempts = []  # type: list[AttemptBegins]
        self.endings = []  # type: list[AttemptEnded]  # one for each attempt that has ended
        self.running = 1 if hosts else 0
        self.succeeded = 0  # the attempt of which all ranks have ended with 0
        self.stopped = ""
        self.end = None  # type: RunEnded | None
        self.complete = ""  # the last checkpoint that is known to be complete
        self.version = ()  # type: tuple[int, ...]  # of that: attempt, and number in it
        if hosts:
            self.fold(AttemptBegins(1, list(hosts)))

    def add(self, line: RecordLine, term: int) -> None:
        """Add a line, unless it is from an earlier leader or the record has ended."""
        if isinstance(line, Leads):
            if term > self.term:
                self.term, self.leader = term, line.host
        elif term == self.term and self.end is None and self.is_next(line):
            self.fold(line)

    def is_next(self, line: RecordLine) -> bool:
        if isinstance(line, AttemptBegins):
            return self.phase() in ("queue", "clear") and line.attempt == self.number + 1
        if isinstance(line, AttemptRuns):
            return self.phase() == "begin" and line.attempt == self.number
        if isinstance(line, AttemptEnded):
            return self.phase() in ("begin", "watch") and line.attempt == self.number
        if isinstance(line, AttemptSucceeded):
            return self.phase() == "watch" and self.succeeded < line.attempt == self.number
        return not (isinstance(line, StopNoted) and self.stopped)

    def fold(self, line: RecordLine) -> None:
        """Append a line, and update the state that follows from the lines."""
        self.lines.append(line)
        if isinstance(line, AttemptBegins):
            self.attempts.append(line)
            self.complete = line.checkpoint or self.complete
            self.version = tuple(line.version) or self.version
        elif isinstance(line, AttemptRuns):
            self.running = line.attempt
        elif isinstance(line, AttemptSucceeded):
            self.succeeded = line.attempt
        elif isinstance(line, AttemptEnded):
            self.endings.append(line)
            if line.complete:
                self.complete, self.version = line.complete, (line.attempt, line.number)
        elif isinstance(line, StopNoted):
            self.stopped = line.by
        elif isinstance(line, RunEnded):
            self.end = line

    @property
    def number(self) -> int:
        """Return the number of the last attempt; 0 while the run is queued."""
        return self.attempts[-1].attempt if self.attempts else 0

    @property
    def hosts(self) -> "list[str]":
        return self.attempts[-1].hosts

    def phase(self) -> str:
        if not self.attempts:
            return "queue"
        if len(self.endings) == len(self.attempts):
            return "clear"
        return "watch" if self.running == self.number else "begin"

    def cleared(self) -> int:
        """Return the number of the last attempt that has ended: no host may have ranks of it."""
        return self.endings[-1].attempt if self.endings else 0

    def used(self) -> int:
        """Return the number of restarts whose ranks started: they count for --restarts."""
        return sum(ending.ran for ending in self.endings[1:])

    def in_vain(self) -> "list[AttemptEnded]":
        """Return the ends of the last attempts in a row whose ranks did not start."""
        return list(itertools.takewhile(lambda ending: not ending.ran, reversed(self.endings)))

    def skips(self) -> "SkippedCheckpoints":
        """Return the SkippedCheckpoints: those from which an attempt failed at once, unless the one
        before it failed with the same error after it had trained."""
        skips, failed_at_once = SkippedCheckpoints(), False
        for number, ending in enumerate(self.endings):
            begins = self.attempts[number]
            if not begins.version:
                failed_at_once = False
                continue
            skips.same[begins.attempt, LAID_OUT] = skips.origin(begins.version)
            is_repeated = number > 0 and self.endings[number - 1].error == ending.error
            before, failed_at_once = failed_at_once, restart_policy.failed_at_once(ending)
            if failed_at_once and (before or not is_repeated):
                skips.reasons[skips.origin(begins.version)] = "%s: %s" % (
                    begins.checkpoint,
                    ending.why,
                )
        return skips

    def weak(self) -> "set[str]":
        """Return the hosts that could not begin one of the attempts in `in_vain`, and those that
        lacked what the script needs."""
        lacking = {ending.lacking for ending in self.endings if ending.lacking}
        return lacking.union(host for ending in self.in_vain() for host in ending.lost)
