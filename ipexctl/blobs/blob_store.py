"""Blobs: files by their sha256. The controller's own folder of them, and sending them to a host.

`missing_blobs` returns what a host lacks, `send` sends it. A Carrier (blob_relay.py) also lets
hosts pass on files.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from ipexctl.base.blob import Blob
from ipexctl.base.host_answer import Answer
from ipexctl.common.blob_answers import (
    BlobsAwaited,
    BlobsMissing,
    BytesArrived,
    TransferEvent,
)
from ipexctl.common.files import hash_of
from ipexctl.errors import InputError, NotHere, reason_of
from ipexctl.local.user_dirs import cache_dir, make_private
from ipexctl.machines.agent import Agent
from ipexctl.machines.wire.frames import Frame
from ipexctl.quick_dataclass import dataclass

CHUNK = 1 << 20
WINDOW = 8  # chunks in transit; below the agent's inbox, so its reader never waits for the disk
SILENCE = 120.0
AT_ONCE = 50_000  # blobs of one request, so that its answers have small headers

OnBytes = Callable[[int], None]
Source = Callable[[Blob, int, int], bytes]  # bytes of a blob: from this offset on, this many


@dataclass(frozen=True)
class Room:
    """The disk space and inodes that a host needs after the blobs have arrived."""

    bytes: int = 0
    files: int = 0


def missing_blobs(agent: Agent, root: str, blobs: Sequence[Blob]) -> tuple[Blob, ...]:
    """Return the blobs that the host does not have, each once."""
    lacking: list[Blob] = []
    for batch in _batches(list({blob.sha256: blob for blob in blobs}.values())):
        request = {"root": root, "blobs": [[blob.sha256, blob.size] for blob in batch]}
        answer = agent.call("blobs.blobs.have", request, timeout=SILENCE).done
        by_hash, missing = {blob.sha256: blob for blob in batch}, answer.read(BlobsMissing).missing
        if not by_hash.keys() >= {*missing}:
            raise answer.invalid_reply("it lacks files that were not requested")
        lacking += [by_hash[sha] for sha in dict.fromkeys(missing)]
    return tuple(lacking)


def send_blobs(
    agent: Agent, root: str, blobs: Sequence[Blob], source: Source, on_bytes: OnBytes, room: Room
) -> int:
    """Put every blob under `root` on the agent's host, which is known to lack them.

    `on_bytes` gets the number of all bytes that the host has, sent or not. A large blob that was
    interrupted is resumed. Returns the bytes that were sent. Raises HostFailed (no space, damaged
    on the way, not writable) or Unreachable.
    """
    size, unsent, files = 0, sum(blob.size for blob in blobs), len(blobs)
    for batch in _batches(blobs):
        unsent, files = unsent - sum(blob.size for blob in batch), files - len(batch)
        reserve = Room(room.bytes + unsent, room.files + files)
        size += _send_batch(agent, root, batch, source, on_bytes, reserve)
    return size


def need_room(agent: Agent, root: str, room: Room) -> None:
    """Raise HostFailed if the host's disk has less space."""
    request = {"root": root, "blobs": [], "room": [room.bytes, room.files]}
    agent.call("blobs.blobs.put", request, timeout=SILENCE)


def _batches(blobs: Sequence[Blob]) -> Iterator[Sequence[Blob]]:
    for start in range(0, len(blobs), AT_ONCE):
        yield blobs[start : start + AT_ONCE]


def _send_batch(
    agent: Agent, root: str, blobs: Sequence[Blob], source: Source, on_bytes: OnBytes, room: Room
) -> int:
    """Send blobs in chunks, with at most WINDOW of them unanswered. Returns the bytes sent."""
    pairs = [[blob.sha256, blob.size] for blob in blobs]
    request = {"root": root, "blobs": pairs, "room": [room.bytes, room.files]}
    number = agent.start("blobs.blobs.put", request)
    events = _transfer_events(agent, number, sum(blob.size for blob in blobs))
    begins = _first_missing_bytes(agent, blobs, next(events, None))
    remaining = sum(blob.size - begin for blob, begin in begins.items())
    on_bytes(sum(blob.size for blob in blobs) - remaining)
    try:
        for sent_chunks, chunk in enumerate(_read_chunks(begins, source)):
            if sent_chunks >= WINDOW:
                on_bytes(bytes_of(agent, next(events, None), CHUNK))
            agent.feed(number, {}, chunk)
            on_bytes(0)  # on a slow line this took long, and answers come later
    except InputError:
        agent.feed(number, {"abort": True})
        raise
    for event in events:
        on_bytes(bytes_of(agent, event, CHUNK))
    return remaining


def _first_missing_bytes(
    agent: Agent, blobs: Sequence[Blob], event: TransferEvent | None
) -> dict[Blob, int]:
    """Return which of the blobs the host waits for, and from which byte on."""
    if isinstance(event, BlobsAwaited):
        offsets = event.begins
        begins = {blob: offsets[blob.sha256] for blob in blobs if blob.sha256 in offsets}
        if all(begin <= blob.size for blob, begin in begins.items()):
            return begins
    raise Answer(agent.host.name, {}).invalid_reply("from where its files go on")


def bytes_of(agent: Agent, event: TransferEvent | None, most: int, *, least: int = 0) -> int:
    """Return how many bytes have arrived on the host."""
    if isinstance(event, BytesArrived) and least <= event.bytes <= most:
        return event.bytes
    raise Answer(agent.host.name, {}).invalid_reply("how many bytes have arrived")


def _transfer_events(agent: Agent, number: int, size: int) -> Iterator[TransferEvent]:
    """Yield first which blobs to send, then each chunk the host has taken; ends when it has all."""
    for frame in agent.answers(number, SILENCE, size):
        if event := read_transfer_event(agent, frame):
            yield event


def read_transfer_event(agent: Agent, frame: Frame) -> TransferEvent | None:
    """Return what the host reports of the blobs; None for another event, such as a sign of life."""
    is_one = TransferEvent.kind_of(frame.header) is not None
    return Answer(agent.host.name, frame.header).read(TransferEvent) if is_one else None


def _read_chunks(begins: Mapping[Blob, int], source: Source) -> Iterator[bytes]:
    for blob, begin in begins.items():
        for offset in range(begin, blob.size, CHUNK):
            size = min(CHUNK, blob.size - offset)
            try:
                chunk = source(blob, offset, size)
            except OSError as e:
                what = f"cannot read {e.filename or blob.name}"
                raise InputError(what, why=reason_of(e), slug="file-unreadable") from None
            if len(chunk) < size:
                what = f"{blob.name} became shorter while it was being sent"
                raise InputError(what, hint="run the same command again", slug="file-changed")
            yield chunk


def read_part(path: Path, offset: int, size: int) -> bytes:
    with path.open("rb", buffering=0) as file:
        file.seek(offset)
        return file.read(size)


class Store:
    """The controller's blobs: FOLDER/sha256/xx/<sha256>."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, blob: Blob) -> Path:
        return self.folder / place_of(blob.sha256)

    def read(self, blob: Blob, offset: int, size: int) -> bytes:
        return read_part(self.path(blob), offset, size)

    def has(self, blob: Blob) -> bool:
        try:
            return self.path(blob).stat().st_size == blob.size or not blob.size
        except OSError:
            return False

    def whole(self, blob: Blob) -> bool:
        """Decide if the blob has the right content; else it is removed, to be fetched again."""
        if not self.has(blob):
            return False
        try:
            with self.path(blob).open("rb") as file:
                if hash_of(file).hexdigest() == blob.sha256:
                    return True
            self.path(blob).unlink(missing_ok=True)
        except OSError as e:
            raise NotHere(
                f"cannot read {blob.name} in {self.folder}",
                why=reason_of(e),
                slug="cache-unreadable",
            ) from None
        return False

    def add(self, name: str, chunks: Iterable[bytes], *, sha256: str = "") -> Blob:
        """Store the bytes completely or not at all. With `sha256` they must have that hash."""
        parts = self.folder / "parts"
        try:
            make_private(parts)
            fd, part = tempfile.mkstemp(dir=parts)
            try:
                return self._write_blob(name, fd, Path(part), chunks, sha256)
            finally:
                Path(part).unlink(missing_ok=True)
        except OSError as e:
            raise NotHere(
                f"cannot save {name} to {self.folder}",
                why=reason_of(e),
                hint="free some space; or set XDG_CACHE_HOME=FOLDER   # on another disk",
                slug="cache-not-writable",
            ) from None

    def _write_blob(
        self, name: str, fd: int, part: Path, chunks: Iterable[bytes], sha256: str
    ) -> Blob:
        """Write the bytes to `part`, check their hash, and move the file to its place."""
        digest, size = hashlib.sha256(), 0
        with os.fdopen(fd, "wb") as file:
            for chunk in chunks:
                digest.update(chunk)
                size += len(chunk)
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        if sha256 and digest.hexdigest() != sha256:
            raise InputError(
                f"{name} does not match its hash in ipexctl.lock",
                why=f"sha256 {digest.hexdigest()} instead of {sha256}",
                hint="put the locked file back; or rm ipexctl.lock   # the next install resolves "
                "the versions again",
                slug="wheel-differs-from-lock",
            )
        blob = Blob(name, digest.hexdigest(), size)
        make_private(self.path(blob).parent)
        part.replace(self.path(blob))
        return blob


def place_of(sha256: str) -> str:
    """Return the path of a blob below the folder of a store."""
    return f"sha256/{sha256[:2]}/{sha256}"


def default_store(environ: Mapping[str, str] | None = None) -> Store:
    return Store(cache_dir(environ) / "blobs")
