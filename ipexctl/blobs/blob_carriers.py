"""How blobs come to exist on hosts: one interface, whichever way the bytes take.

They are pushed from this machine's store, each host fetches them from an index, or hosts get them
from each other (blob_relay.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import BinaryIO, Protocol

from ipexctl.base.blob import Blob
from ipexctl.base.host_answer import REPORT, Answer
from ipexctl.blobs.blob_store import (
    SILENCE,
    Damaged,
    OnBytes,
    Room,
    Source,
    Store,
    missing_blobs,
    send,
)
from ipexctl.blobs.tls_keys import Keys
from ipexctl.errors import HostFailed
from ipexctl.install.stack.fetch_policy import Sample
from ipexctl.machines.agent import Agent, transfer_time
from ipexctl.machines.wire.frames import Frame
from ipexctl.quick_dataclass import dataclass

SAMPLE = 1 << 20
SAMPLE_SECONDS = 5.0
POLL = 0.05  # seconds between two looks for what is being fetched

Tell = Callable[[str, int, int], None]  # what is done, bytes that are there, bytes in all
Addresses = Mapping[str, str]  # by sha256


@dataclass(frozen=True)
class Moved:
    """Bytes that came to hosts from here, from an index, from another host; `drawn`: to here from
    a host."""

    sent: int = 0
    fetched: int = 0
    passed: int = 0
    drawn: int = 0

    def __add__(self, other: Moved) -> Moved:
        return Moved(
            self.sent + other.sent,
            self.fetched + other.fetched,
            self.passed + other.passed,
            self.drawn + other.drawn,
        )


class Carrier(Protocol):
    """Makes blobs exist on hosts. One object serves all hosts of an install."""

    def bring(self, agent: Agent, root: str, blobs: Sequence[Blob], tell: Tell) -> Moved:
        """Afterwards every blob is under `root` on the agent's host. Called once per host, in that
        host's own thread. Raises HostFailed."""

    def offer(self, agent: Agent, root: str, blobs: Sequence[Blob]) -> None:
        """Others may have from this host what it has."""


class Push:
    """From files here. `is_here`: of files that are still being fetched; it raises what made that
    fail."""

    verb = "sending"

    def __init__(self, source: Source, is_here: Callable[[Blob], bool] = lambda blob: True) -> None:
        self._source = source
        self.is_here = is_here

    def bring(self, agent: Agent, root: str, blobs: Sequence[Blob], tell: Tell) -> Moved:
        missing = missing_blobs(agent, root, blobs)
        if not missing:
            return Moved()
        count = counter("sending", missing, tell)
        left, moved = list(missing), Moved()
        while left:
            if some := [b for b in left if self.is_here(b)]:
                going = {b.sha256 for b in some}
                left = [b for b in left if b.sha256 not in going]
                moved += self.send(agent, root, some, count)
            else:
                time.sleep(POLL)
        return moved

    def offer(self, agent: Agent, root: str, blobs: Sequence[Blob]) -> None: ...

    def can_send(self, host: str, blob: Blob) -> bool:
        return self.is_here(blob)

    def send(self, agent: Agent, root: str, blobs: Sequence[Blob], on_bytes: OnBytes) -> Moved:
        """What is here, to a host that lacks it."""
        return Moved(sent=send(agent, root, blobs, self._source, on_bytes, Room()).bytes)


class Fetching:
    """What has an address is fetched by the host itself; the rest comes another way."""

    def __init__(self, addresses: Addresses, rest: Carrier) -> None:
        self._addresses = addresses
        self._rest = rest

    def bring(self, agent: Agent, root: str, blobs: Sequence[Blob], tell: Tell) -> Moved:
        missing = missing_blobs(agent, root, blobs)
        theirs = [b for b in missing if b.sha256 in self._addresses]
        ours = [b for b in missing if b.sha256 not in self._addresses]
        fetched = 0
        if theirs:
            count = counter("fetching", theirs, tell)
            fetched = fetch_there(agent, root, theirs, self._addresses, count)
        moved = self._rest.bring(agent, root, ours, tell) if ours else Moved()
        return replace(moved, fetched=moved.fetched + fetched)

    def offer(self, agent: Agent, root: str, blobs: Sequence[Blob]) -> None:
        self._rest.offer(agent, root, blobs)


def counter(what: str, blobs: Sequence[Blob], tell: Tell) -> OnBytes:
    """Tells the sum of what it hears, of these blobs."""
    total, done = sum(b.size for b in blobs), 0

    def count(n: int) -> None:
        nonlocal done
        done += n
        tell(what, done, total)

    return count


# --- what a host can be asked for ----------------------------------------------------------------


def fetch_there(
    agent: Agent, root: str, blobs: Sequence[Blob], addresses: Addresses, on_bytes: OnBytes,
    keys: Keys | None = None,
) -> int:  # fmt: skip
    """The host fetches them itself. `keys`: from another host of the command. Returns the
    bytes that came over its network."""

    total = sum(b.size for b in blobs)

    def hear(frame: Frame) -> None:
        if frame.header.get("event") == "got":
            got = Answer(agent.host.name, frame.header)
            on_bytes(got.whole("bytes", total, least=-total))  # less: it begins anew

    files = [[b.name, b.sha256, b.size, addresses[b.sha256]] for b in blobs]
    asked = {"root": root, "files": files, "keys": keys and dict(keys)}
    done = agent.call(
        "blobs.blob_download.fetch", asked,
        timeout=SILENCE, total=transfer_time(total), on_event=hear,
    ).done  # fmt: skip
    return done.whole("fetched")


def samples(agent: Agent, addresses: Sequence[str]) -> list[Sample]:
    """The beginning of each file, as this host gets it."""
    asked = {"addresses": list(addresses), "bytes": SAMPLE, "seconds": SAMPLE_SECONDS}
    done = agent.call("blobs.blob_download.measure", asked, timeout=SILENCE).done
    found = [(came, float(took)) for came, took in done.rows("samples", int, float)]
    if len(found) != len(addresses):
        raise _unreadable(agent)
    return found


def download_from_host(agent: Agent, root: str, blob: Blob, store: Store, on_bytes: OnBytes) -> int:
    """From a host into the store here, on from where an earlier try stopped. Returns the bytes."""
    came = 0

    def complete(out: BinaryIO) -> None:
        nonlocal came
        begin = out.seek(0, 2)
        on_bytes(begin)
        asked = {"root": root, "sha256": blob.sha256, "from": begin}
        number = agent.start("blobs.blob_download.read", asked)
        for frame in agent.answers(number, SILENCE, blob.size - begin):
            came += len(frame.body)
            if begin + came > blob.size:
                raise _unreadable(agent)
            out.write(frame.body)
            on_bytes(len(frame.body))

    try:
        store.fill(blob, complete)
    except Damaged:
        raise HostFailed(
            f"{agent.host.name}: {blob.name} arrived damaged and was discarded",
            why="its content does not have the expected sha256",
            hint="run the same command again",
            slug="damaged",
        ) from None
    except OSError as e:
        raise store.cannot_keep(blob.name, e) from None
    return came


def _unreadable(agent: Agent) -> HostFailed:
    return HostFailed(
        f"{agent.host.name}: the agent sent an invalid reply about its files",
        hint=REPORT,
        slug="invalid-reply",
    )
