"""A bundle, one file with everything of ipexctl.lock: made where package indexes can be reached,
and installed from, if its lock is the expected one.

It is a tar archive: first `ipexctl.lock`, then `blobs/SHA256` for each of its files. A name in it
is only ever looked up in the lock, never used as a path, and every file is hashed.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, BinaryIO

from ipexctl.base.blob import Blob
from ipexctl.blobs.blob_relay import byte_counter
from ipexctl.blobs.blob_store import OnBytes, Store, default_store
from ipexctl.common.files import open_atomic
from ipexctl.errors import InputError, NotHere, NothingFits, reason_of
from ipexctl.facts.facts import Facts
from ipexctl.install import carried_python
from ipexctl.install.install_options import InstallOptions
from ipexctl.install.install_plan import Work
from ipexctl.install.lock_wheels import fetch_lock_wheels, lock_for, write_lock
from ipexctl.local.project_lock import LOCK_FILE, read_lock
from ipexctl.local.shipped_tables import stack_rows
from ipexctl.packages.resolver import Resolved
from ipexctl.quick_dataclass import dataclass
from ipexctl.stack import lock_file as locks
from ipexctl.stack import mpi, table_view
from ipexctl.stack.lock_file import Lock, LockedPackage
from ipexctl.stack.selection import check_request
from ipexctl.stack.stack_decision import decide_stack
from ipexctl.stack.version_table import Request
from ipexctl.terminal.progress import HostProgress

CHUNK = 1 << 20
LOCK_MEMBER = "ipexctl.lock"
LARGEST_LOCK = 4 << 20
_ANEW = "ipexctl bundle   # recreate it for these hosts, with their Python and glibc"


@dataclass(frozen=True)
class Bundled:
    path: Path
    size: int
    lock: Lock
    lock_sha256: str
    new_lock: bool
    fetched: int  # bytes


def bundle(
    options: InstallOptions, glibc: str, arch: str, out: Path | None, progress: HostProgress
) -> Bundled:
    """Pack what `options` chooses for hosts with this glibc and architecture; "": those of the
    folder's lock. No host is contacted. Raises InputError, NothingFits, NotHere."""
    check_request(options.request)
    place = options.folder / LOCK_FILE
    old = read_lock(place)
    python = options.python
    if old:
        locked_arch, locked_glibc = locks.hosts_of(old)
        python, glibc, arch = python or old.python, glibc or locked_glibc, arch or locked_arch
    elif not python and not options.python_from:
        raise InputError(
            "there is no ipexctl.lock in this folder, and no host is asked",
            why="without one, a bundle needs to know which Python the hosts have",
            hint="ipexctl bundle --python 3.11   # also: --glibc 2.28, --arch aarch64",
            slug="lock-missing",
        )
    word = options.mpi or (mpi.word_of(old.mpi) if old else mpi.INTEL.name)
    options = replace(options, mpi=word)
    work = Work(options, progress)
    host = table_view.as_host(python, "", glibc, arch)
    carried = carried_python.python_to_carry(work, [host], old)
    decision = decide_stack([host], options.request, old, stack_rows(), carried)
    resolved = carried_python.in_lock(lock_for(work, decision.candidates, old)[0], carried)
    carried_python.check_here(resolved.lock)
    for note in resolved.notes:
        progress.say(f"warning: {note}")
    lock, fetched = fetch_lock_wheels(work, resolved)
    if lock != old:
        write_lock(place, lock)
    path = out or options.folder / f"ipexctl-{lock.key}.tar"
    text = _write_bundle(path, work, lock, place)
    digest = hashlib.sha256(text).hexdigest()
    return Bundled(path, path.stat().st_size, lock, digest, lock != old, fetched)


def _write_bundle(path: Path, work: Work, lock: Lock, place: Path) -> bytes:
    """Write the bundle. Returns the text of the lock at `place`, with which it begins."""
    total = sum(blob.size for blob in lock.blobs)
    count = byte_counter("writing the bundle", total, partial(work.step, ""))
    try:
        text = place.read_bytes()
    except OSError as e:
        raise NotHere(f"cannot read {place}", why=reason_of(e), slug="lock-unreadable") from None
    write_archive(path, text, lock.blobs, default_store(), count)
    return text


# --- an install from one -------------------------------------------------------------------------


@dataclass(frozen=True)
class AcceptedBundle:
    """A bundle whose lock is accepted. `new_lock`: the folder's lock is not exactly this one."""

    path: Path
    text: bytes
    lock: Lock
    new_lock: bool


def open_bundle(options: InstallOptions) -> AcceptedBundle | None:
    """Open the bundle of --bundle, if that is given. Its files are not checked yet."""
    path = Path(options.bundle)
    if not options.bundle:
        if options.lock_sha256:
            raise InputError(
                "--lock-sha256 is about a bundle", hint="--bundle FILE", slug="option-needs-bundle"
            )
        return None
    if options.request.names_a_stack or options.python_from or options.needs or options.upgrade:
        raise InputError(
            "--bundle cannot be combined with options that select a stack",
            why="its lock has already chosen",
            slug="options-conflict",
        )
    text = read_lock_of(path)
    own_lock = read_lock(options.folder / LOCK_FILE)
    if options.lock_sha256:
        _known_by_hash(options, text)
        lock = _parse_bundled_lock(path, text)
    else:
        lock = _known_by_lock(options, own_lock, text)
    return AcceptedBundle(path, text, lock, own_lock != lock)


def _known_by_hash(options: InstallOptions, text: bytes) -> None:
    """Raise InputError unless the lock has the hash that --lock-sha256 names."""
    digest = options.lock_sha256.lower().removeprefix("sha256:")
    if hashlib.sha256(text).hexdigest() != digest:
        raise InputError(
            f"the lock in {options.bundle} is not the one that --lock-sha256 names",
            why="the bundle was made from another ipexctl.lock, or was changed since",
            hint="check the value of --lock-sha256, or get the bundle again",
            slug="bundle-other-lock",
        )


def _known_by_lock(options: InstallOptions, own_lock: Lock | None, text: bytes) -> Lock:
    """Return the lock of the bundle. Raises InputError unless it equals the folder's lock."""
    if own_lock is None:
        raise InputError(
            f"{options.bundle} cannot be verified: there is no ipexctl.lock in this folder",
            why="a bundle contains programs, and its lock was written by whoever made it",
            hint="--lock-sha256 HEX   # as `ipexctl bundle` printed it where it was made",
            slug="bundle-unverified",
        )
    lock = _parse_bundled_lock(Path(options.bundle), text)
    if not own_lock.is_same(lock):
        raise InputError(
            f"the lock in {options.bundle} is not this folder's ipexctl.lock",
            why="the bundle was made from another one, or was changed since",
            hint="--lock-sha256 HEX   # if this other lock is the one you mean",
            slug="bundle-other-lock",
        )
    return replace(lock, requirement_files=own_lock.requirement_files)


def _parse_bundled_lock(path: Path, text: bytes) -> Lock:
    remedy = "ipexctl bundle   # writes a new one"
    return locks.parse_lock(text.decode("utf-8", "replace"), f"the lock in {path}", remedy=remedy)


def resolve_from_bundle(
    facts: Sequence[Facts], request: Request, python: LockedPackage | None, bundle: AcceptedBundle
) -> Resolved:
    """Resolve to the bundle's own lock; options cannot ask for anything else."""
    narrowed = replace(request, mpi=mpi.word_of(bundle.lock.mpi))
    try:
        candidates = decide_stack(facts, narrowed, bundle.lock, stack_rows(), python).candidates
    except NothingFits as e:
        raise NothingFits(e.what, why=e.why, hint=_ANEW, slug="bundle-does-not-fit") from None
    for stack in candidates:
        if locks.lock_fits(bundle.lock, stack):
            return Resolved(replace(stack, reason="the bundle has it"), bundle.lock, {})
    pythons = " or ".join(stack.python_text for stack in candidates)
    raise NothingFits(
        f"the bundle does not fit these hosts: it is for Python {bundle.lock.python}, "
        f"{bundle.lock.platform}",
        why=f"they have Python {pythons}, {candidates[0].platform}",
        hint=_ANEW,
        slug="bundle-does-not-fit",
    )


def unpack_bundle(work: Work, bundle: AcceptedBundle) -> Lock:
    """Put every file of the lock into the store, checked while it is copied."""
    blobs = bundle.lock.blobs
    total = sum(blob.size for blob in blobs)
    count = byte_counter("unpacking the bundle", total, partial(work.step, ""))
    unpack_archive(bundle.path, bundle.text, blobs, default_store(), count)
    return bundle.lock


# --- the archive ---------------------------------------------------------------------------------


class BadBundle(ValueError):
    """The text says what is wrong with the bundle."""


def write_archive(
    path: Path, lock: bytes, blobs: Iterable[Blob], store: Store, on_bytes: OnBytes
) -> None:
    """Write the bundle to `path`, or leave that file unchanged."""
    try:
        with (
            open_atomic(path, mode=0o644, sync=True) as out,
            tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive,
        ):
            _add_member(archive, LOCK_MEMBER, len(lock), io.BytesIO(lock))
            for blob in blobs:
                with store.path(blob).open("rb") as source:
                    _add_member(archive, _member_name(blob), blob.size, _Counted(source, on_bytes))
    except OSError as e:
        raise NotHere(
            f"cannot write the bundle {path}", why=reason_of(e), slug="bundle-not-written"
        ) from None


class _Counted:
    """A file that reports how much of it has been read."""

    def __init__(self, source: BinaryIO, on_bytes: OnBytes) -> None:
        self._source, self._on_bytes = source, on_bytes

    def read(self, size: int = -1) -> bytes:
        chunk = self._source.read(size)
        self._on_bytes(len(chunk))
        return chunk


def _add_member(
    archive: tarfile.TarFile, name: str, size: int, source: IO[bytes] | _Counted
) -> None:
    """Add a file without date and owner: the same content gives the same bytes."""
    info = tarfile.TarInfo(name)
    info.size = size
    archive.addfile(info, source)


def _member_name(blob: Blob) -> str:
    return f"blobs/{blob.sha256}"


def read_lock_of(path: Path) -> bytes:
    """Return the text of the lock with which the bundle begins. Raises InputError."""
    with _open_archive(path) as archive:
        return _read_lock_member(archive)


def unpack_archive(
    path: Path, lock: bytes, blobs: tuple[Blob, ...], store: Store, on_bytes: OnBytes
) -> None:
    """Put every blob of the bundle into the store. `lock` is what was read and accepted.

    Good blobs before a bad one stay.
    """
    with _open_archive(path) as archive:
        if _read_lock_member(archive) != lock:
            raise BadBundle("its lock was replaced while it was read")
        for blob in blobs:
            member = archive.next()
            if member is None:
                raise BadBundle(f"it ends before {_member_name(blob)}")
            if (member.name, member.size, member.isreg()) != (_member_name(blob), blob.size, True):
                subject = f"its member {member.name[:100]!r}"
                raise BadBundle(f"{subject} is not {_member_name(blob)} with {blob.size} bytes")
            try:
                store.add(blob.name, _read_member(archive, member, on_bytes), sha256=blob.sha256)
            except InputError as e:
                raise BadBundle(f"{blob.name} in it was changed: {e.why}") from None
        if archive.next():
            raise BadBundle("it has more files than its lock")


@contextmanager
def _open_archive(path: Path) -> Iterator[tarfile.TarFile]:
    """Open the bundle; its errors become an InputError that names it."""
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


def _read_lock_member(archive: tarfile.TarFile) -> bytes:
    member = archive.next()
    if member is None or member.name != LOCK_MEMBER or not member.isreg():
        raise BadBundle(f"it does not begin with {LOCK_MEMBER}")
    if member.size > LARGEST_LOCK:
        raise BadBundle(f"its {LOCK_MEMBER} has {member.size} bytes")
    return b"".join(_read_member(archive, member, lambda n: None))


def _read_member(
    archive: tarfile.TarFile, member: tarfile.TarInfo, on_bytes: OnBytes
) -> Iterator[bytes]:
    source = archive.extractfile(member)
    assert source is not None  # its header has the type of a file
    while chunk := source.read(CHUNK):
        yield chunk
        on_bytes(len(chunk))
