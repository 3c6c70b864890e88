"""The records of a run's journal on a host (remote/run_files/journal.py)."""

from ipexctl.common.exchange_report import ExchangeReport
from ipexctl.common.message import MYPY, Document, Line, Message, Variant
from ipexctl.common.rank_paces import RankPaces
from ipexctl.common.run_about import RunAbout
from ipexctl.common.run_events import Exit, Fact

if MYPY:
    from ipexctl.common.rank_looks import RankLook


RUN_FORMAT = 3  # of journals, and of what a supervisor is asked and says: another one is named


class JournalRecord(Variant):
    """A record: one of the classes below."""


class WrittenRecord(Message):
    """A record in the journal."""

    record: JournalRecord
    at: float = 0.0  # seconds since the run began on the host


class RunBegan(JournalRecord):
    """The first record."""

    version: int  # of the records, and of what a supervisor is asked
    about: RunAbout  # for those who list runs
    began: float  # by the host's clock


class InputsNoted(JournalRecord):
    """What the run was started with: messages of run_inputs.py."""

    host: "Document"  # HostInputs
    run: "Document" = {}  # RunInputs, on the first host


class LogBegan(JournalRecord):
    """The log of a rank or of a program begins."""

    key: "int | Line"
    file: "Line"


class LogEnded(JournalRecord):
    """Nothing more is written to this log."""

    key: "int | Line"


class OwnRankStarted(JournalRecord):
    """A rank has started here."""

    rank: int


class OwnRankEnded(JournalRecord):
    """A rank has ended here."""

    rank: int
    ended: Exit


class RanksSignalled(JournalRecord):
    """The ranks here were asked to end."""

    why: "Line"


class FactNoted(JournalRecord):
    """A fact of the run, which all hosts get."""

    fact: Fact


class LookNoted(JournalRecord):
    """What the ranks here did when the run made no progress."""

    number: int
    ranks: "list[RankLook]"
    time: float  # by the host's clock


class PaceNoted(JournalRecord):
    """What the ranks here did: in the last minute, and in all."""

    last_minute: RankPaces
    whole: RankPaces


class PartEnded(JournalRecord):
    """The host's part of the run is over."""

    why: "Line"
    survivors: int  # processes that could not be killed
    exchanged: "ExchangeReport | None" = None  # None: its supervisor was killed


class ResultNoted(JournalRecord):
    """The result, from a command that watched the run: parts of its Verdict."""

    result: "Document"
