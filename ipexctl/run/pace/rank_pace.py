"""What hosts report of their ranks' last minute (remote/run/last_minute.py), as values."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from ipexctl.base.host_answer import record
from ipexctl.base.values import by, int_of, number, positive
from ipexctl.quick_dataclass import dataclass


@dataclass(frozen=True)
class RankPace:
    """`sending`: the share of the time in which bytes were on their way; None: not counted."""

    rank: int = field(metadata=by(int_of, needed=True))
    seconds: float = field(metadata=by(positive, needed=True))  # for which the numbers are
    cpus: float = field(metadata=by(number, needed=True))  # that its process used
    sent: float = field(metadata=by(number, needed=True))  # bytes per second, to other hosts
    sending: float | None = None
    waited: float | None = None  # seconds per second in which its threads could run without a CPU


@dataclass(frozen=True)
class HostPace:
    """`programs`: of other work, and the CPUs that each used; only of a run that has ended."""

    host: str
    ranks: tuple[RankPace, ...] = ()
    cpu: float | None = None  # the share of the host's CPUs that was busy, by whatever program
    programs: tuple[tuple[str, float], ...] = ()


def read_pace(host: str, raw: Any) -> HostPace:
    """Odd values are left out: a host may say anything."""
    return record(HostPace, raw, host=host)
