"""From host to host: one host is sent the files, and hosts that have them give them to the others.

Whoever has some of the files gives them to one other host at a time, while it gets the next ones,
so their number doubles with each turn, and this machine sends once. What hosts get from each other
they hash like all else. blobs/relay_turns.py decides who is next.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from ipexctl.base.blob import Blob
from ipexctl.base.host_outcome import without_host
from ipexctl.blobs.blob_carriers import POLL, Moved, Push, Tell, counter, fetch_there
from ipexctl.blobs.blob_store import OnBytes, missing_blobs
from ipexctl.blobs.relay_turns import RelayTurns, Turn
from ipexctl.blobs.tls_keys import Keys, make_keys
from ipexctl.common.peer_url import peer_url
from ipexctl.errors import HostFailed
from ipexctl.machines.agent import Agent

LEAST = 32 << 20  # bytes; fewer are sent to every host


class Relay:
    """`reached_at`: where other hosts reach those that will get files, by name; "": not known."""

    def __init__(
        self,
        first: Push,
        reached_at: Mapping[str, str],
        say: Callable[[str], None],
        least: int | None = None,
    ) -> None:
        self._least = LEAST if least is None else least
        self._first = first
        self._reached_at = reached_at
        self._say = say
        self._keys: Keys = {}
        self._change = threading.Condition()
        mute = [h for h, at in reached_at.items() if not at]
        self._turns = RelayTurns(reached_at, mute)
        self._givers: dict[str, str] = {}  # where others get files from it
        self._told = False  # that a host did not get something from another one; said once

    def bring(self, agent: Agent, root: str, blobs: Sequence[Blob], tell: Tell) -> Moved:
        name = agent.host.name
        missing = missing_blobs(agent, root, blobs)
        if sum(b.size for b in missing) < self._least:
            with self._change:
                self._turns.leave(name)
            return self._first.bring(agent, root, blobs, tell) if missing else Moved()
        with self._change:
            self._turns.join(name, blobs, missing)
        try:
            if len(missing) < len({b.sha256 for b in blobs}):
                self._open(agent, root, blobs)
            moved = self._all(_Getter(agent, root, missing, tell), blobs)
        except BaseException:
            with self._change:
                self._turns.leave(name, gone=True)
                self._change.notify_all()
            raise
        with self._change:
            self._turns.leave(name)
            self._change.notify_all()
        return moved

    def offer(self, agent: Agent, root: str, blobs: Sequence[Blob]) -> None:
        """The host wants nothing, and gives to others what it has."""
        name = agent.host.name
        missing = missing_blobs(agent, root, blobs)
        with self._change:
            self._turns.join(name, blobs, missing)
            self._turns.leave(name)
        self._open(agent, root, blobs)
        with self._change:
            self._change.notify_all()

    def _all(self, host: _Getter, blobs: Sequence[Blob]) -> Moved:
        moved = Moved()
        while turn := self._next(host):
            with self._change:
                some = self._turns.blobs(turn)
            got = self._from(turn.giver, host, some) if turn.giver else self._send(host, some)
            if isinstance(got, str):
                self._failed(turn, got)
                continue
            moved += got
            host.has(some)
            self._open(host.agent, host.root, blobs)
            with self._change:
                self._turns.done(turn)
                self._change.notify_all()
        return moved

    def _next(self, host: _Getter) -> Turn | None:
        """The host's next turn, once there is one. None: it has everything."""
        name = host.agent.host.name
        waits = False
        with self._change:
            while self._turns.lacks(name):
                if turn := self._turns.next(name, self._first.is_here):
                    return turn
                if not waits:
                    host.waits()
                waits = True
                self._change.wait(POLL)
        return None

    def _send(self, host: _Getter, blobs: Sequence[Blob]) -> Moved:
        return self._first.send(host.agent, host.root, blobs, host.counter("sending"))

    def _from(self, giver_name: str, host: _Getter, blobs: Sequence[Blob]) -> Moved | str:
        """Or why that was not possible."""
        url, name = self._givers[giver_name], host.agent.host.name
        count = host.counter(f"fetching from {giver_name}")
        try:
            passed = fetch_there(host.agent, host.root, blobs, url, count, self._make_keys())
        except HostFailed as e:
            if e.slug == "no-space":  # it would be no better from elsewhere
                raise
            why = e.why or without_host(name, e.what)
            return f"{name} did not receive everything from {giver_name} ({why})"
        return Moved(passed=passed)

    def _failed(self, turn: Turn, why: str) -> None:
        with self._change:
            self._turns.failed(turn)
            told, self._told = self._told, True
            self._change.notify_all()
        if not told:
            self._say(f"{why}: another host or this machine sends them")

    def _open(self, agent: Agent, root: str, blobs: Sequence[Blob]) -> None:
        """Where nobody will ask, no port is opened."""
        name = agent.host.name
        with self._change:
            if name in self._givers or not self._turns.wanted_by_others(name):
                return
        url = self._served(agent, root, blobs)
        with self._change:
            if url:
                self._givers[name] = url
                self._turns.gives(name)
            else:
                self._turns.is_mute(name)

    def _served(self, agent: Agent, root: str, blobs: Sequence[Blob]) -> str:
        """Open its port; "" where that is not possible."""
        asked = {"root": root, "blobs": [b.sha256 for b in blobs], "keys": self._make_keys()}
        with suppress(HostFailed):
            if address := self._reached_at.get(agent.host.name, ""):
                port = agent.call("blobs.blob_server.open", asked).done.whole("port", 65535)
                return peer_url(address, port)
        return ""

    def _make_keys(self) -> Keys:
        with self._change:
            self._keys = self._keys or make_keys()
            return self._keys


class _Getter:
    """A host that gets files, and how many of their bytes it has."""

    def __init__(self, agent: Agent, root: str, missing: Sequence[Blob], tell: Tell) -> None:
        self.agent, self.root = agent, root
        self._tell, self._done = tell, 0
        self._total = sum(b.size for b in missing)

    def has(self, blobs: Sequence[Blob]) -> None:
        self._done += sum(b.size for b in blobs)

    def waits(self) -> None:
        total = self._total if self._done else 0
        self._tell("waiting for a host that has the files", self._done, total)

    def counter(self, what: str) -> OnBytes:
        return counter(what, self._total, self._tell, self._done)
