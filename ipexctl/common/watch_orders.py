"""What a command that watches a run tells its hosts. The first field of each is its mark."""

from ipexctl.common.message import MYPY, Marked, Message

if MYPY:
    from typing import Any


class WatchOrder(Message):
    """How a command watches a run on a host: from where on, and how much is sent ahead."""

    root: str
    run_id: str
    host: str
    lease: float
    window: int  # bytes of output
    facts: bool  # whether those of the run are told from here
    at: int  # from which place in the journal on
    logs: "list[tuple[int | str, int]]"  # (rank or program, bytes of it that were read before)


class Said(Marked):
    def document(self) -> "dict[str, Any]":
        """With its mark, also where that has a default."""
        return {self.mark: getattr(self, self.mark), **super().document()}


class Ping(Said):
    """The command is alive."""

    ping: bool = True


class Shown(Said):
    """So many more bytes of output were shown: as many may come."""

    shown: int


class Interrupt(Said):
    """To the hub: the ranks are to end, and have so many seconds for it."""

    interrupt: str  # who wants it
    seconds: float


class Doubt(Said):
    """To the hub: a host that this command does not reach."""

    doubt: str
    why: str


class CannotGoOn(Said):
    """To the hub: a host that could not do its part."""

    broken: str
    why: str


class HubAt(Said):
    """To the other hosts: where the hub listens."""

    hub: "tuple[str, int]"


class EndPart(Said):
    """The run is over; what is left of it here is to end."""

    stop: bool = True
