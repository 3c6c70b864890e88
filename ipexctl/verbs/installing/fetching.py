"""Who fetches: this machine, every host, or one for all. What hosts cannot fetch, this one does."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from urllib.parse import urlsplit

from ipexctl.core import fetching as core
from ipexctl.core.fetching import Decision, Fetch
from ipexctl.core.lock import Lock, Package
from ipexctl.core.model import Host
from ipexctl.errors import InputError
from ipexctl.hosts import carriers
from ipexctl.hosts.carriers import SAMPLE, SAMPLE_SECONDS, Fetching, Tell, counter
from ipexctl.hosts.fetch import Fetcher, sized
from ipexctl.hosts.fleet import fan_out
from ipexctl.hosts.indexes import Indexes
from ipexctl.hosts.logins import Logins
from ipexctl.hosts.resolver import Resolved, Urls
from ipexctl.hosts.store import Room, absent, default_store
from ipexctl.verbs.installing.carrying import check_here
from ipexctl.verbs.installing.hosts import complete
from ipexctl.verbs.installing.locking import fetch, get, indexes_of, sized_if_known, urls_of
from ipexctl.verbs.installing.work import State, Step, Work, note_downs

States = Mapping[Host, State]


@dataclass(frozen=True)
class _Shares:
    """`theirs`: what hosts can fetch. `reasons`: why this machine must fetch the rest."""

    theirs: tuple[Package, ...]
    urls: Urls
    reasons: tuple[str, ...]


def fetched(work: Work, found: Resolved, states: States, forks: int) -> Lock:
    """Afterwards every file is here, or the work's carrier knows where hosts get it."""
    check_here(found.lock)
    if work.asked.fetch is Fetch.CONTROLLER:
        work.fetch = Fetch.CONTROLLER
        return fetch(work, found)
    todo = {h: s for h, s in states.items() if not complete(s, found.lock)}
    lacking = _lacking(work, found.lock, todo, forks)
    if not lacking:
        return sized_if_known(found.lock)
    shares = _shares(work, found, lacking)
    todo = {h: s for h, s in todo.items() if h not in work.downs}
    decision = _decided(work, shares, todo, forks)
    work.fetch = decision.fetch
    work.progress.say(_told(decision, shares))
    if decision.fetch is Fetch.CONTROLLER:
        return fetch(work, found)
    _ours(work, found.lock, lacking, shares)
    if decision.fetch is Fetch.EACH:
        theirs = {p.sha256: shares.urls[p.sha256] for p in shares.theirs}
        work.carrier = Fetching(theirs, work.carrier)
    else:
        host = next(h for h in todo if h.name == decision.host)
        _through(work, host, todo[host].root, shares)
    return sized(found.lock, default_store(os.environ))


def _lacking(work: Work, lock: Lock, todo: States, forks: int) -> frozenset[str]:
    """What any of the hosts has not got yet. Nobody can say that of a file of unknown size."""
    blobs = [p.blob for p in lock.files]

    def one(host: Host) -> frozenset[str]:
        missing = absent(work.agents[host], todo[host].root, blobs)
        return frozenset(b.sha256 for b in missing)

    outcomes = fan_out(list(todo), one, forks=forks)
    note_downs(work, outcomes)
    return frozenset().union(*(o for o in outcomes.values() if isinstance(o, frozenset)))


# --- whose file is it ----------------------------------------------------------------------------


def _shares(work: Work, found: Resolved, lacking: frozenset[str]) -> _Shares:
    files = [p for p in found.lock.files if p.sha256 in lacking and p != found.lock.cpython]
    urls = urls_of(work, found) if files else {}
    indexes = indexes_of(work)
    logins = Logins(indexes, os.environ)
    why_not = {p: _why_not(p, urls[p.sha256], logins, indexes) for p in files}
    theirs = tuple(p for p, reason in why_not.items() if not reason)
    return _Shares(theirs, urls, tuple(dict.fromkeys(r for r in why_not.values() if r)))


def _why_not(file: Package, url: str, logins: Logins, indexes: Indexes) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https"):
        return "some are in a folder of this machine"
    if logins.wants(url):
        return f"{parts.hostname} may want a login, and logins stay on this machine"
    if parts.scheme == "https" and indexes.trusts(url):
        return f"{parts.hostname} is trusted without a certificate, and only by this machine"
    return "" if file.size else f"{parts.hostname} does not tell how long its files are"


def _ours(work: Work, lock: Lock, lacking: frozenset[str], shares: _Shares) -> None:
    store, theirs = default_store(os.environ), {p.sha256 for p in shares.theirs}
    files = [
        p
        for p in lock.files
        if p.sha256 in lacking and p.sha256 not in theirs and not store.whole(p.blob)
    ]
    if files:
        get(work, files, shares.urls)


# --- who -----------------------------------------------------------------------------------------


def _decided(work: Work, shares: _Shares, todo: States, forks: int) -> Decision:
    asked = work.asked.fetch
    if not shares.theirs and asked is not Fetch.AUTO and shares.reasons:
        raise InputError(
            f"--fetch {asked.value}: the hosts cannot fetch any of the files",
            why="; ".join(shares.reasons),
            hint="--fetch controller   # fetches here and sends",
        )
    if not shares.theirs or not todo:
        return Decision(Fetch.CONTROLLER, "no host can fetch any of them")
    if asked is Fetch.EACH:
        return Decision(asked, "")
    if asked is Fetch.NODE0:
        return Decision(asked, "", next(iter(todo)).name)
    store = default_store(os.environ)
    missing = [p for p in shares.theirs if not store.whole(p.blob)]
    if not missing:
        return Decision(Fetch.CONTROLLER, "this machine has the files")
    return _measured(work, missing, shares.urls, list(todo), forks)


def _measured(
    work: Work, files: Sequence[Package], urls: Urls, hosts: Sequence[Host], forks: int
) -> Decision:
    """Everybody asks each site for the beginning of its largest file, all at the same time."""
    work.progress.step(Step("", "asking who reaches the index"))
    sites: dict[str, list[Package]] = {}
    for file in files:
        sites.setdefault(urlsplit(urls[file.sha256]).netloc, []).append(file)
    sizes = [sum(p.size for p in at) for at in sites.values()]
    asked = [urls[max(at, key=lambda p: p.size).sha256] for at in sites.values()]
    fetcher = Fetcher(default_store(os.environ), indexes_of(work))
    with ThreadPoolExecutor(1) as pool:
        here = pool.submit(fetcher.samples, asked, SAMPLE, SAMPLE_SECONDS)
        there = fan_out(hosts, lambda h: carriers.samples(work.agents[h], asked), forks=forks)
    note_downs(work, there)
    came = {h.name: found for h, found in there.items() if isinstance(found, list)}
    work.fetched += sum(n for found in (here.result(), *came.values()) for n, _ in found)
    took = {name: core.seconds(sizes, found) for name, found in came.items()}
    return core.decide(core.seconds(sizes, here.result()), took, sites)


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


def _through(work: Work, host: Host, root: str, shares: _Shares) -> None:
    """One host fetches, this machine takes the files from there: the others are sent them."""
    store, agent = default_store(os.environ), work.agents[host]
    wanted = [p.blob for p in shares.theirs if not store.whole(p.blob)]
    missing = absent(agent, root, wanted)
    if missing:
        count = counter("fetching", missing, _teller(work, host.name))
        work.fetched += carriers.fetch_there(agent, root, missing, shares.urls, count, Room())
    count = counter(f"taking from {host.name}", wanted, _teller(work, ""))
    for blob in wanted:
        work.drawn += carriers.draw(agent, root, blob, store, count)


def _teller(work: Work, name: str) -> Tell:
    return lambda text, done, total: work.progress.step(Step(name, text, done, total))
