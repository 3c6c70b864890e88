"""Who fetches: this machine, every host, or one for all. What hosts cannot fetch, this one does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from urllib.parse import urlsplit

from ipexctl.base.blob import Blob
from ipexctl.blobs import blob_carriers
from ipexctl.blobs.blob_carriers import (
    SAMPLE,
    SAMPLE_SECONDS,
    Carrier,
    Fetching,
    Moved,
    Push,
    counter,
)
from ipexctl.blobs.blob_relay import Relay
from ipexctl.blobs.blob_store import default_store, missing_blobs
from ipexctl.errors import InputError, NotHere
from ipexctl.install import from_bundle
from ipexctl.install.carried_python import check_here
from ipexctl.install.from_bundle import Bundle
from ipexctl.install.install_plan import Plan, Work
from ipexctl.install.lock_wheels import (
    fetch,
    get,
    indexes_of,
    lacking_here,
    sized_if_known,
    urls_of,
)
from ipexctl.install.stack import fetch_policy as core
from ipexctl.install.stack.fetch_policy import Decision, Fetch
from ipexctl.install.stack.lock_file import Lock, Package
from ipexctl.inventory.inventory import Host
from ipexctl.local.environment import environment
from ipexctl.machines.agent import Agent
from ipexctl.machines.fleet import Fleet
from ipexctl.packages.index_logins import Logins
from ipexctl.packages.indexes import Indexes
from ipexctl.packages.resolver import Resolved, Urls
from ipexctl.packages.wheel_fetch import GONE, Fetcher, with_sizes
from ipexctl.quick_dataclass import dataclass

Roots = Mapping[Host, str]


@dataclass(frozen=True)
class Supply:
    """How the files of the lock reach the hosts; decided before any host gets one.

    `fetch`: who fetches; None if there was nothing to fetch. `all_here`: every file is in the store
    of this machine. `moved`: bytes moved so far. `incoming`: what is being fetched meanwhile.
    """

    lock: Lock
    carrier: Carrier
    moved: Moved = Moved()
    fetch: Fetch | None = None
    all_here: bool = True
    incoming: Incoming | None = None


class Incoming:
    """Files that come into the store of this machine while hosts are sent those that are here."""

    def __init__(self, lacking: Sequence[Package], fetch: Callable[[], int]) -> None:
        self._lacking = {p.sha256 for p in lacking}
        self._store = default_store()
        self._fetched = 0
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(fetch,), daemon=True)
        self._thread.start()

    def is_here(self, blob: Blob) -> bool:
        """Raises what made the fetching fail."""
        if blob.sha256 not in self._lacking:
            return True
        over = not self._thread.is_alive()
        if self._store.has(blob):
            return True
        if over:
            self.came()
            raise NotHere(
                f"{blob.name} was downloaded, but does not match the lock",
                why=f"{blob.size} bytes are locked; or {self._store.folder} was cleared meanwhile",
                hint=f"run the same command again; if that does not help: {GONE}",
                slug="file-differs",
            )
        return False

    def wait(self) -> None:
        """Until all is here. Raises what made the fetching fail."""
        self._thread.join()
        self.came()

    @property
    def ended(self) -> bool:
        return not self._thread.is_alive()

    def came(self) -> int:
        """How many bytes, if all is here. Raises what made the fetching fail."""
        if self._failed:
            raise self._failed
        return self._fetched

    def _run(self, fetch: Callable[[], int]) -> None:
        try:
            self._fetched = fetch()
        except BaseException as e:  # raised again where the files are wanted
            self._failed = e


@dataclass(frozen=True)
class _Shares:
    """`theirs`: what hosts can fetch. `reasons`: why this machine must fetch the rest."""

    theirs: tuple[Package, ...]
    urls: Urls
    reasons: tuple[str, ...]


def supply(work: Work, fleet: Fleet, plan: Plan, bundle: Bundle | None) -> Supply:
    """Fetch what this machine has to, and choose the carrier that brings files to hosts."""
    lock, todo = plan.chosen.lock, plan.todo
    if not todo:
        lock = sized_if_known(lock) if plan.chosen.new_lock else lock
        return Supply(lock, _from_here(work, plan))
    if bundle:
        return Supply(from_bundle.unpack(work, bundle), _from_here(work, plan))
    check_here(lock)
    if work.asked.fetch is Fetch.CONTROLLER:
        return _by_this_machine(work, plan)
    return _by_hosts(work, fleet, plan)


def _from_here(work: Work, plan: Plan, incoming: Incoming | None = None) -> Carrier:
    read = default_store().read
    push = Push(read, incoming.is_here) if incoming else Push(read)
    if not work.asked.relay or len(plan.parts) < 2:
        return push
    where = {part.host.name: part.address for part in plan.parts}
    return Relay(push, where, work.progress.say, {p.host.name: p.begun for p in plan.parts})


def _by_this_machine(work: Work, plan: Plan, before: int = 0) -> Supply:
    """Where it is known how long the files are, hosts are sent some while others are fetched."""
    found = plan.found
    missing = lacking_here(found.lock)
    if not missing or not all(p.size for p in found.lock.files):
        lock, came = fetch(work, found, missing)
        return Supply(lock, _from_here(work, plan), Moved(fetched=before + came), Fetch.CONTROLLER)
    incoming = Incoming(missing, lambda: fetch(work, found, missing)[1])
    carrier = _from_here(work, plan, incoming)
    return Supply(
        found.lock, carrier, Moved(fetched=before), Fetch.CONTROLLER, False, incoming
    )  # fmt: skip


def _by_hosts(work: Work, fleet: Fleet, plan: Plan) -> Supply:
    carrier = _from_here(work, plan)
    lock, todo = plan.found.lock, {part.host: part.state.root for part in plan.todo}
    lacking = _lacking(fleet, lock, todo)
    if not lacking:
        return Supply(sized_if_known(lock), carrier, all_here=False)
    shares = _shares(work, plan.found, lacking)
    todo = {host: root for host, root in todo.items() if host not in fleet.downs}
    decision, measured = _decided(work, fleet, shares, list(todo))
    work.progress.say(_told(decision, shares))
    if decision.fetch is Fetch.CONTROLLER:
        return _by_this_machine(work, plan, measured)
    moved = Moved(fetched=measured + _ours(work, lock, lacking, shares))
    if decision.fetch is Fetch.EACH:
        carrier = Fetching({p.sha256: shares.urls[p.sha256] for p in shares.theirs}, carrier)
    else:
        host = next(h for h in todo if h.name == decision.host)
        moved += _through(work, fleet.agents[host], todo[host], shares)
    all_here = decision.fetch is Fetch.NODE0
    return Supply(with_sizes(lock, default_store()), carrier, moved, decision.fetch, all_here)


def _lacking(fleet: Fleet, lock: Lock, todo: Roots) -> frozenset[str]:
    """What any of the hosts has not got yet. Nobody can say that of a file of unknown size."""
    blobs = [p.blob for p in lock.files]

    def one(host: Host) -> frozenset[str]:
        missing = missing_blobs(fleet.agents[host], todo[host], blobs)
        return frozenset(b.sha256 for b in missing)

    return frozenset().union(*fleet.each(one, list(todo)).values())


# --- whose file is it ----------------------------------------------------------------------------


def _shares(work: Work, found: Resolved, lacking: frozenset[str]) -> _Shares:
    files = [p for p in found.lock.files if p.sha256 in lacking and p != found.lock.cpython]
    urls = urls_of(work, found) if files else {}
    indexes = indexes_of(work)
    logins = Logins(indexes, environment())
    why_not = {p: _why_not(p, urls[p.sha256], logins, indexes) for p in files}
    theirs = tuple(p for p, reason in why_not.items() if not reason)
    return _Shares(theirs, urls, tuple(dict.fromkeys(r for r in why_not.values() if r)))


def _why_not(file: Package, url: str, logins: Logins, indexes: Indexes) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https"):
        return "some are in a folder of this machine"
    if logins.wants(url):
        return f"{parts.hostname} may require a login, and logins stay on this machine"
    if parts.scheme == "https" and indexes.trusts(url):
        return f"{parts.hostname} is trusted without a certificate, and only by this machine"
    return "" if file.size else f"{parts.hostname} does not report file sizes"


def _ours(work: Work, lock: Lock, lacking: frozenset[str], shares: _Shares) -> int:
    """Fetch what the hosts cannot. Returns the number of bytes fetched."""
    store, theirs = default_store(), {p.sha256 for p in shares.theirs}
    files = [
        p
        for p in lock.files
        if p.sha256 in lacking and p.sha256 not in theirs and not store.whole(p.blob)
    ]
    return get(work, files, shares.urls) if files else 0


# --- who -----------------------------------------------------------------------------------------


def _decided(
    work: Work, fleet: Fleet, shares: _Shares, todo: Sequence[Host]
) -> tuple[Decision, int]:
    """Who fetches, and how many bytes it took to find out."""
    asked = work.asked.fetch
    if not shares.theirs and asked is not Fetch.AUTO and shares.reasons:
        raise InputError(
            f"--fetch {asked.value}: the hosts cannot fetch any of the files",
            why="; ".join(shares.reasons),
            hint="--fetch controller   # fetches here and sends",
            slug="hosts-cannot-fetch",
        )
    if not shares.theirs or not todo:
        return Decision(Fetch.CONTROLLER, "no host can fetch any of them"), 0
    if asked is Fetch.EACH:
        return Decision(asked, ""), 0
    if asked is Fetch.NODE0:
        return Decision(asked, "", todo[0].name), 0
    store = default_store()
    missing = [p for p in shares.theirs if not store.whole(p.blob)]
    if not missing:
        return Decision(Fetch.CONTROLLER, "this machine already has the files"), 0
    return _measured(work, fleet, missing, shares.urls, todo)


def _measured(
    work: Work, fleet: Fleet, files: Sequence[Package], urls: Urls, hosts: Sequence[Host]
) -> tuple[Decision, int]:
    """Everybody asks each site for the beginning of its largest file, all at the same time."""
    work.step("", "checking who can reach the index")
    sites: dict[str, list[Package]] = {}
    for file in files:
        sites.setdefault(urlsplit(urls[file.sha256]).netloc, []).append(file)
    sizes = [sum(p.size for p in at) for at in sites.values()]
    asked = [urls[max(at, key=lambda p: p.size).sha256] for at in sites.values()]
    fetcher = Fetcher(default_store(), indexes_of(work))
    with ThreadPoolExecutor(1) as pool:
        here = pool.submit(fetcher.samples, asked, SAMPLE, SAMPLE_SECONDS)
        there = fleet.each(lambda h: blob_carriers.samples(fleet.agents[h], asked), hosts)
    came = sum(n for found in (here.result(), *there.values()) for n, _ in found)
    took = {host.name: core.seconds(sizes, found) for host, found in there.items()}
    return core.decide(core.seconds(sizes, here.result()), took, sites), came


def _told(decision: Decision, shares: _Shares) -> str:
    n = len(shares.theirs)
    files = f"{n} file{'s' * (n != 1)}"
    because = f": {decision.because}" if decision.because else ""
    if decision.fetch is Fetch.CONTROLLER:
        return f"fetched here{because}"
    who = (
        f"{decision.host} fetches {files} for all"
        if decision.host
        else f"each host fetches {files}"
    )
    rest = f"; the others are fetched here: {'; '.join(shares.reasons)}" if shares.reasons else ""
    return who + because + rest


# --- one for all ---------------------------------------------------------------------------------


def _through(work: Work, agent: Agent, root: str, shares: _Shares) -> Moved:
    """One host fetches, this machine takes the files from there: the others are sent them."""
    store, name = default_store(), agent.host.name
    wanted = [p.blob for p in shares.theirs if not store.whole(p.blob)]
    missing, fetched = missing_blobs(agent, root, wanted), 0
    if missing:
        count = counter("fetching", missing, partial(work.step, name))
        fetched = blob_carriers.fetch_there(agent, root, missing, shares.urls, count)
    count = counter(f"taking from {name}", wanted, partial(work.step, ""))
    drawn = sum(
        blob_carriers.download_from_host(agent, root, blob, store, count) for blob in wanted
    )
    return Moved(fetched=fetched, drawn=drawn)
