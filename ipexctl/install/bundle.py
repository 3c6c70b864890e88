"""A bundle, one file with everything of ipexctl.lock: made where package indexes can be reached,
and installed from, if it is the one that was meant."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from ipexctl.blobs.blob_relay import counter
from ipexctl.blobs.blob_store import default_store
from ipexctl.errors import InputError, NotHere, NothingFits, reason_of
from ipexctl.facts.facts import Facts
from ipexctl.install import carried_python
from ipexctl.install.install_plan import Install, Work
from ipexctl.install.lock_wheels import fetch, fits_stack, lock_for, write_lock
from ipexctl.install.progress import Progress
from ipexctl.install.stack import lock_file as locks
from ipexctl.install.stack import table_view
from ipexctl.install.stack.lock_file import Lock, Package
from ipexctl.install.stack.stack_decision import decide
from ipexctl.install.stack.version_table import Request
from ipexctl.local.project_lock import LOCK_FILE, read_lock
from ipexctl.packages import bundle_archive
from ipexctl.packages.resolver import Resolved
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.plan import mpi
from ipexctl.shipped_tables import table

_ANEW = "ipexctl bundle   # recreate it for these hosts, with their Python and glibc"


@dataclass(frozen=True)
class Bundled:
    path: Path
    size: int
    lock: Lock
    lock_sha256: str
    new_lock: bool
    fetched: int  # bytes


def bundle(asked: Install, glibc: str, arch: str, out: Path | None, progress: Progress) -> Bundled:
    """Pack what `asked` chooses for hosts with this glibc and architecture, "" for those of the
    lock in the folder. No host is asked. Raises InputError, NothingFits, NotHere."""
    place = asked.folder / LOCK_FILE
    old = read_lock(place)
    python = asked.wanted.python
    if old:
        locked_arch, locked_glibc = locks.hosts_of(old)
        python, glibc, arch = python or old.python, glibc or locked_glibc, arch or locked_arch
    elif not python and not asked.python_from:
        raise InputError(
            "there is no ipexctl.lock in this folder, and no host is asked",
            why="without one, a bundle needs to know which Python the hosts have",
            hint="ipexctl bundle --python 3.11   # also: --glibc 2.28, --arch aarch64",
            slug="lock-missing",
        )
    word = asked.wanted.mpi or (mpi.word_of(old.mpi) if old else mpi.INTEL.name)
    asked = replace(asked, wanted=replace(asked.wanted, mpi=word))
    work = Work(asked, progress)
    host = table_view.as_host(table_view.query(python, "", glibc, arch))
    carried = carried_python.python_to_carry(work, [host], old)
    decision = decide([host], asked.wanted, old, table(), carried)
    found = carried_python.in_lock(lock_for(work, decision.candidates, old)[0], carried)
    carried_python.check_here(found.lock)
    for note in found.notes:
        progress.say(f"warning: {note}")
    lock, fetched = fetch(work, found)
    if lock != old:
        write_lock(place, lock)
    path = out or asked.folder / f"ipexctl-{lock.key}.tar"
    text = _write(path, work, lock, place)
    digest = hashlib.sha256(text).hexdigest()
    return Bundled(path, path.stat().st_size, lock, digest, lock != old, fetched)


def _write(path: Path, work: Work, lock: Lock, place: Path) -> bytes:
    """Returns the text of the lock at `place`, with which the bundle begins."""
    total = sum(b.size for b in lock.blobs)
    count = counter("writing the bundle", total, partial(work.step, ""))
    try:
        text = place.read_bytes()
    except OSError as e:
        raise NotHere(f"cannot read {place}", why=reason_of(e), slug="lock-unreadable") from None
    bundle_archive.write(path, text, lock.blobs, default_store(), count)
    return text


# --- an install from one -------------------------------------------------------------------------


@dataclass(frozen=True)
class Bundle:
    """One whose lock is accepted. `new_lock`: the folder's lock is not (quite) this one."""

    path: Path
    text: bytes
    lock: Lock
    new_lock: bool


def accepted(asked: Install) -> Bundle | None:
    """Open the bundle of --bundle, if that is given. Its files are not looked at yet."""
    if asked.bundle is None:
        if asked.lock_sha256:
            raise InputError(
                "--lock-sha256 is about a bundle", hint="--bundle FILE", slug="option-needs-bundle"
            )
        return None
    if asked.wanted.names_a_stack or asked.python_from or asked.needs or asked.upgrade:
        raise InputError(
            "--bundle cannot be combined with options that select a stack",
            why="its lock has already chosen",
            slug="options-conflict",
        )
    text = bundle_archive.read_lock(asked.bundle)
    own = read_lock(asked.folder / LOCK_FILE)
    if asked.lock_sha256:
        _known_by_hash(asked, text)
        lock = _parsed(asked.bundle, text)
    else:
        lock = _known_by_lock(asked, own, text)
    if not all(p.size for p in lock.files):
        raise InputError(
            f"the lock in {asked.bundle} has no sizes", hint="ipexctl bundle", slug="bundle-invalid"
        )
    return Bundle(asked.bundle, text, lock, own != lock)


def _known_by_hash(asked: Install, text: bytes) -> None:
    wanted = asked.lock_sha256.lower().removeprefix("sha256:")
    if not re.fullmatch("[0-9a-f]{64}", wanted):
        raise InputError(
            f"--lock-sha256 {asked.lock_sha256} is not a sha256", slug="sha256-invalid"
        )
    if hashlib.sha256(text).hexdigest() != wanted:
        raise InputError(
            f"the lock in {asked.bundle} is not the one that --lock-sha256 names",
            why="the bundle was made from another ipexctl.lock, or was changed since",
            hint="check the value of --lock-sha256, or get the bundle again",
            slug="bundle-other-lock",
        )


def _known_by_lock(asked: Install, own: Lock | None, text: bytes) -> Lock:
    if own is None:
        raise InputError(
            f"{asked.bundle} cannot be verified: there is no ipexctl.lock in this folder",
            why="a bundle contains programs, and its lock was written by whoever made it",
            hint="--lock-sha256 HEX   # as `ipexctl bundle` printed it where it was made",
            slug="bundle-unverified",
        )
    lock = _parsed(asked.bundle or Path(), text)
    if not own.is_same(lock):
        raise InputError(
            f"the lock in {asked.bundle} is not this folder's ipexctl.lock",
            why="the bundle was made from another one, or was changed since",
            hint="--lock-sha256 HEX   # if this other lock is the one you mean",
            slug="bundle-other-lock",
        )
    sizes = {p.sha256: p.size for p in lock.files}
    return own.each_file(lambda p: replace(p, size=p.size or sizes[p.sha256]))


def _parsed(path: Path, text: bytes) -> Lock:
    remedy = "ipexctl bundle   # writes a new one"
    return locks.parse(text.decode("utf-8", "replace"), f"the lock in {path}", remedy=remedy)


def resolve_from_bundle(
    facts: Sequence[Facts], wanted: Request, python: Package | None, bundle: Bundle
) -> Resolved:
    """What a bundle has is not asked for again by options."""
    asked = replace(wanted, mpi=mpi.word_of(bundle.lock.mpi))
    try:
        candidates = decide(facts, asked, bundle.lock, table(), python).candidates
    except NothingFits as e:
        raise NothingFits(e.what, why=e.why, hint=_ANEW, slug="bundle-does-not-fit") from None
    for stack in candidates:
        if fits_stack(bundle.lock, stack):
            return Resolved(replace(stack, reason="the bundle has it"), bundle.lock, {})
    have = " or ".join(stack.python_text for stack in candidates)
    raise NothingFits(
        f"the bundle does not fit these hosts: it is for Python {bundle.lock.python}, "
        f"{bundle.lock.platform}",
        why=f"they have Python {have}, {candidates[0].platform}",
        hint=_ANEW,
        slug="bundle-does-not-fit",
    )


def unpack(work: Work, bundle: Bundle) -> Lock:
    """Afterwards every file of the lock is in the store, checked on its way."""
    blobs = bundle.lock.blobs
    total = sum(b.size for b in blobs)
    count = counter("unpacking the bundle", total, partial(work.step, ""))
    bundle_archive.unpack(bundle.path, bundle.text, blobs, default_store(), count)
    return bundle.lock
