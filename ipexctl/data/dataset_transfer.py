"""Bringing a data set to hosts: what they lack is cut into blobs, which take any way between hosts.

A large file is one blob. Where the host has an earlier version of it, only the chunks that it lacks
travel. Small files travel many in one blob, a pack. Rounds limit the room that packs and chunks
take besides the files.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field
from typing import Any

from ipexctl.base.blob import Blob
from ipexctl.base.host_answer import Answer
from ipexctl.blobs.blob_store import Store
from ipexctl.data.rules import chunk_cutting
from ipexctl.errors import InputError, IpexctlError, reason_of
from ipexctl.machines.agent import LONG, Agent
from ipexctl.project.files.project_files import File
from ipexctl.project.folder_transfer import (
    SILENCE,
    Bundle,
    ask_missing,
    compressed,
    split_missing,
)
from ipexctl.quick_dataclass import dataclass

MODULE = "data.datasets"
CUT, LARGEST = 4 << 20, 16 << 30  # bytes of a file that is compared by chunks
WORTH = 0.75  # of a file: if the host lacks more, all of it travels
PACK = 16 << 20  # bytes of small files in one pack
ROUND = 512 << 20  # bytes of packs and chunks that a host has besides the files
PAIRS = 100_000  # contents that are named in one request

Pair = tuple[str, int]  # sha256, size


@dataclass(frozen=True)
class Pack:
    blob: Blob
    packed: bool
    files: tuple[Pair, ...]

    @property
    def size(self) -> int:
        return self.blob.size


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
    """One data set, to all its hosts. `scratch`: for packs and chunks, here."""

    bundle: Bundle
    asked: Mapping[str, Any]
    scratch: Store
    _files: dict[str, File] = field(default_factory=dict)
    _chunks: dict[str, tuple[Pair, ...]] = field(default_factory=dict)
    _packs: dict[tuple[int, ...], tuple[Pack, ...]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._files = {f.sha256: f for f in self.bundle.tree.files}

    def source(self, blob: Blob) -> Any:
        """The file with its bytes, here."""
        if blob.sha256 in self._files:
            return self.bundle.contents.path(blob.sha256)
        return self.scratch.path(blob)

    def begin(self, agent: Agent, root: str) -> Begun:
        with self._dropped(agent, root):
            done, missing = ask_missing(agent, self.bundle, self._header(root, wait=False), MODULE)
        if done.get("busy") is True:
            return Begun(busy=True)
        if not missing:
            return Begun(done)
        return Begun(missing=tuple(missing), earlier=done.get("earlier") is True)

    def rounds(self, agent: Agent, root: str, begun: Begun) -> tuple[Round, ...]:
        """What the host has to get, in order; cut and packed once for all hosts that lack it."""
        tree = self.bundle.tree
        with self._dropped(agent, root):
            large, small = split_missing(tree, begun.missing)
            whole: list[Blob] = []
            joined: list[Joined] = []
            for file in (tree.files[i] for i in large):
                one = self._joined(agent, root, file) if begun.earlier else None
                if one:
                    joined.append(one)
                else:
                    whole.append(Blob(file.path, file.sha256, file.size))
            return tuple(_rounds(whole, self._packed(small), joined))

    def take(self, agent: Agent, root: str, one: Round) -> None:
        """The blobs of the round are on the host: files of packs and chunks get their places."""
        if not one.packs and not one.joined:
            return
        packs = [[p.blob.sha256, p.blob.size, p.packed, p.files] for p in one.packs]
        joined = [[*j.file, j.chunks] for j in one.joined]
        with self._dropped(agent, root):
            header = {**self._header(root), "packs": packs, "joined": joined}
            agent.call(f"{MODULE}.take", header, timeout=SILENCE, total=LONG)

    def finish(self, agent: Agent, root: str) -> Answer:
        with self._dropped(agent, root):
            header = {**self._header(root), "files": []}
            return agent.call(f"{MODULE}.fill", header, timeout=SILENCE, total=LONG).done

    @contextmanager
    def _dropped(self, agent: Agent, root: str) -> Iterator[None]:
        """A host that fails does not keep a host with the same home waiting."""
        try:
            yield
        except BaseException:
            self.drop(agent, root)
            raise

    def drop(self, agent: Agent, root: str) -> None:
        with suppress(IpexctlError):
            agent.start(f"{MODULE}.drop", self._header(root))

    def _header(self, root: str, *, wait: bool = True) -> dict[str, Any]:
        return {**self.asked, "root": root, "key": self.bundle.tree.key, "wait": wait}

    def _joined(self, agent: Agent, root: str, file: File) -> Joined | None:
        """None: all of it has to travel."""
        if not CUT <= file.size <= LARGEST:
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
        blobs = self._stored(file, chunks, frozenset(chunks[i][0] for i in lacking))
        return Joined((file.sha256, file.size), chunks, blobs)

    def _cut(self, file: File) -> tuple[Pair, ...]:
        with self._lock:
            if file.sha256 not in self._chunks:
                digest, found = hashlib.sha256(), []
                for data in self._read(file):
                    digest.update(data)
                    found.append((hashlib.sha256(data).hexdigest(), len(data)))
                if digest.hexdigest() != file.sha256:
                    raise _changed(file)
                self._chunks[file.sha256] = tuple(found)
            return self._chunks[file.sha256]

    def _stored(
        self, file: File, chunks: Sequence[Pair], wanted: frozenset[str]
    ) -> tuple[Blob, ...]:
        """Chunks as files here, to be sent."""
        blobs = {sha: Blob(file.path, sha, size) for sha, size in chunks if sha in wanted}
        with self._lock:
            if not all(self.scratch.has(b) for b in blobs.values()):
                for (sha, _), data in zip(chunks, self._read(file), strict=False):
                    if sha in blobs and not self.scratch.has(blobs[sha]):
                        self.scratch.add(file.path, [data], sha256=sha)
        return tuple(blobs.values())

    def _read(self, file: File) -> Iterator[bytes]:
        try:
            with self.bundle.contents.path(file.sha256).open("rb") as opened:
                left = file.size  # a file that grows counts as it was when it was listed
                for data in chunk_cutting.chunks(opened):
                    yield data[:left]
                    left -= len(data)
                    if left <= 0:
                        return
        except OSError as e:
            raise InputError(f"cannot read {file.path}", why=reason_of(e)) from None

    def _packed(self, indices: tuple[int, ...]) -> tuple[Pack, ...]:
        with self._lock:
            if indices not in self._packs:
                self._packs[indices] = tuple(self._make_packs(indices))
            return self._packs[indices]

    def _make_packs(self, indices: tuple[int, ...]) -> Iterator[Pack]:
        datas: list[bytes] = []
        files: list[Pair] = []
        size = 0
        for i in indices:
            file = self.bundle.tree.files[i]
            try:
                datas.append(self.bundle.contents.content(file))
            except OSError as e:
                raise InputError(f"cannot read {file.path}", why=reason_of(e)) from None
            files.append((file.sha256, file.size))
            size += file.size
            if size >= PACK or i == indices[-1]:
                packed, body = compressed(b"".join(datas))
                name = f"{len(files)} files of {self.asked['name']}"
                yield Pack(self.scratch.add(name, [body]), packed, tuple(files))
                datas, files, size = [], [], 0


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


def _changed(file: File) -> InputError:
    return InputError(f"{file.path} changed while it was being read", hint="run it again")
