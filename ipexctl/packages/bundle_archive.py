"""Bundles on the disk of this machine: written completely or not at all, hashed as they are read.

A bundle is a tar archive: first `ipexctl.lock`, then `blobs/SHA256` for each of its files. A name
in it is only ever looked up in the lock, never used as a path, and every file is hashed.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO

from ipexctl.base.blob import Blob
from ipexctl.blobs.blob_store import Store
from ipexctl.common.files import open_atomic
from ipexctl.errors import InputError, NotHere, reason_of

CHUNK = 1 << 20
LOCK_MEMBER = "ipexctl.lock"
LARGEST_LOCK = 4 << 20
OnBytes = Callable[[int], None]


class BadBundle(ValueError):
    """What is wrong with it."""


def write(path: Path, lock: bytes, blobs: Iterable[Blob], store: Store, on_bytes: OnBytes) -> None:
    """`path` has the bundle afterwards, or is what it was."""
    try:
        with (
            open_atomic(path, mode=0o644, sync=True) as out,
            tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive,
        ):
            _add(archive, LOCK_MEMBER, len(lock), io.BytesIO(lock))
            for blob in blobs:
                with store.path(blob).open("rb") as source:
                    _add(archive, _member(blob), blob.size, _Counted(source, on_bytes))
    except OSError as e:
        raise NotHere(
            f"cannot write the bundle {path}", why=reason_of(e), slug="bundle-not-written"
        ) from None


class _Counted:
    """A file that reports how much of it is read."""

    def __init__(self, source: BinaryIO, on_bytes: OnBytes) -> None:
        self._source, self._on_bytes = source, on_bytes

    def read(self, size: int = -1) -> bytes:
        chunk = self._source.read(size)
        self._on_bytes(len(chunk))
        return chunk


def _add(archive: tarfile.TarFile, name: str, size: int, source: IO[bytes] | _Counted) -> None:
    """The same content gives the same bytes: no date and no owner."""
    info = tarfile.TarInfo(name)
    info.size = size
    archive.addfile(info, source)


def _member(blob: Blob) -> str:
    return f"blobs/{blob.sha256}"


def read_lock(path: Path) -> bytes:
    """The text of the lock that the bundle begins with. Raises InputError."""
    with _opened(path) as archive:
        return _lock(archive)


def unpack(
    path: Path, lock: bytes, blobs: tuple[Blob, ...], store: Store, on_bytes: OnBytes
) -> None:
    """Put every blob of the bundle into the store. `lock` is what was read and accepted.

    Good blobs before a bad one stay.
    """
    with _opened(path) as archive:
        if _lock(archive) != lock:
            raise BadBundle("its lock was replaced while it was read")
        for blob in blobs:
            member = archive.next()
            if member is None:
                raise BadBundle(f"it ends before {_member(blob)}")
            if (member.name, member.size, member.isreg()) != (_member(blob), blob.size, True):
                what = f"its member {member.name[:100]!r}"
                raise BadBundle(f"{what} is not {_member(blob)} with {blob.size} bytes")
            try:
                store.add(blob.name, _content(archive, member, on_bytes), sha256=blob.sha256)
            except InputError as e:
                raise BadBundle(f"{blob.name} in it was changed: {e.why}") from None
        if archive.next():
            raise BadBundle("it has more files than its lock")


@contextmanager
def _opened(path: Path) -> Iterator[tarfile.TarFile]:
    """What is wrong with the bundle becomes an InputError that names it."""
    try:
        source: IO[bytes] = path.open("rb")
    except OSError as e:
        raise InputError(
            f"cannot read the bundle {path}", why=reason_of(e), slug="bundle-unreadable"
        ) from None
    try:
        with source, tarfile.open(fileobj=source, mode="r:") as archive:
            yield archive
    except (tarfile.TarError, ValueError, OSError) as e:
        raise InputError(
            f"{path} is not a valid bundle",
            why=str(e),
            hint="copy it again, or recreate it: ipexctl bundle",
            slug="bundle-invalid",
        ) from None


def _lock(archive: tarfile.TarFile) -> bytes:
    member = archive.next()
    if member is None or member.name != LOCK_MEMBER or not member.isreg():
        raise BadBundle(f"it does not begin with {LOCK_MEMBER}")
    if member.size > LARGEST_LOCK:
        raise BadBundle(f"its {LOCK_MEMBER} has {member.size} bytes")
    return b"".join(_content(archive, member, lambda n: None))


def _content(
    archive: tarfile.TarFile, member: tarfile.TarInfo, on_bytes: OnBytes
) -> Iterator[bytes]:
    source = archive.extractfile(member)
    assert source is not None  # its header is that of a file
    while chunk := source.read(CHUNK):
        yield chunk
        on_bytes(len(chunk))
