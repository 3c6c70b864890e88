"""What hosts report of their ranks' last minute (remote/run/last_minute.py), as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from ipexctl.base.values import listed, plain
from ipexctl.facts.reader import by, int_of, number, positive, rows
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
    said = raw if isinstance(raw, Mapping) else {}
    of_ranks = said.get("ranks")
    found = of_ranks.items() if isinstance(of_ranks, Mapping) else ()
    ranks = rows(RankPace, [[rank, *listed(row)] for rank, row in found])
    programs = (_program(*[*listed(row), None, None][:2]) for row in listed(said.get("programs")))
    return HostPace(host, ranks, number(said.get("cpu")), tuple(filter(None, programs)))


def _program(name: Any, cpus: Any) -> tuple[str, float] | None:
    used = number(cpus)
    return (plain(name, 40), used) if used is not None and plain(name, 40) else None
