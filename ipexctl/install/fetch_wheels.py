"""The files of a lock come into the store of this machine, once, and from here to hosts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from ipexctl.base.blob import Blob
from ipexctl.blobs.blob_relay import Carrier
from ipexctl.blobs.blob_store import default_store
from ipexctl.errors import NotHere
from ipexctl.install import bundle as bundles
from ipexctl.install.bundle import Bundle
from ipexctl.install.carried_python import check_here
from ipexctl.install.install_plan import Plan, Work
from ipexctl.install.lock_wheels import fetch, lacking_here
from ipexctl.install.stack.lock_file import Lock, Package
from ipexctl.packages.wheel_fetch import GONE, with_sizes
from ipexctl.quick_dataclass import dataclass


@dataclass(frozen=True)
class Supply:
    """How the files of the lock reach the hosts; decided before any host gets one.

    `fetched`: bytes fetched before that. `incoming`: what is being fetched meanwhile.
    """

    lock: Lock
    carrier: Carrier
    fetched: int = 0
    incoming: Incoming | None = None

    def came(self) -> int:
        """How many bytes were fetched, if all is here. Raises what made the fetching fail."""
        ended = self.incoming and self.incoming.ended
        return self.fetched + (self.incoming.wait() if self.incoming and ended else 0)


class Incoming:
    """Files that come into the store of this machine while hosts are sent those that are here."""

    def __init__(self, lacking: Sequence[Package], fetch: Callable[[], int]) -> None:
        self._lacking = {p.sha256 for p in lacking}
        self._store = default_store()
        self._fetched: Future[int] = Future()
        threading.Thread(target=self._run, args=(fetch,), daemon=True).start()

    def is_here(self, blob: Blob) -> bool:
        """Raises what made the fetching fail."""
        if blob.sha256 not in self._lacking:
            return True
        over = self.ended
        if self._store.has(blob):
            return True
        if over:
            self.wait()
            raise NotHere(
                f"{blob.name} was downloaded, but does not match the lock",
                why=f"{blob.size} bytes are locked; or {self._store.folder} was cleared meanwhile",
                hint=f"run the same command again; if that does not help: {GONE}",
                slug="file-differs",
            )
        return False

    @property
    def ended(self) -> bool:
        return self._fetched.done()

    def wait(self) -> int:
        """Until all is here. Returns how many bytes came; raises what made the fetching fail."""
        return self._fetched.result()

    def _run(self, fetch: Callable[[], int]) -> None:
        try:
            self._fetched.set_result(fetch())
        except BaseException as e:  # raised again where the files are wanted
            self._fetched.set_exception(e)


def supply(work: Work, plan: Plan, bundle: Bundle | None) -> Supply:
    """Fetch what this machine lacks, and choose the carrier that brings files to hosts. Where it is
    known how long the files are, hosts are sent some while others are fetched."""
    lock, found = plan.chosen.lock, plan.found
    if not plan.todo:
        lock = with_sizes(lock, default_store()) if plan.chosen.new_lock else lock
        return Supply(lock, _from_here(work, plan))
    if bundle:
        return Supply(bundles.unpack(work, bundle), _from_here(work, plan))
    check_here(lock)
    missing = lacking_here(found.lock)
    if not missing or not all(p.size for p in found.lock.files):
        lock, fetched = fetch(work, found, missing)
        return Supply(lock, _from_here(work, plan), fetched)
    incoming = Incoming(missing, lambda: fetch(work, found, missing)[1])
    return Supply(found.lock, _from_here(work, plan, incoming), incoming=incoming)


def _from_here(work: Work, plan: Plan, incoming: Incoming | None = None) -> Carrier:
    relay = work.asked.relay and len(plan.parts) > 1
    where = {part.host.name: part.address for part in plan.parts} if relay else {}
    is_here = incoming.is_here if incoming else lambda blob: True
    return Carrier(default_store().read, where, work.progress.say, is_here)
