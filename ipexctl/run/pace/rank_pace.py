"""Read what hosts report about the last minute of their ranks (remote/run/last_minute.py)."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from ipexctl.base.host_answer import read_record
from ipexctl.base.values import by, int_of, number_or_none, positive_or_none
from ipexctl.quick_dataclass import dataclass


@dataclass(frozen=True)
class RankPace:
    """A rank's pace. `sending`: the share of time with bytes on their way; None: not counted."""

    rank: int = field(metadata=by(int_of, needed=True))
    seconds: float = field(metadata=by(positive_or_none, needed=True))  # for which the numbers are
    cpus: float = field(metadata=by(number_or_none, needed=True))  # that its process used
    sent: float = field(
        metadata=by(number_or_none, needed=True)
    )  # bytes per second, to other hosts
    sending: float | None = None
    waited: float | None = None  # seconds per second in which its threads could run but had no CPU
    asleep: float | None = None  # shares of the time in which its main thread slept,
    disk: float | None = None  # waited for a disk,
    process: float | None = None  # and for another process: a pipe, a socket


@dataclass(frozen=True)
class HostPace:
    """A host's pace. `programs`: other programs and their CPUs; only after the run has ended."""

    host: str
    ranks: tuple[RankPace, ...] = ()
    cpu: float | None = None  # the share of the host's CPUs that was busy with any program
    programs: tuple[tuple[str, float], ...] = ()


def read_pace(host: str, raw: Any) -> HostPace:
    """Read a host's report; invalid values are left out."""
    return read_record(HostPace, raw, host=host)
