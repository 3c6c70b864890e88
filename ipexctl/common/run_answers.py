"""What a host answers about the runs that it knows (remote/run/run_list.py)."""

from ipexctl.common.attempt_record import FurtherAttempt, KeeperAnswer
from ipexctl.common.journal_records import WrittenRecord
from ipexctl.common.message import MYPY, AnyText, Document, Line, Message, Variant
from ipexctl.common.rank_paces import HostSample, RankPaces
from ipexctl.common.run_about import RunAbout
from ipexctl.common.run_events import Fact

if MYPY:
    from ipexctl.common.rank_looks import RankLook


class JournalSummary(Message):
    """What a host's journal says of a run. Times are seconds since the run began there."""

    format: "int | None" = None  # of the journal; None: it has no first record
    about: RunAbout = RunAbout()  # what the command that started the run recorded
    began: float = 0.0  # by the host's clock
    seconds: float = 0.0  # until its last record
    started: int = 0  # ranks that started here
    ok: int = 0  # those of them that succeeded
    over: "Line | None" = None  # why its part ended; None: unknown
    result: "Document | None" = None  # Verdict, from the command that watched the run
    begun: bool = False  # all hosts were ready
    went: float = 0.0  # when the ranks were started, the same on all hosts
    decided: "float | None" = None  # when the first of the facts came
    facts: "list[Fact]" = []  # those that ended the run, in order
    own: "list[Fact]" = []  # the same from this host alone, used if no host has the hub's
    cut: "list[tuple[Line, float]]" = []  # which hosts do not reach each other, for how long
    stall: "float | None" = None  # seconds without progress, of a run that is stalled
    progressed: "float | None" = None  # of such a run: when its ranks last made progress
    look: "list[RankLook] | None" = None  # what its ranks here did then
    ends: "list[Fact]" = []  # of ranks until then; later ends follow from how the run was ended


class AttemptSummary(Message):
    """What the record of a run with --restarts says about an attempt."""

    lost: "list[Line]" = []  # hosts whose loss ended it, or that were away then
    why: "Line" = ""  # how it ended
    stopped: "Line" = ""  # why the run is over, if a user wanted that
    further: "list[FurtherAttempt]" = []  # the attempts after this one
    settled: bool = False  # the run is over
    end: "Line" = ""  # why it is over
    done: bool = False  # the run succeeded
    ran: bool = False  # ranks of any attempt have run
    cut_off: bool = False  # it may go on where this host could not reach


class RunRow(Message):
    """What a host knows of a run, or of one of its attempts."""

    run: str
    host: str  # its name in the run
    alive: bool  # the run's processes here
    journal: JournalSummary
    record: AttemptSummary
    keeper: KeeperAnswer  # of the run's keeper here (--restarts)
    kept: bool = False  # that is alive
    last: "tuple[int, Line] | None" = None  # the last line of the lowest rank that started here
    recent: "list[Line]" = []  # its last lines that have a number
    # the same of a lower rank on another host, from the journal: its log may be gone there
    told: "tuple[int, list[Line]] | None" = None
    bytes: "int | None" = None  # on the disk
    unreadable: bool = False  # no record of it could be read
    waited: bool = False  # it was queued (--queue)
    queued: bool = False  # its first attempt has not begun
    asleep: bool = False  # the same, and no keeper waits: the host was rebooted


class RunList(Message):
    """The runs of a host, the newest first."""

    runs: "list[RunRow]"


class PlanAnswer(Message):
    """The plan of a run that has begun."""

    plan: "Document | None"  # ShownPlan; None: it has not begun
    age: int  # seconds since it began


class WhyAnswer(Message):
    """What the ranks of a run do on a host."""

    alive: bool  # its supervisor answers
    quiet: float  # seconds without progress
    computes: bool  # a rank here uses its CPUs for more than waiting
    look: "list[RankLook] | None"  # None: there is no supervisor
    pace: "RankPaces | None"  # of the last minute, also of a run that has ended
    plan: "Document | None"  # as in PlanAnswer
    ends: "list[Fact]"  # of ranks of the run, without their output


class TailsAnswer(Message):
    """The ends of the output of ranks on some hosts, as far as another host has them."""

    tails: "list[tuple[Line, int, AnyText]]"  # host, rank and text


class RecordAnswer(Message):
    """What a host recorded of a run, for the report."""

    began: float  # by the host's clock
    records: "list[WrittenRecord]"
    samples: "list[HostSample]" = []


class ClaimAnswer(Message):
    """Whether the one who asked is to notify users of an event."""

    claimed: bool


class PageEvent(Variant):
    """What a host sends of each run for the page of all runs (remote/run/run_records.py)."""


class RunRecorded(PageEvent):
    """What it recorded of the run."""

    run: str
    record: RecordAnswer


class LogRecorded(PageEvent):
    """Parts of the log of the run's first or last rank, with these bytes."""

    run: str
    rank: int
    sizes: "list[tuple[float, int]]"  # by which it is dated: time and size
    parts: "list[tuple[int, int]]"  # offset and bytes
