"""What a diagnosis starts from and what it says."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from ipexctl.quick_dataclass import dataclass
from ipexctl.run.hang.evidence import RankLook


class Kind(str, Enum):
    """Where several apply, the first ones explain the others."""

    PARTITION = "partition"
    LEFT_EARLY = "left-early"
    HOST_SILENT = "host-silent"
    STOPPED = "stopped"
    MISMATCH = "mismatch"
    RENDEZVOUS = "rendezvous"
    BLOCKED_IO = "blocked-io"
    WORKER = "worker"  # of a data loader
    OUTSIDE = "outside"  # waits for something that is not a part of the run
    LOCK = "lock"
    SPINNING = "spinning"
    SLEEPING = "sleeping"
    COMPUTING = "computing"
    COLLECTIVE = "collective"  # all ranks have arrived, none goes on
    UNKNOWN = "unknown"
    MOVING = "moving"


SEVERITY = {kind: i for i, kind in enumerate(Kind)}


@dataclass(frozen=True)
class Situation:
    """`quiet`: seconds without progress; None: the run makes progress.
    `silent_hosts` and `cuts` come with the seconds since when."""

    world_size: int
    hosts: Mapping[int, str]
    master: str = ""
    looks: tuple[RankLook, ...] = ()
    ended: Mapping[int, str] | None = None
    quiet: float | None = None
    silent_hosts: tuple[tuple[str, float], ...] = ()
    cuts: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class Suspect:
    rank: int
    host: str
    where: str  # data.py:88 in __next__
    doing: str  # reading /data/x.arrow, state D, 0 % CPU


@dataclass(frozen=True)
class Group:
    """Ranks that do the same. `waits`: for other ranks, in the operation `what`."""

    ranks: tuple[int, ...]
    what: str
    where: str
    seconds: float | None
    waits: bool = True


@dataclass(frozen=True)
class Diagnosis:
    kind: Kind
    headline: str
    suspects: tuple[Suspect, ...] = ()
    groups: tuple[Group, ...] = ()
    likely: str = ""
    limits: tuple[str, ...] = ()
