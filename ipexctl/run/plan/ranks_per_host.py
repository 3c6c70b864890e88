"""How many ranks each host gets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ipexctl.errors import InputError
from ipexctl.facts import usable_cores
from ipexctl.inventory.hostfile_text import fold
from ipexctl.run.plan.plan_request import Node, RunRequest

MOST = 1 << 16  # of all ranks; a slip of the finger must not fill anybody's memory


def share_out(nodes: Sequence[Node], request: RunRequest) -> list[int]:
    """Ranks per host, in the order of the hostfile.

    -ppn is for every host, and fills them in order. Without it slots count, and where a host has
    none, what it would get by itself. -n alone is spread evenly, where no host has slots.
    """
    n, ppn = request.n, request.ppn
    for name, value in (("-n", n), ("-ppn", ppn)):
        if value is not None and value < 1:
            raise InputError(f"{name} {value}: must be at least 1", slug="rank-count-too-small")
        if value is not None and value > MOST:
            raise InputError(
                f"{name} {value}: more than {MOST} ranks are not supported",
                slug="rank-count-too-big",
            )
    limits, what = _limits(nodes, request)
    if n is None:
        return limits
    if what:
        return _fill(limits, n, what)
    each, more = divmod(n, len(nodes))
    return [each + (1 if i < more else 0) for i in range(len(nodes))]


def fitting(nodes: Sequence[Node], request: RunRequest) -> int | None:
    """-n, limited to what these hosts have room for."""
    limits, what = _limits(nodes, request)
    return min(request.n, sum(limits)) if request.n and what else request.n


def notes(nodes: Sequence[Node], counts: Sequence[int], request: RunRequest) -> Iterator[str]:
    """What the user may not have meant."""
    together = list(zip(nodes, counts, strict=True))
    if idle := [node.host.name for node, count in together if not count]:
        yield f"without ranks: {', '.join(idle)}"
    n, ppn = request.n, request.ppn
    if ppn is None:
        return
    if n is not None and n % ppn:
        last = next(node.host.name for node, count in together if count == n % ppn)
        yield f"-n {n} is not a multiple of -ppn {ppn}: {last} has {n % ppn} of them"
    beyond = [node.host.name for node, count in together if 0 < node.host.slots < count]
    if beyond:
        yield f"-ppn {ppn} is more than the slots in the hostfile: {fold(beyond)}"


def _limits(nodes: Sequence[Node], request: RunRequest) -> tuple[list[int], str]:
    """The ranks of each host without -n, and what limits them; "": only -n does."""
    if request.ppn is not None:
        return [request.ppn] * len(nodes), "-ppn"
    own = [node.host.slots or usable_cores.default_ranks(node.facts.cpu) for node in nodes]
    slots = [node.host.slots for node in nodes]
    if all(slots):
        return own, "slots in the hostfile"
    if any(slots):
        return own, "their slots in the hostfile or, without slots, one rank per NUMA node"
    return own, ""


def _fill(limits: list[int], n: int, what: str) -> list[int]:
    if n > sum(limits):
        hosts = "1 host has" if len(limits) == 1 else f"{len(limits)} hosts have"
        raise InputError(
            f"-n {n} ranks do not fit: {hosts} room for {sum(limits)} ({what})",
            hint=f"use -n {sum(limits)}, more hosts, or a larger -ppn",
            slug="ranks-do-not-fit",
        )
    out = []
    for limit in limits:
        out.append(min(limit, n))
        n -= out[-1]
    return out
