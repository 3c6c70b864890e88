"""Messages between the keepers of a run with --restarts."""

from ipexctl.common.attempt_record import QueuedRun, RecordLine, RunEnded
from ipexctl.common.checkpoint_reports import CopiedPart
from ipexctl.common.message import Line, Message, Signed, Variant
from ipexctl.common.run_events import Fact
from ipexctl.common.run_orders import StartOrder

# --- the state of each host's part ---------------------------------------------------------------


class PartReady(Message):
    """The host's supervisor waits for those of the other hosts, at this port."""

    attempt: int
    port: int


class PartFailed(Message):
    """The part could not begin."""

    attempt: int
    why: str


class PartOver(Message):
    """The part has ended."""

    attempt: int
    well: bool
    finished: bool  # all ranks here had ended with 0 before anything failed
    facts: "list[Fact]"  # that ended it
    seconds: float  # until then
    complete: str  # the last checkpoint that was complete
    number: int = 0  # of that
    ago: float = 0.0


class KeptCheckpoint(Message):
    """A complete checkpoint of which this host has parts."""

    name: str
    version: "tuple[int, int]"  # attempt, and number in that
    age: float
    parts: "dict[str, CopiedPart]"  # by the host that wrote it
    held: "list[str]"  # sha of the parts that are intact here
    key: str = ""  # these three as in Manifest
    members: "list[str]" = []
    gap: float = 0.0


class PartCleared(Message):
    """The host has no ranks of that attempt any more, and these checkpoints."""

    attempt: int
    port: int  # where this host serves them
    checkpoints: "list[KeptCheckpoint]"
    open: "list[str]"  # names of those that the last attempt left incomplete


class QueuePlace(Message):
    """The place of a run with --queue on this host."""

    before: "list[QueuedRun]"  # runs that wait for its CPUs longer
    using: "list[Line]"  # runs that have its CPUs
    claimed: bool  # this run has them
    lacks: "Line" = ""  # what was removed from the host since the run was queued


class HostReport(Message):
    """The state of a host; times are ages in seconds."""

    stop: str = ""  # the user who stopped the run
    ready: "PartReady | None" = None
    failed: "PartFailed | None" = None
    succeeded: int = 0  # the attempt of which all ranks have ended with 0
    over: "PartOver | None" = None
    cleared: "PartCleared | None" = None
    place: "QueuePlace | None" = None


# --- orders of the leader ----------------------------------------------------------------


class CheckpointLayout(Message):
    """A checkpoint to begin from, and which hosts serve its parts. It has the newest of the
    names with a step and of the plain names."""

    name: str
    version: "tuple[int, int]"
    age: float
    parts: "list[tuple[str, str, int, list[str]]]"  # writer, sha, size of its list, URLs
    key: str = ""  # these three as in Manifest
    members: "list[str]" = []
    gap: float = 0.0
    needed: int = 0  # the first attempt of which copies stay: of the checkpoint before this one


class BeginPart(Message):
    asked: StartOrder
    lay: "CheckpointLayout | None"
    tidies: bool = False  # puts aside what the ranks wrote after that checkpoint


LEFT, WAITS, CLAIMS = "left", "waits", "claims"  # what a run with --queue does for its CPUs


class KeeperOrder(Message):
    """The state that a host has to reach, whatever its state is."""

    number: int  # of the attempt
    clear: int  # the attempt that must have ended on the host
    end: "RunEnded | None" = None
    begin: "BeginPart | None" = None
    hub: "tuple[str, int] | None" = None  # where it listens
    queue: str = ""  # "": as before


# --- between keepers -----------------------------------------------------------------------------


class KeeperMessage(Variant):
    """A message between keepers: one of the classes below."""


class LogEntry(Message):
    """An entry of the log on which Raft agrees: a line of the record, or none for a new leader."""

    index: int
    term: int
    line: "RecordLine | None" = None
    line_term: int = 0  # of the leader that added the line, which may be an earlier one


class Vote(KeeperMessage):
    """A message of Raft. No pickle: who has the key of a run could run any program by it."""

    vote: str  # its kind, as PySyncObj calls it
    numbers: "dict[str, Signed | bool]"  # its other fields
    entries: "list[LogEntry]" = []


class HostReported(KeeperMessage):
    """The state of the sender's part."""

    report: HostReport


class LeaderOrdered(KeeperMessage):
    """The state that the receiver has to reach."""

    order: KeeperOrder
    term: int  # of the leader
    lines: "list[RecordLine]" = []  # the record, for hosts that do not vote
