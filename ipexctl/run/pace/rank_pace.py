"""What hosts report of their ranks' last minute (remote/run/last_minute.py), as values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ipexctl.base.values import listed
from ipexctl.facts.reader import number
from ipexctl.quick_dataclass import dataclass


@dataclass(frozen=True)
class RankPace:
    """`sending`: the share of the time in which bytes were on their way; None: not counted."""

    rank: int
    seconds: float  # for which the numbers are
    cpus: float  # that its process used
    sent: float  # bytes per second, to other hosts
    sending: float | None = None


@dataclass(frozen=True)
class HostPace:
    host: str
    ranks: tuple[RankPace, ...] = ()
    cpu: float | None = None  # the share of the host's CPUs that was busy, by whatever program


def read_pace(host: str, raw: Any) -> HostPace:
    """Odd values are left out: a host may say anything."""
    said = raw if isinstance(raw, Mapping) else {}
    rows = said.get("ranks")
    found = (_rank(*row) for row in rows.items()) if isinstance(rows, Mapping) else ()
    return HostPace(host, tuple(filter(None, found)), number(said.get("cpu")))


def _rank(name: Any, raw: Any) -> RankPace | None:
    seconds, cpus, sent, sending = [*map(number, listed(raw)), None, None, None, None][:4]
    if not (isinstance(name, str) and name.isascii() and name.isdigit() and len(name) < 8):
        return None
    if not seconds or cpus is None or sent is None:
        return None
    return RankPace(int(name), seconds, cpus, sent, sending)
