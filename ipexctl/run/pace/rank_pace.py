"""What the ranks of each host did for some time, as values."""

from __future__ import annotations

from ipexctl.common.rank_paces import RankPace, RankPaces
from ipexctl.quick_dataclass import dataclass


@dataclass(frozen=True)
class HostPace:
    """A host's pace. `programs`: other programs and their CPUs; only after the run has ended."""

    host: str
    ranks: tuple[RankPace, ...] = ()
    cpu: float | None = None  # the share of the host's CPUs that was busy with any program
    programs: tuple[tuple[str, float], ...] = ()


def pace_of(host: str, paces: RankPaces | None) -> HostPace:
    """Return what a host reported, if it did."""
    paces = paces or RankPaces()
    return HostPace(host, tuple(paces.ranks), paces.cpu, tuple(paces.programs))
