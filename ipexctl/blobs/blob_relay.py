"""Distribute blobs: the controller sends each file once, and hosts that have it pass it on.

A host takes its files in turns. What no host has yet is sent by the controller to one host at a
time; other files a host fetches from a host that has them and is not busy with another. So the
number of copies doubles with each turn. Hosts verify the hashes of files from other hosts, too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain

from ipexctl.base.blob import Blob
from ipexctl.base.host_outcome import without_host
from ipexctl.blobs.blob_store import (
    SILENCE,
    OnBytes,
    Room,
    Source,
    bytes_of,
    missing_blobs,
    read_transfer_event,
    send_blobs,
)
from ipexctl.blobs.tls_keys import Keys, make_keys
from ipexctl.common.addresses import peer_url
from ipexctl.common.blob_answers import BlobsFetched
from ipexctl.common.port_answers import PortOpened
from ipexctl.errors import HostFailed
from ipexctl.machines.agent import Agent, transfer_time
from ipexctl.machines.wire.frames import Frame
from ipexctl.quick_dataclass import dataclass

LEAST = 32 << 20  # bytes; fewer are sent to every host
POLL = 0.05  # seconds between checks for files that are being fetched
UNIT = 32 << 20  # bytes of files that are sent together
UNITS = 32  # of one host, at most: each costs a few round trips

Tell = Callable[[str, int, int], None]  # what is done, bytes so far, bytes in total


@dataclass(frozen=True)
class Moved:
    """Bytes that hosts received: `sent` from here, `passed` on by another host."""

    sent: int = 0
    passed: int = 0

    def __add__(self, other: Moved) -> Moved:
        return Moved(self.sent + other.sent, self.passed + other.passed)


class Carrier:
    """Makes blobs exist on hosts. One object serves all hosts of a command.

    `is_here`: whether a file is already fetched to the controller; it raises the error of the
    fetch. `reached_at`: where other hosts reach those that will get files, by name; "" if that is
    not known. Without it nothing is passed on.
    """

    def __init__(
        self,
        source: Source,
        reached_at: Mapping[str, str] | None = None,
        say: Callable[[str], None] = lambda text: None,
        is_here: Callable[[Blob], bool] = lambda blob: True,
        least: int | None = None,
    ) -> None:
        self._source = source
        self._reached_at = reached_at or {}
        self._say = say
        self._is_here = is_here
        self._least = LEAST if least is None else least
        self._keys: Keys = {}
        self._change = threading.Condition()
        mute = [host for host, address in self._reached_at.items() if not address]
        self._turns = Turns(self._reached_at, mute)
        self._givers: dict[str, str] = {}  # the addresses at which others get files from it
        self._told = False  # whether a failed transfer between hosts was reported; done once

    def bring(self, agent: Agent, root: str, blobs: Sequence[Blob], tell: Tell) -> Moved:
        """Put every blob under `root` on the agent's host. Called once per host, in that host's own
        thread. Raises HostFailed."""
        missing = missing_blobs(agent, root, blobs)
        if not missing:
            with self._change:
                self._turns.leave(agent.host.name)
            return Moved()
        relayed = bool(self._reached_at) and sum(blob.size for blob in missing) >= self._least
        self._join_relay(agent, blobs, missing, alone=not relayed)
        gone = True
        try:
            if len(missing) < len({blob.sha256 for blob in blobs}):
                self._open_server(agent, root, blobs)
            moved = self._take_turns(_Getter(agent, root, missing, tell), blobs)
            gone = False
        finally:
            with self._change:
                self._turns.leave(agent.host.name, gone=gone)
                self._change.notify_all()
        return moved

    def offer(self, agent: Agent, root: str, blobs: Sequence[Blob]) -> None:
        """Let a host that needs nothing give its files to others."""
        self._join_relay(
            agent, blobs, missing_blobs(agent, root, blobs), alone=not self._reached_at
        )
        with self._change:
            self._turns.leave(agent.host.name)
        self._open_server(agent, root, blobs)

    def _join_relay(
        self, agent: Agent, blobs: Sequence[Blob], missing: Sequence[Blob], *, alone: bool
    ) -> None:
        with self._change:
            self._turns.join(agent.host.name, blobs, missing, alone=alone)

    def _take_turns(self, host: _Getter, blobs: Sequence[Blob]) -> Moved:
        """Get files, turn by turn, until the host has all of them."""
        moved = Moved()
        while turn := self._next(host):
            outcome = (
                self._fetch_from_host(turn, host) if turn.giver else self._send_files(turn, host)
            )
            if isinstance(outcome, str):
                self._record_failure(turn, outcome)
                continue
            moved += outcome
            host.has(turn.blobs)
            self._open_server(host.agent, host.root, blobs)
            with self._change:
                self._turns.done(turn)
                self._change.notify_all()
        return moved

    def _next(self, host: _Getter) -> Turn | None:
        """Return the host's next turn, once there is one. None: it has everything."""
        waits = False
        with self._change:
            while self._turns.lacks(host.name):
                if turn := self._turns.next(host.name, self._is_here):
                    return turn
                if not waits:
                    host.waits()
                waits = True
                self._change.wait(POLL)
        return None

    def _send_files(self, turn: Turn, host: _Getter) -> Moved:
        count = host.make_counter("sending")
        return Moved(
            sent=send_blobs(host.agent, host.root, turn.blobs, self._source, count, Room())
        )

    def _fetch_from_host(self, turn: Turn, host: _Getter) -> Moved | str:
        """Fetch from another host; returns what came, or why that was not possible."""
        url, count = self._givers[turn.giver], host.make_counter(f"fetching from {turn.giver}")
        try:
            passed = fetch_there(host.agent, host.root, turn.blobs, url, count, self._make_keys())
        except HostFailed as e:
            if e.slug == "no-space":  # no other source would change that
                raise
            why = e.why or without_host(host.name, e.what)
            return f"{host.name} did not receive everything from {turn.giver} ({why})"
        return Moved(passed=passed)

    def _record_failure(self, turn: Turn, why: str) -> None:
        with self._change:
            self._turns.failed(turn)
            reported, self._told = self._told, True
            self._change.notify_all()
        if not reported:
            self._say(f"{why}: this machine sends them")

    def _open_server(self, agent: Agent, root: str, blobs: Sequence[Blob]) -> None:
        """Open the host's port if another host may need it."""
        name = agent.host.name
        with self._change:
            if name in self._givers or not self._turns.is_wanted_by_others(name):
                return
        hashes = [blob.sha256 for blob in blobs]
        request = {"root": root, "wanted": hashes, "keys": self._make_keys()}
        url = ""
        with suppress(HostFailed):
            port = agent.call("blobs.blob_server.open", request).done.read(PortOpened).port
            url = peer_url(self._reached_at[name], port)
        with self._change:
            if url:
                self._givers[name] = url
                self._turns.gives(name)
            else:
                self._turns.remove_giver(name)
            self._change.notify_all()

    def _make_keys(self) -> Keys:
        with self._change:
            self._keys = self._keys or make_keys()
            return self._keys


class _Getter:
    """A host that gets files, and how many of their bytes it has."""

    def __init__(self, agent: Agent, root: str, missing: Sequence[Blob], tell: Tell) -> None:
        self.agent, self.root, self.name = agent, root, agent.host.name
        self._tell, self._done = tell, 0
        self._total = sum(blob.size for blob in missing)

    def has(self, blobs: Sequence[Blob]) -> None:
        self._done += sum(blob.size for blob in blobs)

    def waits(self) -> None:
        total = self._total if self._done else 0
        self._tell("waiting for files", self._done, total)

    def make_counter(self, what: str) -> OnBytes:
        return byte_counter(what, self._total, self._tell, self._done)


def byte_counter(what: str, total: int, tell: Tell, done: int = 0) -> OnBytes:
    """Return a function that reports the sum of its arguments and of the bytes `done` before."""

    def count(n: int) -> None:
        nonlocal done
        done += n
        tell(what, done, total)

    return count


def fetch_there(
    agent: Agent, root: str, blobs: Sequence[Blob], giver: str, on_bytes: OnBytes, keys: Keys
) -> int:
    """Have the host fetch them from another host of the command, at this address. Returns the bytes
    received."""
    total = sum(blob.size for blob in blobs)

    def hear(frame: Frame) -> None:
        if event := read_transfer_event(agent, frame):
            on_bytes(bytes_of(agent, event, total, least=-total))  # less: it starts again from 0

    files = [[blob.name, blob.sha256, blob.size] for blob in blobs]
    request = {"root": root, "giver": giver, "files": files, "keys": dict(keys)}
    answer = agent.call(
        "blobs.blob_download.fetch",
        request,
        timeout=SILENCE,
        total=transfer_time(total),
        on_event=hear,
    ).done
    return answer.read(BlobsFetched).fetched


# --- the order of turns ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Turn:
    """Files for one host. `giver`: the host that gives them, "" if the controller sends them."""

    host: str
    giver: str
    blobs: tuple[Blob, ...]


class Turns:
    """Decides which host gets which files from where. It moves no bytes and never waits.

    `hosts`: all that may take part. `mute`: those that cannot give files to others. If a transfer
    between hosts fails, its giver gives no more, and the controller sends the rest to the getter.
    If the first two transfers fail, it sends everything to all hosts.
    """

    def __init__(self, hosts: Iterable[str], mute: Iterable[str]) -> None:
        self._awaited = set(hosts)  # that may still want something
        self._mute = set(mute)
        self._alone: set[str] = set()  # that get everything from the controller
        self._todo: dict[str, dict[str, Blob]] = {}  # by host: by sha256
        self._have: dict[str, set[str]] = {}  # by host: sha256
        self._now: dict[str, Turn] = {}  # by host
        self._givers: set[str] = set()  # from which others may fetch
        self._held: set[str] = set()  # sha256 of files that hosts give now or soon
        self._passed = False  # whether a host got something from another one
        self._failures = 0
        self._most = UNIT

    def join(
        self, host: str, blobs: Sequence[Blob], missing: Sequence[Blob], *, alone: bool = False
    ) -> None:
        """Add a host. `blobs`: what it has in the end; `missing` of them: in the order in which it
        wants them. `alone`: it takes no part in the relay."""
        self._todo[host] = {blob.sha256: blob for blob in missing}
        self._have[host] = {blob.sha256 for blob in blobs} - self._todo[host].keys()
        self._most = max(self._most, sum(blob.size for blob in missing) // UNITS)
        if alone:
            self._awaited.discard(host)
            self._alone.add(host)
            self.remove_giver(host)

    def gives(self, host: str) -> None:
        """Let others fetch from the host from now on."""
        self._givers.add(host)
        self._held |= self._have[host]

    def remove_giver(self, host: str) -> None:
        self._mute.add(host)
        self._givers.discard(host)
        self._update_held()

    def leave(self, host: str, *, gone: bool = False) -> None:
        """Remove a host that gets nothing more; `gone`: it gives nothing, either."""
        self._awaited.discard(host)
        self._todo.pop(host, None)
        self._now.pop(host, None)
        if gone:
            self.remove_giver(host)

    def is_wanted_by_others(self, host: str) -> bool:
        """Decide whether another host will fetch from this one."""
        return host not in self._mute and bool(self._awaited - {host})

    def lacks(self, host: str) -> bool:
        return bool(self._todo.get(host))

    def next(self, host: str, is_here: Callable[[Blob], bool]) -> Turn | None:
        """Begin the host's next turn. None: it has to wait. `is_here`: on the controller."""
        turn = self._take_from_controller(host, is_here) or self._take_from_host(host)
        if turn:
            self._now[host] = turn
            if host not in self._mute:
                self._held.update(blob.sha256 for blob in turn.blobs)
        return turn

    def done(self, turn: Turn) -> None:
        self._now.pop(turn.host, None)
        for blob in turn.blobs:
            self._todo[turn.host].pop(blob.sha256, None)
            self._have[turn.host].add(blob.sha256)
        self._passed |= bool(turn.giver)

    def failed(self, turn: Turn) -> None:
        self._now.pop(turn.host, None)
        self._failures += 1
        self._alone.add(turn.host)
        if self._failures > 1 and not self._passed:
            self._alone |= self._awaited | self._todo.keys()
        self.remove_giver(turn.giver)

    def _take_from_controller(self, host: str, is_here: Callable[[Blob], bool]) -> Turn | None:
        """Send files that others can then fetch from this host to one host at a time, so that it
        has them soon."""
        apart = self._mute | self._alone
        if host not in apart and any(not t.giver and h not in apart for h, t in self._now.items()):
            return None
        offered = set() if host in self._alone else self._held
        todo = self._todo[host].items()
        blobs = (blob for sha, blob in todo if sha not in offered and is_here(blob))
        return self._make_turn(host, "", blobs)

    def _take_from_host(self, host: str) -> Turn | None:
        busy = {turn.giver for turn in self._now.values()} | {host}
        for giver in sorted(self._givers - busy) if host not in self._alone else ():
            hashes = self._have[giver]
            blobs = (blob for sha, blob in self._todo[host].items() if sha in hashes)
            if turn := self._make_turn(host, giver, blobs):
                return turn
        return None

    def _make_turn(self, host: str, giver: str, blobs: Iterable[Blob]) -> Turn | None:
        """Take the first files, up to a size; a host that gets all from here gets them at once."""
        taken: list[Blob] = []
        size = 0
        for blob in blobs:
            size += blob.size
            if taken and size > self._most and host not in self._alone:
                break
            taken.append(blob)
        return Turn(host, giver, tuple(taken)) if taken else None

    def _update_held(self) -> None:
        coming = ([b.sha256 for b in t.blobs] for h, t in self._now.items() if h not in self._mute)
        self._held = set(chain(*(self._have[h] for h in self._givers), *coming))
