"""The record of a run: what its voters agreed on, line by line. Pure.

{leads, term}                     that host leads now, and its term fences those before
{attempt, hosts, checkpoint, ...} an attempt is to begin
{running}                         all its hosts were ready
{ended, ran, why, again, ...}     it has ended, with a rank or before one ran
{stop}                            by a user: there is to be no further attempt
{end, well}                       the run is over, and why
"""

import itertools


class Record:
    def __init__(self, hosts):
        """`hosts`: of the first attempt, which is running already."""
        self.lines = []  # type: list[dict]
        self.term, self.leader = 0, ""
        self.attempts = []  # type: list[dict]
        self.endings = []  # type: list[dict]  # one for each attempt that has ended
        self.running = 1
        self.stopped = ""
        self.end = None  # type: dict | None
        self.complete = ""  # the last checkpoint that is known to be complete
        self.fold({"attempt": 1, "hosts": list(hosts)})

    def add(self, line):
        """One of a leader before this one is not part of it, and nothing is behind the end."""
        if "leads" in line:
            if line["term"] > self.term:
                self.term, self.leader = line["term"], line["leads"]
        elif line["term"] == self.term and self.end is None and self.fits(line):
            self.fold({key: value for key, value in line.items() if key != "term"})

    def fits(self, line):
        if "attempt" in line:
            return self.phase() == "clear" and line["attempt"] == self.number + 1
        if "running" in line:
            return self.phase() == "begin" and line["running"] == self.number
        if "ended" in line:
            return self.phase() != "clear" and line["ended"] == self.number
        return not ("stop" in line and self.stopped)

    def fold(self, line):
        self.lines.append(line)
        self.complete = line.get("complete") or line.get("checkpoint") or self.complete
        if "attempt" in line:
            self.attempts.append(line)
        elif "running" in line:
            self.running = line["running"]
        elif "ended" in line:
            self.endings.append(line)
        elif "stop" in line:
            self.stopped = line["stop"]
        elif "end" in line:
            self.end = line

    @property
    def number(self):
        """The last attempt has this number."""
        return self.attempts[-1]["attempt"]

    @property
    def hosts(self):
        return self.attempts[-1]["hosts"]

    def phase(self):
        if len(self.endings) == len(self.attempts):
            return "clear"
        return "watch" if self.running == self.number else "begin"

    def cleared(self):
        """The last attempt that has ended: no rank of it may be left."""
        return self.endings[-1]["ended"] if self.endings else 0

    def used(self):
        """Restarts that became an attempt with ranks."""
        return sum(one["ran"] for one in self.endings[1:])

    def in_vain(self):
        """The last attempts in a row that did not begin."""
        return list(itertools.takewhile(lambda one: not one["ran"], reversed(self.endings)))

    def weak(self):
        """Hosts that could not begin one of them."""
        return {host for one in self.in_vain() for host in one["lost"]}
