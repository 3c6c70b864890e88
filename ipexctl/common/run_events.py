"""Messages that the hosts of a run report. The supervisors report events to the hub; what the hub
concludes are the facts of the run, which every host's journal and every watching command get.
"""

from ipexctl.common.message import MYPY, AnyText, Line, Message, Signed

if MYPY:
    from typing import Any


class Event(Message):
    event = ""  # its name in a document

    def document(self) -> "dict[str, Any]":
        return dict(super().document(), event=self.event)


# --- of one host: how its ranks are --------------------------------------------------------------


class Ready(Event):
    """The host waits for its processes; the first host waits for the others, at this port."""

    event = "ready"
    port: int


class RankStarted(Event):
    event = "rank"
    rank: int
    started: int  # its process
    where: "Any" = None  # its CPUs and memory


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
    hints: "tuple[str, ...]" = ()  # what its host knows besides: see run/outcome/run_state.py
    usage: "Usage | None" = None
    at_exit: "int | None" = None  # the signal that ended Python after the script had ended


class RankExited(Event):
    event = "rank"
    rank: int
    ended: Exit
    tail: "AnyText" = ""  # the end of its output


class RankRefused(Event):
    """MPI started a rank that the plan has elsewhere."""

    event = "rank"
    refused: "Line"  # why


class RankFrozen(Event):
    event = "frozen"
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

    event = "load"
    stopped: "dict[int, float]" = {}  # rank -> seconds since it was stopped
    ranks: "dict[int, float]" = {}  # CPUs that their processes kept busy
    doing: "dict[int, Line]" = {}  # what ranks without output do: "importing torch", ""


class Swept(Event):
    """The host has killed the run's processes and looked for survivors."""

    event = "swept"
    survivors: int
    left: float = 0  # bytes of output that are still to be sent: may be many


class RanksLooked(Event):
    """What a host's ranks do, when no rank of the run makes progress (run/hang/evidence.py)."""

    event = "look"
    number: int
    ranks: "Any"


class Pong(Event):
    """The host is alive."""

    event = "pong"


# --- of one host, for the hub alone --------------------------------------------------------------


class Launch(Event):
    """mpirun requests a daemon on another host."""

    event = "launch"
    key: int
    argv: "list[str]"


class Unlaunch(Event):
    """mpirun has ended the program with which it requested a daemon."""

    event = "unlaunch"
    key: int


class Exited(Event):
    """mpirun, one of its daemons or the program that started ranks has ended."""

    event = "exited"
    key: str
    code: int
    error: str = ""  # why it could not be started
    asked: bool = False  # it was ordered to end


class Unanswered(Event):
    """Some addresses do not answer the host's ranks."""

    event = "unanswered"
    own: "list[str]"  # addresses of this host
    peers: "list[tuple[str, float]]"  # those that do not answer, for how many seconds


class StopAsked(Event):
    """A user has called `ipexctl stop`, which asks every host."""

    event = "stop"
    by: str
    seconds: float


class Quiet(Event):
    """The host's ranks have made no progress for this many seconds; 0: they make progress again."""

    event = "quiet"
    seconds: float


class LookDone(Event):
    """The host has looked at its ranks. `computes`: a rank uses CPUs for more than waiting."""

    event = "looked"
    number: int
    computes: bool


# --- of the hub: facts of the run ----------------------------------------------------------------


class Begun(Event):
    """All hosts were ready, and the hub starts the ranks."""

    event = "go"
    plan: "Any" = None  # for those who attach: run/plan/shown_plan.py


class HostLost(Event):
    """The hub has lost the connection to the host."""

    event = "lost"
    why: "Line"


class Broken(Event):
    """The host could not do its part of the run."""

    event = "broken"
    what: "Line"


class ProgramEnded(Event):
    """mpirun, one of its daemons or the program that started ranks ended before the ranks did."""

    event = "program"
    who: "Line"
    code: "Signed | None"  # None: not known
    killed: bool  # and ipexctl did not do it
    said: "Line"
    up: int  # ranks that had started
    alive: int


class Stalled(Event):
    """No rank has made progress for `seconds`, and none computes; look `number` shows them."""

    event = "stalled"
    seconds: float
    number: int


class Moving(Event):
    """The ranks of a run that was stalled make progress again."""

    event = "moving"


class TimedOut(Event):
    """The run took longer than `seconds`, its --timeout."""

    event = "timeout"
    seconds: float


class EndAsked(Event):
    """Ctrl-C or `ipexctl stop` ends the run. `seconds`: the time the ranks have to end."""

    event = "asked"
    by: "Line"
    seconds: float


class Abandoned(Event):
    """The command that started the run has gone, and the run is to end with it."""

    event = "abandoned"
    why: "Line"


class Noted(Event):
    """Something unusual that the hub noticed. `cut`: if the note is about connections, the hosts
    that do not reach each other, and for how many seconds."""

    event = "note"
    text: "Line"
    cut: "Any" = None


class Checkpoint(Event):
    """A checkpoint is complete; `withdrawn`: it later turned out not to be."""

    event = "checkpoint"
    name: "Line"
    step: "int | None" = None
    hosts: "tuple[str, ...]" = ()
    bytes: int = 0
    seconds: float = 0.0
    withdrawn: bool = False
    number: int = 0  # counts those of an attempt


class RanksSucceeded(Event):
    """All ranks have ended with 0: the run is done, whatever happens while copies are awaited."""

    event = "succeeded"


class Over(Event):
    """The hub has told all hosts to stop. `well`: all ranks had ended, with code 0."""

    event = "over"
    why: "Line"
    well: bool = False


def event_kinds_by_name() -> "dict[str, type[Event]]":
    """Return the kinds of event by name, without those of ranks."""
    kinds = Event.__subclasses__()
    return {kind.event: kind for kind in kinds if kind.event != RankStarted.event}


def make_host_fact(host: str, event: Event) -> "dict[str, Any]":
    """Return the document of a fact about this host."""
    return dict(event.document(), host=host)


def kind_of(document: "dict[str, Any]") -> "type[Event] | None":
    """Return the kind of event in a document; None if the name is unknown."""
    if document.get("event") != RankStarted.event:
        return KINDS.get(document.get("event", ""))
    if "refused" in document:
        return RankRefused
    return RankExited if "ended" in document else RankStarted


def read_run_event(document: "dict[str, Any]") -> Event:
    """Read the event in a document from another host of the run."""
    kind = kind_of(document)
    if kind is None:
        raise ValueError("an event named %.40r" % document.get("event"))
    return kind.read(document)


KINDS = event_kinds_by_name()
