"""Messages of a command that watches a run to its hosts."""

from ipexctl.common.message import Message, Variant


class WatchStart(Message):
    """How a command watches a run on a host: where it starts reading, how much is sent ahead."""

    root: str
    run_id: str
    host: str
    lease: float
    window: int  # bytes of output
    facts: bool  # whether this host reports the facts of the run
    at: int  # offset in the journal from which to read
    logs: "list[tuple[int | str, int]]"  # (rank or program, bytes of its log already read)


class WatchOrder(Variant):
    """An order of a command that watches: one of the classes below."""


class Ping(WatchOrder):
    """The command is alive."""


class Shown(WatchOrder):
    """This many more bytes of output were shown: as many may be sent."""

    bytes: int


class Interrupt(WatchOrder):
    """An order for the hub: end the ranks, and give them this many seconds."""

    by: str
    seconds: float


class Doubt(WatchOrder):
    """A message to the hub: this command does not reach a host."""

    host: str
    why: str


class CannotGoOn(WatchOrder):
    """A message to the hub: a host could not do its part."""

    host: str
    why: str


class HubAt(WatchOrder):
    """A message to the other hosts: the address at which the hub listens."""

    address: str
    port: int


class EndPart(WatchOrder):
    """The run is over: the host ends what is left of it."""
