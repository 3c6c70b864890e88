"""bundle: one file with everything of ipexctl.lock, made where package indexes can be reached."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

from ipexctl.blobs.blob_store import default_store
from ipexctl.errors import InputError, NotHere, reason_of
from ipexctl.install import carried_python
from ipexctl.install.install_plan import Install, Work
from ipexctl.install.lock_wheels import fetch, lock_for, write_lock
from ipexctl.install.progress import Progress
from ipexctl.install.stack import lock_file as locks
from ipexctl.install.stack import table_view
from ipexctl.install.stack.lock_file import Lock
from ipexctl.install.stack.stack_decision import decide
from ipexctl.local.project_lock import LOCK_FILE, read_lock
from ipexctl.packages import bundle_archive
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.plan import mpi
from ipexctl.shipped_tables import table


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
    total, done = sum(b.size for b in lock.blobs), 0

    def count(n: int) -> None:
        nonlocal done
        done += n
        work.step("", "writing the bundle", done, total)

    try:
        text = place.read_bytes()
    except OSError as e:
        raise NotHere(f"cannot read {place}", why=reason_of(e), slug="lock-unreadable") from None
    bundle_archive.write(path, text, lock.blobs, default_store(), count)
    return text
