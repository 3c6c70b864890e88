"""What hosts report of their ranks' last minute (remote/run/last_minute.py), as values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ipexctl.base.values import listed, plain
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
    said = raw if isinstance(raw, Mapping) else {}
    rows = said.get("ranks")
    found = (_rank(*row) for row in rows.items()) if isinstance(rows, Mapping) else ()
    programs = (_program(*[*listed(row), None, None][:2]) for row in listed(said.get("programs")))
    ranks = tuple(filter(None, found))
    return HostPace(host, ranks, number(said.get("cpu")), tuple(filter(None, programs)))


def _program(name: Any, cpus: Any) -> tuple[str, float] | None:
    used = number(cpus)
    return (plain(name, 40), used) if used is not None and plain(name, 40) else None


def _rank(name: Any, raw: Any) -> RankPace | None:
    seconds, cpus, sent, sending, waited = [*map(number, listed(raw)), *[None] * 5][:5]
    if not (isinstance(name, str) and name.isascii() and name.isdigit() and len(name) < 8):
        return None
    if not seconds or cpus is None or sent is None:
        return None
    return RankPace(int(name), seconds, cpus, sent, sending, waited)
