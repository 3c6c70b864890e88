"""What the guardian and the supervisor of a run tell the agent or the keeper of their host."""

from ipexctl.common.exchange_report import ExchangeReport
from ipexctl.common.journal_records import JournalRecord
from ipexctl.common.message import Line, Message, Variant
from ipexctl.common.rank_paces import RankPaces
from ipexctl.common.run_events import Event


class PartReport(Message):
    """How the host's part of a run has ended."""

    survivors: "int | None"  # processes that could not be killed; None: not known
    logs: "Line"  # the folder
    found: "dict[Line, int]" = {}  # survivors by host, as reported to the hub
    traffic: ExchangeReport = ExchangeReport()  # what its ranks have exchanged
    killed: "Line" = ""  # how its supervisor ended, if it was killed
    pace: RankPaces = RankPaces()  # what its ranks did in the last minute


class SupervisorMessage(Variant):
    """One of the classes below."""


class EventSent(SupervisorMessage):
    """An event of the run."""

    event: Event


class JournalGrew(SupervisorMessage):
    """There is a new record in the host's journal, or one that could not be written there."""

    unwritten: "JournalRecord | None" = None


class SupervisorDone(SupervisorMessage):
    """The last message of a supervisor."""

    report: PartReport


class SupervisorKilled(SupervisorMessage):
    """The last message of a guardian, whose supervisor was killed."""

    killed: "Line"  # how
    survivors: int


class StartFailed(SupervisorMessage):
    """The host could not begin its part, or its supervisor has a bug."""

    failure: "dict[str, str]"  # fields of remote/failure.py


class KeeperStarted(SupervisorMessage):
    """A spare host has its keeper."""
