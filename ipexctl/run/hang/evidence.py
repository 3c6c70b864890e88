"""What hosts saw of their ranks: looks, as they came or from journals."""

from __future__ import annotations

from collections.abc import Iterable

from ipexctl.common.rank_looks import RankLook

RANKS = 1 << 20


def looks_of(host: str, looks: Iterable[RankLook]) -> tuple[RankLook, ...]:
    """Return one look for each rank of a host."""
    found = dict[int, RankLook]()
    for look in looks:
        if look.rank < RANKS:
            children = tuple(child.replace(host=host) for child in look.children)
            found.setdefault(look.rank, look.replace(host=host, children=children))
    return tuple(found.values())
