"""Messages with which the hub of a run gives orders to the supervisors of its hosts."""

from ipexctl.common.message import MYPY, Message

if MYPY:
    from typing import Any


class Order(Message):
    order = ""  # its name in a document

    def document(self) -> "dict[str, Any]":
        return dict(super().document(), order=self.order)


class Spawn(Order):
    """Start mpirun, a daemon of it, or what starts ranks without them."""

    order = "spawn"
    program: str
    argv: "list[str]"


class Kill(Order):
    order = "kill"
    program: str


class LaunchEnded(Order):
    """A daemon that mpirun requested has ended. The order goes to mpirun's host."""

    order = "exited"
    key: int
    code: int


class LaunchRefused(Order):
    order = "refused"
    key: int
    why: str


class RankNoted(Order):
    """The successful end of a rank is recorded: its wrapper may exit."""

    order = "noted"
    rank: int


class SignalRanks(Order):
    order = "signal"
    signal: int
    why: str


class Look(Order):
    """Look at the ranks, which make no progress."""

    order = "look"
    number: int


class TellCopier(Order):
    """An order for the process that copies checkpoints: remote/checkpoints/publication.py."""

    order = "shelf"
    copy_order: "Any"

    _keys = {"copy_order": "shelf"}


class Note(Order):
    """Record facts of the run (common/run_events.py) in the journal."""

    order = "facts"
    facts: "list[dict[str, Any]]"


class Stop(Order):
    """The run is over: end what is left of it."""

    order = "stop"
    why: str = "ended"


KINDS = {kind.order: kind for kind in Order.__subclasses__()}


def read_hub_order(document: "dict[str, Any]") -> Order:
    return KINDS[document["order"]].read(document)
