"""The files to install: those of the folder's lock or of a new one, all in the local store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from ipexctl.base.blob import Blob
from ipexctl.base.sizes import format_bytes, transfer_minutes
from ipexctl.blobs.blob_store import default_store
from ipexctl.common.files import write_atomic
from ipexctl.errors import InputError, NotHere, reason_of
from ipexctl.install import requirement_files
from ipexctl.install.install_plan import Work
from ipexctl.local.environment import environment
from ipexctl.packages import resolver
from ipexctl.packages.indexes import Indexes, from_pip, merge_indexes
from ipexctl.packages.resolver import Resolved
from ipexctl.packages.wheel_fetch import Fetcher, with_sizes
from ipexctl.stack import lock_file as locks
from ipexctl.stack.lock_file import Lock, LockedPackage
from ipexctl.stack.selection import Stack
from ipexctl.terminal.progress import FETCHING


def lock_for(work: Work, candidates: Sequence[Stack], old: Lock | None) -> tuple[Resolved, bool]:
    """Return the lock in the folder if it is for one of these, else a new one (True), which keeps
    the versions of the old one as far as they fit. With --upgrade none is kept."""
    extra = requirement_files.extra_requirements(work.asked.needs, old)
    files = requirement_files.paths_for_lock(work.asked, old)
    notes = requirement_files.changed_since(work.asked, old)
    notes += requirement_files.dropped_packages_note(work.asked, old, extra)
    for stack in candidates if old and not work.asked.upgrade else ():
        if old and locks.lock_fits(old, stack) and requirement_files.same_requirements(old, extra):
            requirement_files.check_hashes(old, extra)
            lock = replace(old, requirement_files=files)
            return Resolved(stack, lock, {}, notes=notes), lock != old
    work.step("", "resolving")
    indexes = indexes_of(work)
    versions = {p.name: p.version for p in old.packages} if old and not work.asked.upgrade else None
    resolved = resolver.resolve_stack(candidates, indexes, environment(), extra, versions)
    requirement_files.check_hashes(resolved.lock, extra)
    lock = Fetcher(default_store(), indexes).sizes(resolved.lock, resolved.urls)
    lock = replace(lock, requirement_files=files)
    stack = _told_python(resolved.stack, candidates)
    resolved = replace(resolved, lock=lock, stack=stack, notes=notes)
    if work.asked.allow_cuda:
        return replace(resolved, no_cpu_build=""), True
    if resolved.no_cpu_build and not work.asked.may_ask:
        raise _only_cuda(resolved, sum(blob.size for blob in not_here(lock)))
    return resolved, True


def _told_python(stack: Stack, candidates: Sequence[Stack]) -> Stack:
    """Add why the Python is not the newest that all hosts have, which `doctor` names."""
    newer = [candidate.python_text for candidate in candidates[: candidates.index(stack)]]
    if not newer:
        return stack
    why = f"Python {stack.python_text}: the indexes lack a CPU build, or one of the packages, for "
    return replace(stack, reason=f"{stack.reason}; {why}{' and '.join(newer)}")


def _only_cuda(found: Resolved, missing: int) -> InputError:
    """Return the error for a CUDA build without consent: -y does not cover gigabytes per host."""
    lock = found.lock
    size = f"{format_bytes(lock.size)} for every host"
    size += f", {format_bytes(missing)} to fetch ({transfer_minutes(missing)})" if missing else ""
    stock = "--stack stock   # without IPEX, which is discontinued\n" * bool(found.stack.row.ipex)
    return InputError(
        f"torch {lock.torch} is only available as a CUDA build: {size}",
        why=f"{found.no_cpu_build}. A CUDA build runs on CPUs; its GPU libraries are not used.\n"
        f"{found.stack.title} because: {found.stack.reason}",
        hint=f"{stock}--allow-cuda   # takes it; or --find-links FOLDER   # with torch "
        f"{lock.torch}+cpu",
        slug="only-cuda",
    )


def not_here(lock: Lock) -> tuple[Blob, ...]:
    """Return the files that are not on the controller yet."""
    store = default_store()
    return tuple(package.blob for package in lock.files if not store.has(package.blob))


def indexes_of(work: Work) -> Indexes:
    indexes = merge_indexes(work.asked.indexes, from_pip(environment()), environment())
    return requirement_files.with_indexes(
        indexes, requirement_files.extra_requirements(work.asked.needs, None)
    )


def write_lock(path: Path, lock: Lock) -> None:
    try:
        write_atomic(path, locks.render_lock(lock), mode=None, sync=True)
    except OSError as e:
        raise NotHere(f"cannot write {path}", why=reason_of(e), slug="lock-not-written") from None


def lacking_here(lock: Lock) -> list[LockedPackage]:
    """Return the files of indexes that are not in the store, in the order hosts need them."""
    store = default_store()
    return [p for p in in_order(_without_cpython(lock)) if not store.whole(p.blob)]


def in_order(lock: Lock) -> list[LockedPackage]:
    """Order files: first what unpacks the others, then the largest ones."""
    tools = [package for package in (lock.uv, lock.cpython) if package]
    return tools + sorted(lock.packages, key=lambda package: -package.size)


def fetch_lock_wheels(
    work: Work, resolved: Resolved, missing: Sequence[LockedPackage] | None = None
) -> tuple[Lock, int]:
    """Return the lock with all sizes, and the bytes fetched; every file is in the store then."""
    missing = lacking_here(resolved.lock) if missing is None else missing
    fetched = 0
    if missing:
        fetcher = Fetcher(default_store(), indexes_of(work))
        urls = resolved.urls or resolver.locate_files(
            resolved.stack, _without_cpython(resolved.lock), indexes_of(work), environment()
        )
        fetcher.fetch(missing, urls, partial(work.step, "", FETCHING))
        fetched = fetcher.fetched
    return with_sizes(resolved.lock, default_store()), fetched


def _without_cpython(lock: Lock) -> Lock:
    return replace(lock, cpython=None)  # it is not in an index; see carried_python.py
