"""Bringing a folder to a host: large files as blobs, small ones many in one frame."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import Any, Protocol

from ipexctl.base.blob import Blob
from ipexctl.base.host_answer import Answer
from ipexctl.blobs import blob_store
from ipexctl.errors import HostFailed, InputError, IpexctlError, reason_of
from ipexctl.machines.agent import LONG, Agent
from ipexctl.machines.wire.frames import Frame as Event
from ipexctl.project.files.project_files import PACKED, File, Tree
from ipexctl.quick_dataclass import dataclass

FRAME = 2 << 20  # bytes of files in one frame
WINDOW = 8  # frames on their way; below the agent's inbox, so its reader never waits for the disk
KEPT = 64 << 20  # bytes of files that are kept packed for the next host
SILENCE = 300.0

Frame = tuple[int, bool, bytes]  # files, compressed?, bytes


class Contents(Protocol):
    def path(self, sha256: str) -> Path: ...

    def content(self, file: File) -> bytes: ...


@dataclass
class Bundle:
    """A tree and its bytes, for many hosts: what several of them lack is packed once."""

    tree: Tree
    contents: Contents
    _packed: dict[tuple[int, ...], list[Frame]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def frames(self, indices: tuple[int, ...]) -> Iterable[Frame]:
        small = [self.tree.files[i] for i in indices]
        if sum(f.size for f in small) > KEPT:
            return _frames(small, self.contents.content)
        with self._lock:
            if indices not in self._packed:
                self._packed[indices] = list(_frames(small, self.contents.content))
            return self._packed[indices]


@dataclass(frozen=True)
class Brought:
    """`done`: the host's last word. `sent`: bytes of files that it did not have."""

    done: Answer
    sent: int = 0


def send_folder(
    agent: Agent,
    bundle: Bundle,
    asked: Mapping[str, Any],
    *,
    module: str = "project.synced_folders",
    on_bytes: blob_store.OnBytes = lambda size: None,
) -> Brought:
    """Has the host lay out the tree as `asked` says. What it has does not travel.

    `module` of remote/ says what becomes of it. `on_bytes` hears of every byte that is there now.
    Raises HostFailed, Unreachable, or InputError when a file changes meanwhile.
    """
    header = {**asked, "key": bundle.tree.key}
    try:
        return _bring(agent, bundle, header, module, on_bytes)
    except BaseException:
        with suppress(IpexctlError):  # a host with the same home may wait for what this one makes
            agent.start(f"{module}.drop", header)
        raise


def _bring(
    agent: Agent,
    bundle: Bundle,
    header: Mapping[str, Any],
    module: str,
    on_bytes: blob_store.OnBytes,
) -> Brought:
    done, missing = ask_missing(agent, bundle, header, module)
    if not missing:
        return Brought(done)
    return _completed(agent, bundle, header, module, on_bytes, missing)


def ask_missing(
    agent: Agent, bundle: Bundle, header: Mapping[str, Any], module: str
) -> tuple[Answer, Sequence[int]]:
    """Has the host begin with the tree. Its answer, and the indices of the files that it lacks."""
    tree = bundle.tree
    missing = _Missing(len(tree.files))
    done = agent.call(
        f"{module}.make", header, timeout=SILENCE, total=LONG, on_event=missing.hear
    ).done
    if done.get("lacks"):
        number = agent.start(f"{module}.make", header, zlib.compress(tree.manifest, 1))
        done = agent.wait(number, timeout=SILENCE, total=LONG, on_event=missing.hear).done
    if "missing" not in done:
        return done, ()
    if missing.odd or not missing.found or len(missing.found) != done["missing"]:
        raise done.odd("which files it lacks")
    return done, missing.found


def _completed(
    agent: Agent,
    bundle: Bundle,
    header: Mapping[str, Any],
    module: str,
    on_bytes: blob_store.OnBytes,
    missing: Sequence[int],
) -> Brought:
    tree = bundle.tree
    large, small = split_missing(tree, missing)
    size = sum(tree.files[i].size for i in (*large, *small))
    on_bytes(tree.bytes - size)
    blobs = [Blob(f.path, f.sha256, f.size) for f in (tree.files[i] for i in large)]
    sent = blob_store.send_missing(
        agent, header["root"], blobs, lambda b: bundle.contents.path(b.sha256), on_bytes=on_bytes
    ).bytes
    done = _fill(agent, f"{module}.fill", header, bundle, small, on_bytes)
    return Brought(done, sent + sum(tree.files[i].size for i in small))


def make_spare(agent: Agent, bundle: Bundle, root: str, most: int) -> None:
    """Has the host make a copy for the next run, and does not wait for it."""
    asked = {"root": root, "key": bundle.tree.key, "most": most}
    agent.start("project.synced_folders.keep_spare", asked)


class _Missing:
    """The files of a tree that a host lacks, by index; it tells them in many frames."""

    def __init__(self, count: int) -> None:
        self._count = count
        self.found: list[int] = []
        self.odd = False

    def hear(self, event: Event) -> None:
        if event.header.get("event") != "missing":
            return
        said = event.header.get("files")
        indices: list[Any] = said if isinstance(said, list) else [None]
        if len(self.found) + len(indices) > self._count or not all(map(self._is_one, indices)):
            self.odd = True
        else:
            self.found += indices

    def _is_one(self, index: object) -> bool:
        return type(index) is int and 0 <= index < self._count


def split_missing(tree: Tree, missing: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Large files, which are blobs, and small ones, each content once."""
    large = _distinct(tree, [i for i in missing if tree.files[i].size > PACKED])
    return large, _distinct(tree, [i for i in missing if tree.files[i].size <= PACKED])


def _distinct(tree: Tree, indices: Sequence[int]) -> tuple[int, ...]:
    return tuple({tree.files[i].sha256: i for i in indices}.values())


def _fill(
    agent: Agent,
    op: str,
    header: Mapping[str, Any],
    bundle: Bundle,
    indices: tuple[int, ...],
    on_bytes: blob_store.OnBytes,
) -> Answer:
    files = [bundle.tree.files[i] for i in indices]
    frames = bundle.frames(indices)  # before the host is asked: it may fail here
    pairs = [[f.sha256, f.size] for f in files]
    number = agent.start(op, {**header, "files": pairs})
    answers = _answers(agent, number, sum(f.size for f in files))
    at = 0
    for on_its_way, (count, packed, body) in enumerate(frames):
        if on_its_way >= WINDOW:
            next(answers, None)
        agent.feed(number, {"files": count, "z": packed}, body)
        on_bytes(sum(f.size for f in files[at : at + count]))
        at += count
    for done in answers:
        if done is not None:
            return done
    raise HostFailed(f"{agent.host.name}: the agent ended before it had all files")


def _answers(agent: Agent, number: int, size: int) -> Iterator[Answer | None]:
    """None for each frame that the host has taken, then its last word."""
    for frame in agent.answers(number, SILENCE, size):
        if frame.header.get("event") == "got":
            yield None
        if "done" in frame.header:
            yield Answer(agent.host.name, frame.header["done"])


def _frames(files: Sequence[File], content: Callable[[File], bytes]) -> Iterator[Frame]:
    datas: list[bytes] = []
    size = 0
    for file in files:
        try:
            datas.append(content(file))
        except OSError as e:
            raise InputError(f"cannot read {file.path}", why=reason_of(e)) from None
        size += file.size
        if size >= FRAME:
            yield _frame(datas)
            datas, size = [], 0
    if datas:
        yield _frame(datas)


def _frame(datas: Sequence[bytes]) -> Frame:
    packed, body = compressed(b"".join(datas))
    return len(datas), packed, body


def compressed(whole: bytes) -> tuple[bool, bytes]:
    """Compressed where that helps: sources do, what is compressed already does not."""
    if len(zlib.compress(whole[:65536], 1)) > 0.9 * len(whole[:65536]):
        return False, whole
    return True, zlib.compress(whole, 1)
