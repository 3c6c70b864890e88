"""Decide which host gets which files from which other host, or from this machine.

Files go in units. This machine sends each unit once; whoever has it gives it to one other host at a
time, while it gets the next one itself. Nothing here moves a byte or waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ipexctl.base.blob import Blob
from ipexctl.quick_dataclass import dataclass

UNIT = 32 << 20  # bytes of small files that go together
UNITS = 32  # of one relay, about: each costs a host a few round trips
GONE = 2  # failures after which a giver is not asked again
ALONE = 3  # givers that failed a host, after which this machine sends it the rest

Unit = int


@dataclass(frozen=True)
class Turn:
    """One unit for one host. `giver`: the host that gives it, or "" if this machine sends it.
    `first`: no other host has it yet."""

    host: str
    unit: Unit
    giver: str = ""
    first: bool = False


class RelayTurns:
    """`hosts`: all that may come. `mute`: those of them that can give nothing to others."""

    def __init__(self, hosts: Iterable[str], mute: Iterable[str]) -> None:
        self._awaited = set(hosts)  # that may want something, sooner or later
        self._mute = set(mute)
        self._unit_of: dict[str, Unit] = {}  # by sha256
        self._units = 0
        self._todo: dict[str, dict[Unit, dict[str, Blob]]] = {}  # by host: by sha256
        self._have: dict[str, set[str]] = {}  # by host: sha256
        self._now: dict[str, Turn] = {}  # by host
        self._begun: set[Unit] = set()  # once sent by this machine to a host that can give
        self._givers: set[str] = set()  # that others may ask
        self._passed = False  # has a host got something from another one?
        self._failed: set[tuple[str, str]] = set()  # host, giver

    # -- hosts --

    def join(self, host: str, blobs: Sequence[Blob], missing: Iterable[Blob]) -> None:
        """`blobs`: what it has in the end; `missing` of them: in the order in which it wants it."""
        self._cut(blobs)
        todo = self._todo.setdefault(host, {})
        for blob in missing:
            todo.setdefault(self._unit_of[blob.sha256], {})[blob.sha256] = blob
        lacks = {sha for some in todo.values() for sha in some}
        self._have.setdefault(host, set()).update({b.sha256 for b in blobs} - lacks)

    def gives(self, host: str) -> None:
        """From now on others can ask it for what it has."""
        self._givers.add(host)

    def is_mute(self, host: str) -> None:
        self._mute.add(host)
        self._givers.discard(host)

    def leave(self, host: str, *, gone: bool = False) -> None:
        """It gets nothing more; `gone`: and gives nothing."""
        self._awaited.discard(host)
        self._todo.pop(host, None)
        turn = self._now.pop(host, None)
        if turn and turn.first:
            self._begun.discard(turn.unit)
        if gone:
            self.is_mute(host)

    def wanted_by_others(self, host: str) -> bool:
        """Will anybody ask this host?"""
        return host not in self._mute and bool(self._awaited - {host})

    # -- turns --

    def blobs(self, turn: Turn) -> list[Blob]:
        return list(self._todo[turn.host][turn.unit].values())

    def lacks(self, host: str) -> bool:
        return bool(self._todo.get(host))

    def next(self, host: str, is_here: Callable[[Blob], bool]) -> Turn | None:
        """Begin the host's next turn. None: it has to wait. `is_here`: on this machine."""
        turn = self._sent(host, is_here) or self._given(host)
        if turn:
            self._now[host] = turn
        if turn and turn.first:
            self._begun.add(turn.unit)
        return turn

    def done(self, turn: Turn) -> None:
        self._now.pop(turn.host, None)
        self._have[turn.host].update(self._todo[turn.host].pop(turn.unit))
        self._passed |= bool(turn.giver)

    def failed(self, turn: Turn) -> None:
        """The giver did not give it. The host does not ask it again, and has another turn."""
        self._now.pop(turn.host, None)
        self._failed.add((turn.host, turn.giver))
        if sum(giver == turn.giver for _, giver in self._failed) >= GONE:
            self.is_mute(turn.giver)

    def _sent(self, host: str, is_here: Callable[[Blob], bool]) -> Turn | None:
        """What it gets from no other host. What none has yet is sent one after the other, so that
        the others soon have something to give."""
        busy = any(turn.first for turn in self._now.values())
        apart = host in self._mute or self._gets_nothing(host)
        for unit, blobs in self._todo[host].items():
            first = not apart and unit not in self._begun
            if (first and busy) or self._will_be_given(host, unit):
                continue
            if all(map(is_here, blobs.values())):
                return Turn(host, unit, first=first)
        return None

    def _given(self, host: str) -> Turn | None:
        busy = {turn.giver for turn in self._now.values()}
        for unit in self._todo[host]:
            for giver in sorted(self._givers - busy):
                if self._may_ask(host, giver) and self._can_give(giver, host, unit):
                    return Turn(host, unit, giver)
        return None

    def _will_be_given(self, host: str, unit: Unit) -> bool:
        """Can it ask another host for it, now or soon?"""
        getting = {turn.host for turn in self._now.values() if turn.unit == unit} - self._mute
        return any(
            self._may_ask(host, giver) and self._can_give(giver, host, unit, soon=giver in getting)
            for giver in getting | self._givers
        )

    def _can_give(self, giver: str, host: str, unit: Unit, *, soon: bool = False) -> bool:
        """Has the giver what the host lacks of the unit? `soon`: after its turn."""
        lacks, has = self._todo[host][unit].keys(), self._have[giver]
        return lacks <= has or (soon and lacks <= has | self._todo[giver][unit].keys())

    def _may_ask(self, host: str, giver: str) -> bool:
        return giver != host and (host, giver) not in self._failed and not self._gets_nothing(host)

    def _gets_nothing(self, host: str) -> bool:
        """It gets nothing from the others, or no host does."""
        hosts, givers = {h for h, _ in self._failed}, {g for _, g in self._failed}
        if not self._passed and len(hosts) > 1 and len(givers) > 1:
            return True
        return sum(h == host for h, _ in self._failed) >= ALONE

    def _cut(self, blobs: Sequence[Blob]) -> None:
        most, left = max(UNIT, sum(b.size for b in blobs) // UNITS), -1
        for blob in blobs:
            if blob.sha256 in self._unit_of:
                continue
            if blob.size > left:
                self._units, left = self._units + 1, most
            left -= blob.size
            self._unit_of[blob.sha256] = self._units
