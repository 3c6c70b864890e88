"""Bringing a data set to hosts: what they lack is cut into blobs, which take any way between hosts.

A large file is one blob. Small files travel many in one blob, a pack. Rounds limit the room that
packs take besides the files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ipexctl.base.blob import Blob
from ipexctl.base.host_answer import Answer
from ipexctl.blobs.blob_carriers import Carrier, Moved, Tell
from ipexctl.blobs.blob_store import Room, missing_blobs, need_room
from ipexctl.machines.agent import LONG, Agent
from ipexctl.project.folder_transfer import (
    SILENCE,
    Bundle,
    Pack,
    ask_complete,
    ask_missing,
    dropped_on_error,
)
from ipexctl.quick_dataclass import dataclass

MODULE = "data.datasets"
ROUND = 512 << 20  # bytes of packs that a host has besides the files
NAMED = 100_000  # contents that are named in one request


@dataclass(frozen=True)
class Round:
    """What one host gets in one round."""

    whole: tuple[Blob, ...] = ()
    packs: tuple[Pack, ...] = ()

    @property
    def blobs(self) -> tuple[Blob, ...]:
        return (*self.whole, *(p.blob for p in self.packs))


@dataclass(frozen=True)
class Begun:
    """How far a host is. `done`: it has everything. `busy`: another push to it is running."""

    done: Answer | None = None
    busy: bool = False
    missing: tuple[int, ...] = ()


@dataclass
class Transfer:
    """One data set, to all its hosts."""

    bundle: Bundle
    asked: Mapping[str, Any]

    def begin(self, agent: Agent, root: str, *, wait: bool = False) -> Begun:
        header = self._header(root, wait=wait)
        with dropped_on_error(agent, MODULE, header):
            done, missing = ask_missing(agent, self.bundle, header, MODULE)
        if done.get("busy") is True:
            return Begun(busy=True)
        if not missing:
            return Begun(done)
        return Begun(missing=tuple(missing))

    def rounds(self, agent: Agent, root: str, begun: Begun) -> tuple[Round, ...]:
        """What the host has to get, in order; packed once for all hosts that lack it."""
        with dropped_on_error(agent, MODULE, self._header(root)):
            large, packs = self.bundle.blobs(begun.missing)
            return tuple(_rounds(large, packs))

    def bring(self, carrier: Carrier, agent: Agent, root: str, one: Round, tell: Tell) -> Moved:
        """The blobs of the round are on the host afterwards."""
        blobs = one.blobs
        with dropped_on_error(agent, MODULE, self._header(root)):
            missing = missing_blobs(agent, root, blobs)
            need_room(agent, root, Room(sum(b.size for b in missing), len(missing)))
            return carrier.bring(agent, root, blobs, tell)

    def take(self, agent: Agent, root: str, one: Round) -> None:
        """The blobs of the round are on the host: files of packs get their places."""
        if not one.packs:
            return
        header = {**self._header(root), "packs": [p.row for p in one.packs]}
        with dropped_on_error(agent, MODULE, header):
            agent.call(f"{MODULE}.take", header, timeout=SILENCE, total=LONG)

    def finish(self, agent: Agent, root: str) -> Answer:
        header = self._header(root)
        with dropped_on_error(agent, MODULE, header):
            return ask_complete(agent, self.bundle, header, MODULE)

    def bring_alone(
        self, carrier: Carrier, agent: Agent, root: str, tell: Tell
    ) -> tuple[Answer, Moved]:
        """Send everything to one host, once no other push to it is running."""
        begun, moved = self.begin(agent, root, wait=True), Moved()
        if begun.done:
            return begun.done, moved
        for one in self.rounds(agent, root, begun):
            moved += self.bring(carrier, agent, root, one, tell)
            self.take(agent, root, one)
        return self.finish(agent, root), moved

    def _header(self, root: str, *, wait: bool = True) -> dict[str, Any]:
        return {**self.asked, "root": root, "key": self.bundle.tree.key, "wait": wait}


def _rounds(large: Sequence[Blob], packs: Sequence[Pack]) -> Iterator[Round]:
    """Large files take no room besides their place: they are in the first one."""
    now, size, named = Round(tuple(large)), 0, 0
    for pack in packs:
        if size and (size + pack.size > ROUND or named + len(pack.files) > NAMED):
            yield now
            now, size, named = Round(), 0, 0
        now = Round(now.whole, (*now.packs, pack))
        size, named = size + pack.size, named + len(pack.files)
    yield now
