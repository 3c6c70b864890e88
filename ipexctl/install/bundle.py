"""bundle: one file with everything of ipexctl.lock, made where package indexes can be reached."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

from ipexctl.blobs.blob_store import default_store
from ipexctl.errors import InputError, NotHere, reason_of
from ipexctl.install import carried_python
from ipexctl.install.install_plan import Cuda, Install, Work
from ipexctl.install.lock_wheels import fetch, lock_for, write_lock
from ipexctl.install.progress import Progress
from ipexctl.install.stack import bundle_lock as core
from ipexctl.install.stack import lock_file as locks
from ipexctl.install.stack import table_view
from ipexctl.install.stack.lock_file import Lock
from ipexctl.install.stack.stack_decision import decide
from ipexctl.install.stack.version_table import Request
from ipexctl.local.project_lock import LOCK_FILE, read_lock
from ipexctl.packages import bundle_archive
from ipexctl.packages.indexes import Indexes
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.plan import mpi
from ipexctl.shipped_tables import table


@dataclass(frozen=True)
class Hosts:
    """For which hosts, in words, where no lock says it. "" leaves it to the lock or the table."""

    python: str = ""
    glibc: str = ""
    arch: str = ""


@dataclass(frozen=True)
class Bundling:
    """What the user asked for. `wanted.mpi` "": the lock's."""

    wanted: Request
    hosts: Hosts = Hosts()
    options: Indexes = Indexes()
    out: Path | None = None
    folder: Path = Path()
    cuda: Cuda = Cuda.REFUSE
    python_from: str = ""
    needs: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Bundled:
    path: Path
    size: int
    lock: Lock
    lock_sha256: str
    new_lock: bool = False
    fetched: int = 0


def bundle(asked: Bundling, progress: Progress) -> Bundled:
    """No host is asked. Raises InputError, NothingFits, NotHere."""
    place = asked.folder / LOCK_FILE
    old = read_lock(place)
    hosts = _hosts(asked, old)
    word = asked.wanted.mpi or (mpi.word_of(old.mpi) if old else mpi.INTEL.name)
    options = Install(
        replace(asked.wanted, mpi=word, python=asked.hosts.python), options=asked.options,
        folder=asked.folder, cuda=asked.cuda, python_from=asked.python_from,
        needs=asked.needs,
    )  # fmt: skip
    work = Work(options, progress)
    host = table_view.as_host(table_view.query(hosts.python, "", hosts.glibc, hosts.arch))
    python = carried_python.python_to_carry(work, [host], old)
    decision = decide([host], options.wanted, old, table(), python)
    found = carried_python.in_lock(lock_for(work, decision.candidates, old)[0], python)
    carried_python.check_here(found.lock)
    for note in found.notes:
        progress.say(f"warning: {note}")
    lock, fetched = fetch(work, found)
    if lock != old:
        write_lock(place, lock)
    written = _written(asked, work, lock, place)
    return replace(written, new_lock=lock != old, fetched=fetched)


def _hosts(asked: Bundling, lock: Lock | None) -> Hosts:
    """What is not said is as the lock has it."""
    said = asked.hosts
    if lock:
        arch, glibc = locks.hosts_of(lock)
        return Hosts(said.python or lock.python, said.glibc or glibc, said.arch or arch)
    if not said.python and not asked.python_from:
        raise InputError(
            "there is no ipexctl.lock in this folder, and no host is asked",
            why="without one, a bundle needs to know which Python the hosts have",
            hint="ipexctl bundle --python 3.11   # also: --glibc 2.28, --arch aarch64",
            slug="lock-missing",
        )
    return said


def _written(asked: Bundling, work: Work, lock: Lock, place: Path) -> Bundled:
    store, blobs = default_store(), core.blobs(lock)
    total, done = sum(b.size for b in blobs), 0

    def count(n: int) -> None:
        nonlocal done
        done += n
        work.step("", "writing the bundle", done, total)

    path = asked.out or asked.folder / f"ipexctl-{lock.key}.tar"
    try:
        text = place.read_bytes()
    except OSError as e:
        raise NotHere(f"cannot read {place}", why=reason_of(e), slug="lock-unreadable") from None
    bundle_archive.write(path, text, blobs, store, count)
    digest = hashlib.sha256(text).hexdigest()
    return Bundled(path, path.stat().st_size, lock, digest)
