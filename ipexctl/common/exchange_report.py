"""What a host reports about the data that its ranks exchange."""

from ipexctl.common.message import Line, Message


class RankGroup(Message):
    """A group of torch.distributed, as one of its ranks sees it."""

    ranks: "tuple[int, ...]"  # empty: all
    backend: "Line"
    data: "bool | None"  # whether a collective with data ran; None: unknown
    count: int  # number of operations that have ended, including barriers


class RankProcess(Message):
    """What a process of a rank reports. `main`: whether the run has started it."""

    rank: int
    main: bool
    age: float  # seconds since this report
    seconds: float  # that it had run by then
    ended: bool  # this is its last report
    joined: bool  # it took part in a rendezvous
    master: "Line"  # the address of the rendezvous
    place: "int | None"  # its rank in torch.distributed
    world: "int | None"
    torch: "Line"
    others: "tuple[Line, ...]"  # other libraries with which ranks exchange data
    groups: "tuple[RankGroup, ...]"


class ExchangeReport(Message):
    """The processes of the host's ranks, and the bytes that they have moved so far."""

    processes: "tuple[RankProcess, ...]" = ()
    # rank, its own address, the other end's, bytes sent and received
    moved: "tuple[tuple[int, Line, Line, int, int], ...]" = ()
    silent: "Line" = ""  # why its ranks report nothing
    complete: bool = False  # all of them have ended
