"""Bringing a data set to hosts: what they lack is cut into blobs, which take any way between hosts.

A large file is one blob. Where the host has an earlier version of it, only the chunks that it lacks
travel. Small files travel many in one blob, a pack. Rounds limit the room that packs and chunks
take besides the files.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from ipexctl.base.blob import Blob
from ipexctl.base.host_answer import Answer
from ipexctl.blobs.blob_carriers import Carrier, Moved, Tell
from ipexctl.blobs.blob_store import Room, missing_blobs, need_room
from ipexctl.errors import InputError, reason_of
from ipexctl.machines.agent import LONG, Agent
from ipexctl.project.folder_transfer import (
    SILENCE,
    Bundle,
    Pack,
    Pair,
    ask_complete,
    ask_missing,
    dropped_on_error,
)
from ipexctl.quick_dataclass import dataclass
from ipexctl.remote.data import content_chunks

MODULE = "data.datasets"
CUT, LARGEST = 4 << 20, 16 << 30  # bytes of a file that is compared by chunks
WORTH = 0.75  # of a file: if the host lacks more, all of it travels
ROUND = 512 << 20  # bytes of packs and chunks that a host has besides the files
PAIRS = 100_000  # contents that are named in one request


@dataclass(frozen=True)
class Joined:
    """A file of chunks; `lacking` are those that travel."""

    file: Pair
    chunks: tuple[Pair, ...]
    lacking: tuple[Blob, ...]

    @property
    def size(self) -> int:
        return sum(b.size for b in self.lacking)


@dataclass(frozen=True)
class Round:
    """What one host gets in one round."""

    whole: tuple[Blob, ...] = ()
    packs: tuple[Pack, ...] = ()
    joined: tuple[Joined, ...] = ()

    @property
    def blobs(self) -> tuple[Blob, ...]:
        chunks = (b for one in self.joined for b in one.lacking)
        return (*self.whole, *(p.blob for p in self.packs), *chunks)


@dataclass(frozen=True)
class Begun:
    """How far a host is. `done`: it has everything. `busy`: another push to it is running."""

    done: Answer | None = None
    busy: bool = False
    missing: tuple[int, ...] = ()
    earlier: bool = False


@dataclass
class Transfer:
    """One data set, to all its hosts."""

    bundle: Bundle
    asked: Mapping[str, Any]
    _chunks: dict[str, tuple[Pair, ...]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, agent: Agent, root: str, *, wait: bool = False) -> Begun:
        header = self._header(root, wait=wait)
        with dropped_on_error(agent, MODULE, header):
            done, missing = ask_missing(agent, self.bundle, header, MODULE)
        if done.get("busy") is True:
            return Begun(busy=True)
        if not missing:
            return Begun(done)
        return Begun(missing=tuple(missing), earlier=done.get("earlier") is True)

    def rounds(self, agent: Agent, root: str, begun: Begun) -> tuple[Round, ...]:
        """What the host has to get, in order; cut and packed once for all hosts that lack it."""
        with dropped_on_error(agent, MODULE, self._header(root)):
            large, packs = self.bundle.blobs(begun.missing)
            whole: list[Blob] = []
            joined: list[Joined] = []
            for blob in large:
                one = self._joined(agent, root, blob) if begun.earlier else None
                if one:
                    joined.append(one)
                else:
                    whole.append(blob)
            return tuple(_rounds(whole, packs, joined))

    def bring(self, carrier: Carrier, agent: Agent, root: str, one: Round, tell: Tell) -> Moved:
        """The blobs of the round are on the host afterwards."""
        blobs = one.blobs
        with dropped_on_error(agent, MODULE, self._header(root)):
            missing = missing_blobs(agent, root, blobs)
            need_room(agent, root, Room(sum(b.size for b in missing), len(missing)))
            return carrier.bring(agent, root, blobs, tell)

    def take(self, agent: Agent, root: str, one: Round) -> None:
        """The blobs of the round are on the host: files of packs and chunks get their places."""
        if not one.packs and not one.joined:
            return
        joined = [[*j.file, j.chunks] for j in one.joined]
        header = {**self._header(root), "packs": [p.row for p in one.packs], "joined": joined}
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

    def _joined(self, agent: Agent, root: str, file: Blob) -> Joined | None:
        """None: all of it has to travel."""
        if not CUT <= file.size <= LARGEST or file.sha256 in self.bundle.elsewhere:
            return None
        chunks = self._cut(file)
        lacking: list[int] = []
        for at in range(0, len(chunks), PAIRS):
            some = chunks[at : at + PAIRS]
            asked = {**self._header(root), "chunks": some}
            done = agent.call(f"{MODULE}.compare", asked, timeout=SILENCE, total=LONG).done
            said = done["missing"]
            if not isinstance(said, list) or not all(_is_index(i, len(some)) for i in said):
                raise done.odd("which chunks it lacks")
            lacking += [at + i for i in said]
        if sum(chunks[i][1] for i in lacking) > WORTH * file.size:
            return None
        wanted = {chunks[i][0] for i in lacking}
        return Joined((file.sha256, file.size), chunks, self._blobs_of(file, chunks, wanted))

    def _blobs_of(
        self, file: Blob, chunks: Sequence[Pair], wanted: Collection[str]
    ) -> tuple[Blob, ...]:
        blobs, offset = {}, 0
        for sha, size in chunks:
            if sha in wanted:
                blobs[sha] = Blob(file.name, sha, size)
                self.bundle.add_part(blobs[sha], file.sha256, offset)
            offset += size
        return tuple(blobs.values())

    def _cut(self, file: Blob) -> tuple[Pair, ...]:
        with self._lock:
            if file.sha256 not in self._chunks:
                digest, found = hashlib.sha256(), []
                for data in self._read(file):
                    digest.update(data)
                    found.append((hashlib.sha256(data).hexdigest(), len(data)))
                if digest.hexdigest() != file.sha256:
                    what = f"{file.name} changed while it was being read"
                    raise InputError(what, hint="run it again", slug="file-changed")
                self._chunks[file.sha256] = tuple(found)
            return self._chunks[file.sha256]

    def _read(self, file: Blob) -> Iterator[bytes]:
        try:
            with self.bundle.contents.path(file.sha256).open("rb") as opened:
                left = file.size  # a file that grows counts as it was when it was listed
                for data in content_chunks.chunks(opened):
                    yield data[:left]
                    left -= len(data)
                    if left <= 0:
                        return
        except OSError as e:
            raise InputError(
                f"cannot read {file.name}", why=reason_of(e), slug="file-unreadable"
            ) from None


def _rounds(
    whole: Sequence[Blob], packs: Sequence[Pack], joined: Sequence[Joined]
) -> Iterator[Round]:
    """Whole files take no room besides their place: they are in the first one."""
    now, size, pairs = Round(tuple(whole)), 0, 0
    parts: list[Pack | Joined] = [*packs, *joined]
    for one in parts:
        names = len(one.files if isinstance(one, Pack) else one.chunks)
        if size and (size + one.size > ROUND or pairs + names > PAIRS):
            yield now
            now, size, pairs = Round(), 0, 0
        if isinstance(one, Pack):
            now = Round(now.whole, (*now.packs, one), now.joined)
        else:
            now = Round(now.whole, now.packs, (*now.joined, one))
        size, pairs = size + one.size, pairs + names
    yield now


def _is_index(value: object, count: int) -> bool:
    return type(value) is int and 0 <= value < count
