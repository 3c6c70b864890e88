"""Send a folder to a host: missing files are sent as blobs, small ones together in packs."""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeVar, cast

from ipexctl.base.blob import Blob
from ipexctl.base.host_answer import Answer
from ipexctl.blobs.blob_store import Room, default_store, read_part, send_blobs
from ipexctl.common.folder_answers import CopyMade, FilesMissing, FolderAnswer, ListUnknown
from ipexctl.errors import InputError, IpexctlError, NotHere, reason_of
from ipexctl.local.user_dirs import make_private
from ipexctl.machines.agent import LONG, Agent
from ipexctl.project.files.project_files import PACKED, ProjectFile, Tree
from ipexctl.quick_dataclass import dataclass

MODULE = "project.synced_folders"
PACK = 16 << 20  # bytes of files in one pack
KEPT = 64 << 20  # bytes of packs in memory; with more, all of them go to a temporary file
SILENCE = 300.0

Pair = tuple[str, int]  # sha256, size
_Made = TypeVar("_Made", bound=FolderAnswer)


class Contents(Protocol):
    def path(self, sha256: str) -> Path: ...

    def content(self, file: ProjectFile) -> bytes: ...


@dataclass(frozen=True)
class Pack:
    """The contents of small files, concatenated into one blob."""

    blob: Blob
    compressed: bool
    files: tuple[Pair, ...]

    @property
    def size(self) -> int:
        return self.blob.size

    @property
    def row(self) -> list[object]:
        """The row that remote/blobs/packs.py reads."""
        return [self.blob.sha256, self.blob.size, self.compressed, self.files]


@dataclass
class TreeContents:
    """A tree and its bytes, for many hosts: what several of them lack is packed once."""

    tree: Tree
    contents: Contents
    _packs: dict[tuple[int, ...], tuple[Pack, ...]] = field(default_factory=dict)
    _places: dict[str, tuple[Path | None, int]] = field(default_factory=dict)  # None: in _scratch
    _scratch: BinaryIO | None = None
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def blobs(self, missing: Sequence[int]) -> tuple[tuple[Blob, ...], tuple[Pack, ...]]:
        """Return the large files and the packs of small ones, each content once."""
        files = self.tree.files
        one_of_each = {files[i].sha256: i for i in missing}.values()
        large = [files[i] for i in one_of_each if files[i].size > PACKED]
        small = tuple(i for i in one_of_each if files[i].size <= PACKED)
        with self._lock:
            if small not in self._packs:
                self._packs[small] = tuple(self._make_packs(small))
            return tuple(map(self._place_large, large)), self._packs[small]

    def read(self, blob: Blob, offset: int, size: int) -> bytes:
        """Return a part of a blob, from the present content of its file."""
        path, begin = self._places[blob.sha256]
        if path is not None:
            return read_part(path, begin + offset, size)
        with self._lock:
            assert self._scratch is not None
            self._scratch.seek(begin + offset)
            return self._scratch.read(size)

    def _place_large(self, file: ProjectFile) -> Blob:
        self._places[file.sha256] = self.contents.path(file.sha256), 0
        return Blob(file.path, file.sha256, file.size)

    def _make_packs(self, indices: Sequence[int]) -> Iterator[Pack]:
        """Read small files and yield them in packs of about PACK bytes."""
        datas: list[bytes] = []
        files: list[Pair] = []
        size = 0
        for i in indices:
            file = self.tree.files[i]
            try:
                datas.append(self.contents.content(file))
            except OSError as e:
                raise InputError(
                    f"cannot read {file.path}", why=reason_of(e), slug="file-unreadable"
                ) from None
            files.append((file.sha256, file.size))
            size += file.size
            if size >= PACK or i == indices[-1]:
                yield self._make_pack(b"".join(datas), tuple(files))
                datas, files, size = [], [], 0

    def _make_pack(self, data: bytes, files: tuple[Pair, ...]) -> Pack:
        """Make a pack, compressed if that helps: sources shrink, compressed data does not."""
        helps = len(zlib.compress(data[:65536], 1)) <= 0.9 * len(data[:65536])
        body = zlib.compress(data, 1) if helps else data
        blob = Blob(f"{len(files)} files", hashlib.sha256(body).hexdigest(), len(body))
        try:
            if self._scratch is None:
                self._scratch = _temporary_file()
            self._scratch.seek(0, 2)
            self._places[blob.sha256] = None, self._scratch.tell()
            self._scratch.write(body)
        except OSError as e:
            raise NotHere(
                "cannot write a temporary file for what is sent",
                why=reason_of(e),
                hint="free some space; or set XDG_CACHE_HOME=FOLDER   # on another disk",
                slug="cannot-write-temporary",
            ) from None
        return Pack(blob, helps, files)


def _temporary_file() -> BinaryIO:
    """Return a file for packs: in memory, above KEPT bytes an unnamed file in the cache."""
    folder = None
    with suppress(OSError, RuntimeError):
        make_private(default_store().folder)
        folder = os.fspath(default_store().folder)
    return cast("BinaryIO", tempfile.SpooledTemporaryFile(KEPT, dir=folder))  # noqa: SIM115


@dataclass(frozen=True)
class SentFolder:
    """`done`: the host's answer. `sent`: bytes of files that it lacked."""

    done: CopyMade
    sent: int = 0


def send_folder(agent: Agent, bundle: TreeContents, request: Mapping[str, Any]) -> SentFolder:
    """Have the host create the tree as `request` says; files that it has are not sent.

    Raises HostFailed, Unreachable, or InputError when a file changes meanwhile.
    """
    header = {**request, "key": bundle.tree.key}
    with dropped_on_error(agent, MODULE, header):
        answer, missing = ask_missing(agent, bundle, header, MODULE)
        if not missing:
            return SentFolder(checked_kind(agent, answer, CopyMade))
        return send_rest(agent, bundle, header, missing)


def send_rest(
    agent: Agent, bundle: TreeContents, header: Mapping[str, Any], missing: Sequence[int]
) -> SentFolder:
    """Finish `send_folder` after the host has reported which files it lacks."""
    large, packs = bundle.blobs(missing)
    small = sum(size for pack in packs for _, size in pack.files)
    blobs = [*large, *(pack.blob for pack in packs)]
    room = Room(bundle.tree.bytes + small, len(bundle.tree.files))
    sent = send_blobs(agent, header["root"], blobs, bundle.read, lambda size: None, room)
    with_packs = {**header, "came": [pack.row for pack in packs]}
    answer = ask_complete(agent, bundle, with_packs, MODULE, CopyMade)
    return SentFolder(answer, sent - sum(pack.size for pack in packs) + small)


@contextmanager
def dropped_on_error(agent: Agent, module: str, header: Mapping[str, Any]) -> Iterator[None]:
    """Tell the host to stop waiting if an error occurs: one with the same home may take over."""
    try:
        yield
    except BaseException:
        with suppress(IpexctlError):
            agent.start(f"{module}.drop", header)
        raise


def ask_missing(
    agent: Agent, bundle: TreeContents, header: Mapping[str, Any], module: str
) -> tuple[FolderAnswer, Sequence[int]]:
    """Have the host begin or continue with the tree. Returns its answer and the indices of the
    files that it lacks."""
    tree, op = bundle.tree, f"{module}.make"
    done = agent.call(op, header, timeout=SILENCE, total=LONG).done
    if isinstance(answer := done.read(FolderAnswer), ListUnknown):
        number = agent.start(op, header, zlib.compress(tree.manifest, 1))
        done = agent.wait(number, timeout=SILENCE, total=LONG).done
        answer = done.read(FolderAnswer)
    if not isinstance(answer, FilesMissing):
        return answer, ()
    if missing := _set_bits(answer.bits, len(tree.files)):
        return answer, missing
    raise done.invalid_reply("which files it lacks")


def ask_complete(
    agent: Agent, bundle: TreeContents, header: Mapping[str, Any], module: str, kind: type[_Made]
) -> _Made:
    """Have the host complete the tree after everything that it lacked was sent."""
    answer, _ = ask_missing(agent, bundle, header, module)
    return checked_kind(agent, answer, kind)


def checked_kind(agent: Agent, answer: FolderAnswer, kind: type[_Made]) -> _Made:
    """Return the answer if it says that the folder is there."""
    if isinstance(answer, kind):
        return answer
    if isinstance(answer, FilesMissing):
        why = "it lacks files that were sent"
    else:
        why = f"{type(answer).__name__} instead of {kind.__name__}"
    raise Answer(agent.host.name, {}).invalid_reply(why)


def _set_bits(text: str, count: int) -> tuple[int, ...]:
    """Return the indices of the set bits; () unless there are `count` bits."""
    try:
        bits = bytes.fromhex(text)
    except ValueError:
        return ()
    if len(bits) != (count + 7) // 8:
        return ()
    indices = tuple(i for i in range(8 * len(bits)) if bits[i // 8] >> i % 8 & 1)
    return indices if indices and indices[-1] < count else ()
