"""Bundles on the disk of this machine: written whole or not at all, read with nothing trusted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from ipexctl.base.blob import Blob
from ipexctl.blobs.blob_store import Store
from ipexctl.errors import InputError, NotHere, reason_of
from ipexctl.install.stack import bundle_format
from ipexctl.install.stack.bundle_format import BLOCK, END, LOCK_MEMBER, BadBundle, Member
from ipexctl.local.atomic_file import open_atomic

CHUNK = 1 << 20
OnBytes = Callable[[int], None]


def write(path: Path, lock: bytes, blobs: Iterable[Blob], store: Store, on_bytes: OnBytes) -> None:
    """`path` has the bundle afterwards, or is what it was."""
    try:
        with open_atomic(path, mode=0o644, sync=True) as out:
            _write_all(out, lock, blobs, store, on_bytes)
    except (OSError, BadBundle) as e:
        raise NotHere(f"cannot write the bundle {path}", why=reason_of(e)) from None


def _write_all(
    out: BinaryIO, lock: bytes, blobs: Iterable[Blob], store: Store, on_bytes: OnBytes
) -> None:
    out.write(
        bundle_format.header(Member(LOCK_MEMBER, len(lock)))
        + lock
        + bundle_format.padding(len(lock))
    )
    for blob in blobs:
        out.write(bundle_format.header(bundle_format.member(blob)))
        with store.path(blob).open("rb") as source:
            for chunk in _exactly(source, blob.size):
                out.write(chunk)
                on_bytes(len(chunk))
        out.write(bundle_format.padding(blob.size))
    out.write(END)


def read_lock(path: Path) -> bytes:
    """The text of the lock that the bundle begins with. Raises InputError."""
    with _opened(path) as source:
        return _lock(source)


def unpack(
    path: Path, lock: bytes, blobs: tuple[Blob, ...], store: Store, on_bytes: OnBytes
) -> None:
    """Every blob of the bundle, hashed, into the store. `lock` is what was read and accepted.

    What doesn't fit is refused before its bytes are looked at; good blobs before it stay.
    """
    members = [Member(LOCK_MEMBER, len(lock)), *map(bundle_format.member, blobs)]
    with _opened(path) as source:
        if _lock(source) != lock:
            raise BadBundle("its lock was replaced while it was read")
        for blob in blobs:
            wanted = bundle_format.member(blob)
            bundle_format.check(source.read(BLOCK), wanted, members)
            try:
                store.add(blob.name, _counted(source, blob.size, on_bytes), sha256=blob.sha256)
            except InputError as e:
                raise BadBundle(f"{blob.name} in it was changed: {e.why}") from None
            _zeros(source, len(bundle_format.padding(blob.size)))
        if source.read(len(END) + 1) != END:
            raise BadBundle("something follows its last member")


class _opened:
    """The bundle as a file; what is wrong with it becomes an InputError that names it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> BinaryIO:
        try:
            self._file = self._path.open("rb")
        except OSError as e:
            raise InputError(f"cannot read the bundle {self._path}", why=reason_of(e)) from None
        return self._file

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._file.close()
        if isinstance(error, BadBundle | OSError):
            raise InputError(
                f"{self._path} is not a valid bundle",
                why=str(error),
                hint="copy it again, or recreate it: ipexctl bundle",
            ) from None


def _lock(source: BinaryIO) -> bytes:
    size = bundle_format.lock_size(source.read(BLOCK))
    text = b"".join(_exactly(source, size))
    _zeros(source, len(bundle_format.padding(size)))
    return text


def _counted(source: BinaryIO, size: int, on_bytes: OnBytes) -> Iterator[bytes]:
    for chunk in _exactly(source, size):
        yield chunk
        on_bytes(len(chunk))


def _exactly(source: BinaryIO, size: int) -> Iterator[bytes]:
    while size:
        chunk = source.read(min(CHUNK, size))
        if not chunk:
            raise BadBundle("it ends in the middle of a file")
        size -= len(chunk)
        yield chunk


def _zeros(source: BinaryIO, size: int) -> None:
    if source.read(size) != bytes(size):
        raise BadBundle("there is something between its members")
