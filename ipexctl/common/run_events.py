"""Messages that the hosts of a run report. The supervisors report events to the hub; what the hub
concludes are the facts of the run, which every host's journal and every watching command get.
"""

from ipexctl.common.copy_messages import CopierEvent
from ipexctl.common.exchange_report import ExchangeReport
from ipexctl.common.message import MYPY, AnyText, Document, Line, Message, Signed, Variant, later

if MYPY:
    from ipexctl.common.rank_looks import RankLook


def import_rank_looks() -> object:
    from ipexctl.common import rank_looks  # only a stalled run has looks

    return rank_looks


later["RankLook"] = import_rank_looks


class Event(Variant):
    """What has happened: one of the classes below."""


class Fact(Message):
    """An event as the hub, or a host without it, tells all others."""

    event: Event
    host: "Line" = ""  # that it is about
    at: int = 0  # where its record ends in the journal from which it was read


# --- of one host: how its ranks are --------------------------------------------------------------


class Ready(Event):
    """The host waits for its processes; the first host waits for the others, at this port."""

    port: int


class Placement(Message):
    """Where a rank runs."""

    cpus: "tuple[int, ...]" = ()  # (): not known


class RankStarted(Event):
    """A rank's process has begun."""

    rank: int
    started: int  # its process
    where: "Placement | None" = None


class Usage(Message):
    """What a rank used, by its host's clock. `cpu` and `memory` include its children."""

    seconds: float
    cpu: float
    memory: int  # bytes, the largest process


class Exit(Message):
    """How a rank ended."""

    code: "int | None"
    signal: "int | None" = None
    lost: bool = False  # its wrapper was killed and reported nothing
    hints: "tuple[Line, ...]" = ()  # what its host knows besides: see run/outcome/rank_states.py
    usage: "Usage | None" = None
    at_exit: "int | None" = None  # the signal that ended Python after the script had ended


MOST_HINTS, LONGEST_HINT = 8, 64


class RankExited(Event):
    """A rank has ended."""

    rank: int
    ended: Exit
    tail: "AnyText" = ""  # the end of its output


class RankRefused(Event):
    """MPI started a rank that the plan has elsewhere."""

    refused: "Line"  # why


class RankFrozen(Event):
    """All threads of a rank are stopped, for this many seconds."""

    rank: int
    seconds: float


class HostLoad(Message):
    """How busy a host is. None: the host did not report the value."""

    cpu: "float | None" = None  # share of its CPUs, 0 to 1
    used: "int | None" = None  # bytes of memory
    total: "int | None" = None  # memory, or its control group's limit
    net: "float | None" = None  # bytes per second, of its busiest network interface


class Sample(Event, HostLoad):
    """How busy the host and its ranks are, reported every few seconds."""

    stopped: "dict[int, float]" = {}  # rank -> seconds since it was stopped
    ranks: "dict[int, float]" = {}  # CPUs that their processes kept busy
    doing: "dict[int, Line]" = {}  # what ranks without output do: "importing torch", ""


class Swept(Event):
    """The host has killed the run's processes and looked for survivors."""

    survivors: int
    left: float = 0  # bytes of output that are still to be sent: may be many


class RanksLooked(Event):
    """What a host's ranks do, when no rank of the run makes progress."""

    number: int
    ranks: "list[RankLook]"


class Exchanged(Event):
    """What the host's ranks have exchanged with others so far."""

    report: ExchangeReport


class LogPart(Event):
    """The next bytes of a log come with this, or its end."""

    key: "int | Line"  # a rank's number, or a program
    end: bool = False


class LogSizes(Event):
    """How a log has grown."""

    key: int  # the rank
    rows: "list[tuple[float, int]]"  # time and size
    first: int  # the offset of the first part that is sent


class Pong(Event):
    """The host is alive."""


# --- of one host, for the hub alone --------------------------------------------------------------


class Launch(Event):
    """mpirun requests a daemon on another host."""

    key: int
    argv: "list[str]"


class Unlaunch(Event):
    """mpirun has ended the program with which it requested a daemon."""

    key: int


class Exited(Event):
    """mpirun, one of its daemons or the program that started ranks has ended."""

    key: "Line"
    code: "Signed"  # below 0: minus the signal that ended it
    error: "Line" = ""  # why it could not be started
    asked: bool = False  # it was ordered to end


class Unanswered(Event):
    """Some addresses do not answer the host's ranks."""

    own: "list[Line]"  # addresses of this host
    peers: "list[tuple[Line, float]]"  # those that do not answer, for how many seconds


class StopAsked(Event):
    """A user has called `ipexctl stop`, which asks every host."""

    by: "Line"
    seconds: float


class Quiet(Event):
    """The host's ranks have made no progress for this many seconds; 0: they make progress again."""

    seconds: float


class CopierReported(Event):
    """The process that copies the host's checkpoints has reported something."""

    event: CopierEvent


class LookDone(Event):
    """The host has looked at its ranks. `computes`: a rank uses CPUs for more than waiting."""

    number: int
    computes: bool


# --- of the hub: facts of the run ----------------------------------------------------------------


class Begun(Event):
    """All hosts were ready, and the hub starts the ranks."""

    plan: "Document | None" = None  # ShownPlan, for those who attach


class HostLost(Event):
    """The hub has lost the connection to the host."""

    why: "Line"


class Broken(Event):
    """The host could not do its part of the run."""

    what: "Line"


class ProgramEnded(Event):
    """mpirun, one of its daemons or the program that started ranks ended before the ranks did."""

    who: "Line"
    code: "Signed | None"  # None: not known
    killed: bool  # and ipexctl did not do it
    said: "Line"
    up: int  # ranks that had started
    alive: int


class Stalled(Event):
    """No rank has made progress for `seconds`, and none computes; look `number` shows them."""

    seconds: float
    number: int


class Moving(Event):
    """The ranks of a run that was stalled make progress again."""


class TimedOut(Event):
    """The run took longer than `seconds`, its --timeout."""

    seconds: float


class EndAsked(Event):
    """Ctrl-C or `ipexctl stop` ends the run. `seconds`: the time the ranks have to end."""

    by: "Line"
    seconds: float


class Abandoned(Event):
    """The command that started the run has gone, and the run is to end with it."""

    why: "Line"


class Noted(Event):
    """Something unusual that the hub noticed. `cut`: if the note is about connections, the hosts
    that do not reach each other, and for how many seconds."""

    text: "Line"
    cut: "list[tuple[Line, float]] | None" = None


class Checkpoint(Event):
    """A checkpoint is complete; `withdrawn`: it later turned out not to be."""

    name: "Line"
    step: "int | None" = None
    hosts: "tuple[Line, ...]" = ()
    bytes: int = 0
    seconds: float = 0.0
    withdrawn: bool = False
    number: int = 0  # counts those of an attempt


class RanksSucceeded(Event):
    """All ranks have ended with 0: the run is done, whatever happens while copies are awaited."""


class Over(Event):
    """The hub has told all hosts to stop. `well`: all ranks had ended, with code 0."""

    why: "Line"
    well: bool = False


def is_decisive(event: Event) -> bool:
    """Return whether this fact ends the run, unless an earlier one has."""
    if isinstance(event, RankExited):
        return event.ended.code != 0
    return not isinstance(event, (RankStarted, Noted, Begun, Stalled, Moving, Checkpoint))
