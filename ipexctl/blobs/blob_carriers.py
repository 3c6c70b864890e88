"""How blobs come to exist on hosts: one interface, whichever way the bytes take.

They are pushed from this machine's store, or hosts get them from each other (blob_relay.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol

from ipexctl.base.blob import Blob
from ipexctl.base.host_answer import Answer
from ipexctl.blobs.blob_store import SILENCE, OnBytes, Room, Source, missing_blobs, send
from ipexctl.blobs.tls_keys import Keys
from ipexctl.machines.agent import Agent, transfer_time
from ipexctl.machines.wire.frames import Frame
from ipexctl.quick_dataclass import dataclass

POLL = 0.05  # seconds between two looks for what is being fetched

Tell = Callable[[str, int, int], None]  # what is done, bytes that are there, bytes in all


@dataclass(frozen=True)
class Moved:
    """Bytes that came to hosts: `sent` from here, `passed` on by another host."""

    sent: int = 0
    passed: int = 0

    def __add__(self, other: Moved) -> Moved:
        return Moved(self.sent + other.sent, self.passed + other.passed)


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

    def __init__(self, source: Source, is_here: Callable[[Blob], bool] = lambda blob: True) -> None:
        self._source = source
        self.is_here = is_here

    def bring(self, agent: Agent, root: str, blobs: Sequence[Blob], tell: Tell) -> Moved:
        missing = missing_blobs(agent, root, blobs)
        if not missing:
            return Moved()
        count = counter("sending", sum(b.size for b in missing), tell)
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

    def send(self, agent: Agent, root: str, blobs: Sequence[Blob], on_bytes: OnBytes) -> Moved:
        """What is here, to a host that lacks it."""
        return Moved(sent=send(agent, root, blobs, self._source, on_bytes, Room()))


def counter(what: str, total: int, tell: Tell, done: int = 0) -> OnBytes:
    """Tells the sum of what it hears, and of the bytes that were there before: `done`."""

    def count(n: int) -> None:
        nonlocal done
        done += n
        tell(what, done, total)

    return count


def fetch_there(
    agent: Agent, root: str, blobs: Sequence[Blob], giver: str, on_bytes: OnBytes, keys: Keys
) -> int:
    """The host fetches them from another host of the command, at this address. Returns the bytes
    that came."""

    total = sum(b.size for b in blobs)

    def hear(frame: Frame) -> None:
        if frame.header.get("event") == "got":
            got = Answer(agent.host.name, frame.header)
            on_bytes(got.whole("bytes", total, least=-total))  # less: it begins anew

    files = [[b.name, b.sha256, b.size] for b in blobs]
    asked = {"root": root, "giver": giver, "files": files, "keys": dict(keys)}
    done = agent.call(
        "blobs.blob_download.fetch", asked,
        timeout=SILENCE, total=transfer_time(total), on_event=hear,
    ).done  # fmt: skip
    return done.whole("fetched")
