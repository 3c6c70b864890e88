"""The record of a run with --restarts, line by line: its voters agree on them, and each host writes
them to RUN/attempts, which commands read. And what commands ask its keepers.
"""

from ipexctl.common.message import MYPY, Line, Marked, Message

if MYPY:
    from typing import Any


class RecordLine(Marked):
    """One of those below."""


class Leads(RecordLine):
    """That host leads now; its term fences those before. It is not written to RUN/attempts."""

    leads: str


class AttemptBegins(RecordLine):
    """An attempt is to begin; of the one before, how it ended."""

    attempt: int
    hosts: "list[Line]"
    run_id: str = ""  # in RUN/attempts
    why: "Line" = ""
    error: "Line" = ""  # to compare with the next one
    lasted: float = 0.0
    checkpoint: "Line" = ""  # from which it begins
    kept: bool = False  # checkpoints are copied
    age: "float | None" = None  # of the checkpoint
    open: "list[Line]" = []  # checkpoints that were not complete
    away: "Line" = ""  # the last checkpoint, where no host in reach has it


class AttemptRuns(RecordLine):
    """All its hosts were ready."""

    running: int


class AttemptEnded(RecordLine):
    """It has ended, with a rank or before one ran."""

    ended: int
    ran: bool
    again: bool  # it may be repeated
    why: "Line"
    error: "Line"
    lost: "list[Line]"  # hosts whose loss ended it, or that could not begin
    lasted: float  # seconds
    complete: "Line"  # the last checkpoint that was complete
    away: "list[Line]" = []  # other hosts that were not reached then


class StopNoted(RecordLine):
    """A user has stopped the run: there is to be no further attempt."""

    stop: "Line"  # who


class RunEnded(RecordLine):
    """There is no further attempt."""

    end: "Line"  # why
    well: bool
    by_user: bool = False
    cut_off: bool = False  # on this host, which did not reach the others: it may go on there


# --- what commands ask a keeper ------------------------------------------------------------------


class KeeperQuestion(Message):
    stop: str = ""  # the user who stops the run
    returned: str = ""  # a host that was lost and is back


class KeeperAnswer(Message):
    """All is empty where there is no keeper."""

    leads: bool = False
    waits: "Line" = ""  # for what the run waits
    away: "list[Line]" = []  # hosts that are not connected to the one that leads
    orders: "dict[str, Any]" = {}  # for a new keeper of the host that has returned: a StartOrder
