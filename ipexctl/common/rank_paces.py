"""What the ranks of a host did for some time, and samples of it (remote/run/last_minute.py)."""

from ipexctl.common.message import Line, Message


class RankPace(Message):
    """A rank's averages. None: not counted."""

    rank: int
    seconds: float  # for which the numbers are
    cpus: float  # that its process used
    sent: float  # bytes per second, to other hosts
    sending: "float | None" = None  # share of the time with bytes on their way
    # seconds per second in which its threads could run but had no CPU
    waited: "float | None" = None
    asleep: "float | None" = None  # shares of the time in which its main thread slept,
    disk: "float | None" = None  # waited for a disk,
    process: "float | None" = None  # and for another process: a pipe, a socket


class RankPaces(Message):
    """The paces of a host's ranks that have been there for a few seconds."""

    cpu: "float | None" = None  # the share of the host's CPUs that was busy with any program
    ranks: "list[RankPace]" = []
    programs: "list[tuple[Line, float]]" = []  # others and their CPUs; of a run that has ended


class HostSample(Message):
    """A line of the history of a host and its ranks."""

    at: float  # seconds since the run began on the host
    cpu: "float | None" = None  # the share of its CPUs that was busy
    used: "float | None" = None  # bytes of memory
    net: "float | None" = None  # bytes per second
    # of each rank: CPUs, then so far: bytes sent, and the seconds of `sending`, `waited`, `asleep`,
    # `disk` and `process` as in RankPace
    ranks: "dict[int, tuple[float, float, tuple[float | None, ...]]]" = {}
