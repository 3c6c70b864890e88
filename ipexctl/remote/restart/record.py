"""The record of a run: what its voters agreed on, line by line (common/attempt_record.py). Pure."""

import itertools

from ipexctl.common.attempt_record import (
    AttemptBegins,
    AttemptEnded,
    AttemptRuns,
    Leads,
    RecordLine,
    RunEnded,
    StopNoted,
)


class RestartRecord:
    def __init__(self, hosts):
        """`hosts`: of the first attempt, which is running already."""
        self.lines = []  # type: list[RecordLine]
        self.term, self.leader = 0, ""
        self.attempts = []  # type: list[AttemptBegins]
        self.endings = []  # type: list[AttemptEnded]  # one for each attempt that has ended
        self.running = 1
        self.stopped = ""
        self.end = None  # type: RunEnded | None
        self.complete = ""  # the last checkpoint that is known to be complete
        self.fold(AttemptBegins(1, list(hosts)))

    def add(self, line: RecordLine, term):
        """One of a leader before this one is not part of it, and nothing is behind the end."""
        if isinstance(line, Leads):
            if term > self.term:
                self.term, self.leader = term, line.leads
        elif term == self.term and self.end is None and self.fits(line):
            self.fold(line)

    def fits(self, line: RecordLine):
        if isinstance(line, AttemptBegins):
            return self.phase() == "clear" and line.attempt == self.number + 1
        if isinstance(line, AttemptRuns):
            return self.phase() == "begin" and line.running == self.number
        if isinstance(line, AttemptEnded):
            return self.phase() != "clear" and line.ended == self.number
        return not (isinstance(line, StopNoted) and self.stopped)

    def fold(self, line: RecordLine):
        self.lines.append(line)
        if isinstance(line, AttemptBegins):
            self.attempts.append(line)
            self.complete = line.checkpoint or self.complete
        elif isinstance(line, AttemptRuns):
            self.running = line.running
        elif isinstance(line, AttemptEnded):
            self.endings.append(line)
            self.complete = line.complete or self.complete
        elif isinstance(line, StopNoted):
            self.stopped = line.stop
        elif isinstance(line, RunEnded):
            self.end = line

    @property
    def number(self):
        """The last attempt has this number."""
        return self.attempts[-1].attempt

    @property
    def hosts(self):
        return self.attempts[-1].hosts

    def phase(self):
        if len(self.endings) == len(self.attempts):
            return "clear"
        return "watch" if self.running == self.number else "begin"

    def cleared(self):
        """The last attempt that has ended: no rank of it may be left."""
        return self.endings[-1].ended if self.endings else 0

    def used(self):
        """Restarts that became an attempt with ranks."""
        return sum(one.ran for one in self.endings[1:])

    def in_vain(self):
        """The last attempts in a row that did not begin."""
        return list(itertools.takewhile(lambda one: not one.ran, reversed(self.endings)))

    def weak(self):
        """Hosts that could not begin one of them."""
        return {host for one in self.in_vain() for host in one.lost}
