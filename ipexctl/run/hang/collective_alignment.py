"""Find which ranks wait for which others, from the collectives of all ranks by group and number.

A rank whose highest number in a group is lower than the one another waits in has not arrived.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping

from ipexctl.base.sizes import format_bytes
from ipexctl.common.rank_looks import Collective, RankLook
from ipexctl.quick_dataclass import dataclass

# In these collectives, ranks may pass different numbers of elements.
_UNEVEN = re.compile(r"scatter$|all_?to_?all|coalesced")
_BYTES = {"Double": 8, "Long": 8, "ComplexFloat": 8, "ComplexDouble": 16, "Float": 4, "Int": 4}
_BYTES |= {"Half": 2, "BFloat16": 2, "Short": 2, "Byte": 1, "Char": 1, "Bool": 1}


# different calls at the same number, each with its ranks, the largest group first
Mismatch = list[tuple[Collective, tuple[int, ...]]]


@dataclass(frozen=True)
class Alignment:
    """`waits_in`: the collective in which a rank waits. `waits_for`: ranks that
    have not arrived there, as far as their collectives are recorded."""

    waits_in: Mapping[int, Collective]
    waits_for: Mapping[int, frozenset[int]]
    mismatch: Mismatch

    def roots(self) -> frozenset[int]:
        """Return ranks that others wait for and that wait for no other rank."""
        awaited = frozenset[int]().union(*self.waits_for.values())
        return awaited - self.waits_for.keys()

    def has_arrived(self, look: RankLook) -> bool:
        """Return whether this rank has begun every collective that others wait in."""
        highest = dict[str, int]()
        for call in look.calls:
            highest[call.group] = max(call.seq, highest.get(call.group, -1))
        return all(call.seq <= highest.get(call.group, -1) for call in self.waits_in.values())

    def cycle(self) -> tuple[int, ...]:
        """Return ranks that wait for one another, if no other rank holds them up."""
        if self.roots() or not self.waits_for:
            return ()
        path = [min(self.waits_for)]
        while (following := min(self.waits_for[path[-1]] & self.waits_for.keys())) not in path:
            path.append(following)
        return tuple(path[path.index(following) :])


def align_collectives(
    looks: Mapping[int, RankLook], waiting: frozenset[int], ended: frozenset[int], world: int
) -> Alignment:
    """Align the collectives. `waiting`: the ranks whose main thread waits for an exchange."""
    by_group = defaultdict[str, dict[int, dict[int, Collective]]](lambda: defaultdict(dict))
    for rank, look in looks.items():
        for call in look.calls:
            by_group[_group_key(call.group, look, looks)][rank][call.seq] = call
    waits_in, waits_for = dict[int, Collective](), dict[int, frozenset[int]]()
    mismatch = Mismatch()
    for group, called in sorted(by_group.items()):
        members = _group_members(group, called, looks, ended, world)
        recorded = {r for r in members if r in looks and looks[r].collectives is not None}
        highest = {rank: max(called[rank], default=-1) for rank in recorded if rank in called}
        mismatch = mismatch or _find_mismatch(called)
        for rank in sorted(called.keys() & waiting):
            for seq, call in sorted(called[rank].items()):
                if call.done:
                    continue
                late = {r for r in recorded if highest.get(r, -1) < seq} | (members & ended)
                if rank not in waits_in or (late and rank not in waits_for):
                    waits_in[rank] = call
                if late and rank not in waits_for:
                    waits_for[rank] = frozenset(late)
    return Alignment(waits_in, waits_for, mismatch)


def collective_text(call: Collective, *, backward: bool = False) -> str:
    """Format a call, such as `all_reduce #412 (DDP, 4.2 MB)`."""
    size = sum(
        math.prod(size) * _BYTES.get(dtype, 1 if "8" in dtype else 4)
        for size, dtype in zip(call.sizes, call.dtypes, strict=False)
    )
    notes = ["DDP"] if backward and call.op in ("all_reduce", "allreduce") else []
    notes += [format_bytes(size)] if 0 < size < 1 << 50 else []
    return collective_name(call) + (f" ({', '.join(notes)})" if notes else "")


def collective_name(call: Collective) -> str:
    """Format a call, such as `all_reduce #412`, with its group unless that is the default one."""
    group = "" if call.name in ("default_pg", "undefined", "") else f" of group {call.name}"
    return f"{call.op} #{call.seq}{group}"


def collective_signature(call: Collective) -> tuple[object, ...]:
    if _UNEVEN.search(call.op):
        return (call.op,)
    elements = sum(math.prod(size) for size in call.sizes)
    return call.op, elements, call.dtypes


def describe_difference(a: Collective, b: Collective) -> tuple[str, str]:
    """Format the two calls with what differs: operation, sizes or dtypes."""
    if a.op != b.op:
        return collective_text(a), collective_text(b)
    if a.dtypes != b.dtypes:
        return (
            f"{collective_name(a)} of {_join_words(a.dtypes)}",
            f"{collective_name(b)} of {_join_words(b.dtypes)}",
        )
    return f"{collective_name(a)} of {_shapes(a)}", f"{collective_name(b)} of {_shapes(b)}"


def _join_words(words: tuple[str, ...]) -> str:
    return ", ".join(dict.fromkeys(words)) or "nothing"


def _shapes(call: Collective) -> str:
    return ", ".join(str([*size]) for size in call.sizes[:3]) or "nothing"


def _group_key(group: str, look: RankLook, looks: Mapping[int, RankLook]) -> str:
    """Return a key of the group: groups of different ranks may have the same name."""
    variants = {ranks for other in looks.values() if (ranks := other.ranks_of(group))}
    members = look.ranks_of(group)
    return f"{group} {min(members)}" if len(variants) > 1 and members else group


def _group_members(
    group: str,
    called: Mapping[int, object],
    looks: Mapping[int, RankLook],
    ended: frozenset[int],
    world: int,
) -> frozenset[int]:
    id_ = group.partition(" ")[0]
    reported = [ranks for rank in called if (ranks := looks[rank].ranks_of(id_))]
    reported = reported or [ranks for look in looks.values() if (ranks := look.ranks_of(id_))]
    if reported:
        return frozenset(called) | {rank for rank in max(reported, key=len) if rank < world}
    names = {c.name for r in called for c in looks[r].calls if c.group == id_}
    if "default_pg" in names or id_ == "0":
        return frozenset(looks) | ended | frozenset(range(min(world, 1 << 16)))
    return frozenset(called)


def _find_mismatch(called: Mapping[int, Mapping[int, Collective]]) -> Mismatch:
    """Return the first calls that differ; those that all have finished hold up no rank."""
    pending = {seq for calls in called.values() for seq, call in calls.items() if not call.done}
    for seq in sorted(pending):
        by_signature = defaultdict[tuple[object, ...], list[int]](list)
        for rank in sorted(called):
            if seq in called[rank]:
                by_signature[collective_signature(called[rank][seq])].append(rank)
        if len(by_signature) > 1:
            sides = sorted(by_signature.values(), key=lambda ranks: (-len(ranks), ranks[0]))
            return [(called[ranks[0]][seq], tuple(ranks)) for ranks in sides]
    return []
