"""The lines of the record of a run with --restarts: its voters agree on each, all hosts write them
to RUN/attempts.HOST, and commands read them. Also the questions of commands to its keepers.
"""

from ipexctl.common.message import Document, Line, Message, Variant
from ipexctl.common.run_about import RunAbout


class RecordLine(Variant):
    """A line of the record: one of the classes below."""


class Leads(RecordLine):
    """A host leads now, and ends the terms before. This is not written to RUN/attempts."""

    host: "Line"


class RunQueued(RecordLine):
    """The run waits for CPUs until its first attempt begins. Only the file has this line."""

    since: float
    about: RunAbout


class AttemptBegins(RecordLine):
    """An attempt is to begin. `why`, `error` and `lasted` tell how the previous one ended."""

    attempt: int
    hosts: "list[Line]"
    run_id: "Line" = ""  # in RUN/attempts
    why: "Line" = ""
    error: "Line" = ""  # to compare with the next one
    lasted: float = 0.0
    checkpoint: "Line" = ""  # from which it begins
    kept: bool = False  # checkpoints are copied
    age: "float | None" = None  # of the checkpoint
    version: "list[int]" = []  # of that: the attempt that wrote it, and its number in that
    skipped: "list[Line]" = []  # newer ones, from which an attempt failed at once, and why
    open: "list[Line]" = []  # checkpoints that were not complete
    away: "Line" = ""  # the last checkpoint, if no host that is reached has it
    by: "Line" = ""  # the host that led


class AttemptRuns(RecordLine):
    """All hosts of the attempt were ready."""

    attempt: int


class AttemptSucceeded(RecordLine):
    """All ranks of the attempt have ended with 0: the run is done when its hosts are."""

    attempt: int


class AttemptEnded(RecordLine):
    """The attempt has ended, after its ranks ran or before."""

    attempt: int
    ran: bool
    again: bool  # it may be repeated
    why: "Line"
    error: "Line"
    lost: "list[Line]"  # hosts whose loss ended it, or that could not begin
    lasted: float  # seconds
    complete: "Line"  # the last checkpoint that was complete
    number: int = 0  # of that
    away: "list[Line]" = []  # other hosts that were not reached then
    lacking: "Line" = ""  # the host that alone lacked a module or a file, if a spare replaces it


class StopNoted(RecordLine):
    """A user has stopped the run: there is to be no further attempt."""

    by: "Line"


class RunEnded(RecordLine):
    """The run is over: no attempt follows."""

    why: "Line"
    well: bool
    by_user: bool = False
    cut_off: bool = False  # only on this host, which lost the others: there, the run may go on
    by: "Line" = ""  # the host that led


class KeeperNote(RecordLine):
    """A problem of this host's keeper. Only the file has this line."""

    text: "Line"


class WrittenLine(Message):
    """A line in RUN/attempts."""

    at: float  # seconds since the epoch
    line: RecordLine


class AttemptLines(Message):
    """The record of a run as a host has it."""

    alive: bool  # its keeper here
    lines: "list[RecordLine]"


class FurtherAttempt(Message):
    """What the record has of an attempt that followed another one: for `ps` and other commands."""

    attempt: int
    hosts: "list[Line]"
    ran: bool  # all of its hosts were ready
    why: "Line" = ""  # why it did not begin
    lost: "list[Line]" = []  # the hosts that could not begin it
    skipped: "list[Line]" = []  # checkpoints that it did not begin from, and why


# --- what commands ask a keeper ------------------------------------------------------------------


class KeeperQuestion(Message):
    stop: "Line" = ""  # the user who stops the run
    returned: "Line" = ""  # a host that was lost and is back


class QueuedRun(Message):
    """A run that waits for CPUs."""

    since: int  # its place: milliseconds since the epoch
    run: "Line"
    owner: "Line"


SHOWN = 3  # earlier runs that are named
# how the parts begin of what a run waits for that has its place in the queue on its hosts
PLACE_PARTS, USED = ("place ", "before it: "), "on its cores: "


def describe_place(before: "list[QueuedRun]") -> "list[str]":
    """Return the place of a run in the queue and the first of those before it, in parts of what it
    waits for."""
    rows = ["%s of %s" % (run.run, run.owner) for run in before]
    more = " and %d more" % (len(rows) - SHOWN) if len(rows) > SHOWN else ""
    place = "place %d in the queue" % (len(rows) + 1)
    return [place, "before it: %s" % ", ".join(rows[:SHOWN]) + more] if rows else [place]


class KeeperAnswer(Message):
    """A keeper's answer; all fields are empty if the host has no keeper."""

    leads: bool = False
    waits: "Line" = ""  # for what the run waits
    before: "list[QueuedRun]" = []  # runs that wait for its CPUs longer, in the order of the queue
    away: "list[Line]" = []  # hosts that are not connected to the leader
    orders: "Document" = {}  # StartOrder, for a new keeper of the host that has returned
    keepers: int = 0  # hosts that should have one
