"""Messages with which the hub of a run gives orders to the supervisors of its hosts."""

from ipexctl.common.copy_messages import CopyOrder
from ipexctl.common.message import Signed, Variant
from ipexctl.common.run_events import Fact


class HostOrder(Variant):
    """An order of the hub: one of the classes below."""


class Spawn(HostOrder):
    """Start mpirun, a daemon of it, or what starts ranks without them."""

    program: str
    argv: "list[str]"


class Kill(HostOrder):
    """End such a program."""

    program: str


class LaunchEnded(HostOrder):
    """A daemon that mpirun requested has ended. The order goes to mpirun's host."""

    key: int
    code: "Signed"


class LaunchRefused(HostOrder):
    """A daemon that mpirun requested is not started. The order goes to mpirun's host."""

    key: int
    why: str


class RankNoted(HostOrder):
    """The successful end of a rank is recorded: its wrapper may exit."""

    rank: int


class SignalRanks(HostOrder):
    """Send the ranks a signal."""

    signal: int
    why: str


class Look(HostOrder):
    """Look at the ranks, which make no progress."""

    number: int


class TellCopier(HostOrder):
    """An order for the process that copies checkpoints: remote/checkpoints/publication.py."""

    order: CopyOrder


class Note(HostOrder):
    """Record facts of the run (common/run_events.py) in the journal."""

    facts: "list[Fact]"


class Stop(HostOrder):
    """The run is over: end what is left of it."""

    why: str = "ended"
