"""Messages of a command that watches a run to its hosts. The first field of each is its mark."""

from ipexctl.common.message import MYPY, Marked, Message

if MYPY:
    from typing import Any


class WatchOrder(Message):
    """How a command watches a run on a host: where it starts reading, how much is sent ahead."""

    root: str
    run_id: str
    host: str
    lease: float
    window: int  # bytes of output
    facts: bool  # whether this host reports the facts of the run
    at: int  # offset in the journal from which to read
    logs: "list[tuple[int | str, int]]"  # (rank or program, bytes of its log already read)


class Said(Marked):
    def document(self) -> "dict[str, Any]":
        """Return the document with the mark, even if that has its default value."""
        return {self.mark: getattr(self, self.mark), **super().document()}


class Ping(Said):
    """The command is alive."""

    ping: bool = True


class Shown(Said):
    """This many more bytes of output were shown: as many may be sent."""

    shown: int


class Interrupt(Said):
    """An order for the hub: end the ranks, and give them this many seconds."""

    interrupt: str  # who wants it
    seconds: float


class Doubt(Said):
    """A message to the hub: this command does not reach a host."""

    doubt: str
    why: str


class CannotGoOn(Said):
    """A message to the hub: a host could not do its part."""

    broken: str
    why: str


class HubAt(Said):
    """A message to the other hosts: the address at which the hub listens."""

    hub: "tuple[str, int]"


class EndPart(Said):
    """The run is over: the host ends what is left of it."""

    stop: bool = True
