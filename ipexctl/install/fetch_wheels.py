"""Fetch the files of a lock into the local store, once, while hosts are already sent others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path

from ipexctl.base.blob import Blob
from ipexctl.blobs.blob_store import default_store
from ipexctl.errors import NotHere
from ipexctl.install import bundle as bundles
from ipexctl.install.bundle import AcceptedBundle
from ipexctl.install.carried_python import check_here
from ipexctl.install.install_plan import Plan, Work
from ipexctl.install.lock_wheels import fetch_lock_wheels, lacking_here, write_lock
from ipexctl.local.project_lock import LOCK_FILE
from ipexctl.packages.wheel_fetch import GONE, with_sizes
from ipexctl.stack.lock_file import Lock, LockedPackage


class Supply:
    """The files of `lock`. `lacking`: those not in the local store yet: `fetch` gets them in a
    thread, and returns the number of bytes. `new_lock`: where the lock is to be written."""

    def __init__(
        self,
        lock: Lock,
        lacking: Sequence[LockedPackage] = (),
        fetch: Callable[[], int] = lambda: 0,
        new_lock: Path | None = None,
    ) -> None:
        self.lock = lock
        self._lacking = {package.sha256 for package in lacking}
        self._new_lock = new_lock
        self._store = default_store()
        self._one = threading.Lock()
        self._fetched: Future[int] = Future()
        if lacking:
            threading.Thread(target=self._run_fetch, args=(fetch,), daemon=True).start()
        else:
            self._fetched.set_result(fetch())

    @property
    def complete(self) -> bool:
        """Whether all files are here, or the error of the fetch is known."""
        return self._fetched.done()

    def fetched_bytes(self) -> int:
        """Return the bytes fetched, 0 while fetching. Raises the error of the fetch."""
        return self._fetched.result() if self.complete else 0

    def is_here(self, blob: Blob) -> bool:
        """Return whether the blob is in the store. Raises the error of the fetch."""
        if blob.sha256 not in self._lacking:
            return True
        finished = self.complete
        if self._store.has(blob):
            return True
        if finished:
            self._fetched.result()
            raise NotHere(
                f"{blob.name} was downloaded, but does not match the lock",
                why=f"{blob.size} bytes are locked; or {self._store.folder} was cleared meanwhile",
                hint=f"run the same command again; if that does not help: {GONE}",
                slug="file-differs",
            )
        return False

    def wait_for_files(self) -> None:
        """Wait until all files are here, and write a new lock, once. Called by the threads of all
        hosts before any is changed; raises what keeps all hosts as they are."""
        self._fetched.result()
        with self._one:
            if self._new_lock:
                write_lock(self._new_lock, self.lock)
            self._new_lock = None

    def _run_fetch(self, fetch: Callable[[], int]) -> None:
        try:
            self._fetched.set_result(fetch())
        except BaseException as e:  # raised again where the files are needed
            self._fetched.set_exception(e)


def supply_wheels(work: Work, plan: Plan, bundle: AcceptedBundle | None) -> Supply:
    """Fetch what the controller lacks: while hosts are sent other files if the sizes of the missing
    ones are known, else before."""
    new_lock = plan.folder / LOCK_FILE if plan.new_lock else None
    resolved = plan.found
    if not plan.todo:
        lock = with_sizes(resolved.lock, default_store()) if new_lock else resolved.lock
        return Supply(lock, new_lock=new_lock)
    if bundle:
        return Supply(bundles.unpack_bundle(work, bundle), new_lock=new_lock)
    check_here(resolved.lock)
    missing = lacking_here(resolved.lock)
    if missing and all(package.size for package in resolved.lock.files):
        return Supply(
            resolved.lock, missing, lambda: fetch_lock_wheels(work, resolved, missing)[1], new_lock
        )
    lock, fetched = fetch_lock_wheels(work, resolved, missing)
    return Supply(lock, fetch=lambda: fetched, new_lock=new_lock)
