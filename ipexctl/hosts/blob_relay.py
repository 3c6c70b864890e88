"""From host to host: one host is sent the files, and hosts that have them give them to the others.

Every host that has all files gives them to one other host at a time, so their number doubles with
each turn, and this machine sends once. What hosts get from each other they hash like all else. A
host that cannot get at the others is sent the files from here.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum

from ipexctl.core.model import Blob, without_host
from ipexctl.core.values import plain
from ipexctl.errors import HostFailed, IpexctlError
from ipexctl.hosts.agent import Agent
from ipexctl.hosts.blob_carriers import Carrier, Moved, Tell, counter, fetch_there
from ipexctl.hosts.blob_store import Room, missing_blobs

LEAST = 32 << 20  # bytes; fewer are sent to every host
REACHED = 3.0  # seconds for a connection between two hosts


class Ways(Enum):
    """Between hosts. The first try tells."""

    UNKNOWN = "unknown"
    FOUND = "found"
    NONE = "none"


@dataclass(frozen=True)
class _Giver:
    """A host that has what others lack. `url`: without the sha256 of a file."""

    name: str
    address: str
    port: int
    token: str

    @property
    def url(self) -> str:
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"http://{host}:{self.port}/{self.token}"


class Relay:
    """`reached_at`: where other hosts reach those that will get files, by name; "": not known."""

    def __init__(
        self,
        first: Carrier,
        reached_at: Mapping[str, str],
        say: Callable[[str], None],
        least: int | None = None,
    ) -> None:
        self._least = LEAST if least is None else least
        self._first = first
        self._reached_at = reached_at
        self._say = say
        self._token = secrets.token_hex(32)
        self._change = threading.Condition()
        self._idle: list[_Giver] = []
        self._getting = 0  # hosts, which may then give
        self._to_come = len(reached_at)
        self._ways = Ways.UNKNOWN

    def bring(
        self, agent: Agent, root: str, blobs: Sequence[Blob], tell: Tell, room: Room
    ) -> Moved:
        missing = missing_blobs(agent, root, blobs)
        if sum(b.size for b in missing) < self._least:
            with self._change:
                self._to_come -= 1
            return self._first.bring(agent, root, blobs, tell, room) if missing else Moved()
        with self._turn(tell) as giver:
            moved = self._from(giver, agent, root, blobs, tell, room) if giver else None
            if moved is None:
                moved = self._first.bring(agent, root, blobs, tell, room)
            self._open(agent, root, blobs)
        return moved

    @contextmanager
    def _turn(self, tell: Tell) -> Iterator[_Giver | None]:
        """Whom this host gets the files from; None: from here."""
        with self._change:
            while self._ways is not Ways.NONE and not self._idle and self._getting:
                tell("waiting for a host that has the files", 0, 0)
                self._change.wait()
            there = self._idle if self._ways is not Ways.NONE else []
            giver = there.pop(0) if there else None
            self._to_come -= 1
            self._getting += 1
        try:
            yield giver
        except IpexctlError:  # of this host; the giver is as good as before
            with self._change:
                if giver and giver not in self._idle:
                    self._idle.append(giver)
            raise
        finally:
            with self._change:
                self._getting -= 1
                self._change.notify_all()

    def _from(
        self, giver: _Giver, agent: Agent, root: str, blobs: Sequence[Blob], tell: Tell, room: Room
    ) -> Moved | None:
        """None: that was not possible, and the giver is not asked again."""
        missing = missing_blobs(agent, root, blobs)
        if not missing:  # one home for both
            self._gave(giver)
            return Moved()
        if why := _unreached(giver, agent):
            self._lost(f"{agent.host.name} does not reach {giver.name} ({why})")
            return None
        count = counter(f"fetching from {giver.name}", missing, tell)
        urls = {b.sha256: f"{giver.url}/{b.sha256}" for b in missing}
        try:
            passed = fetch_there(agent, root, missing, urls, count, room, direct=True)
        except HostFailed as e:
            if e.slug == "no-space":  # it would be no better from here
                raise
            name = agent.host.name
            why = e.why or without_host(name, e.what)
            self._lost(f"{name} did not get all from {giver.name} ({why})")
            return None
        self._gave(giver)
        return Moved(passed=passed)

    def _gave(self, giver: _Giver) -> None:
        with self._change:
            self._ways = Ways.FOUND
            self._idle.append(giver)
            self._change.notify_all()

    def _lost(self, what: str) -> None:
        with self._change:
            known = self._ways is Ways.FOUND
            self._ways = Ways.FOUND if known else Ways.NONE
        self._say(f"{what}: {'it is' if known else 'all are'} sent the files from here")

    def _open(self, agent: Agent, root: str, blobs: Sequence[Blob]) -> None:
        """Where nobody will ask, no port is opened."""
        if not self._to_come or self._ways is Ways.NONE:
            return
        giver = self._giver(agent, root, blobs)
        with self._change:
            if giver:
                self._idle.append(giver)
            elif self._ways is Ways.UNKNOWN:
                self._ways = Ways.NONE  # else all would get theirs from here, one after the other

    def _giver(self, agent: Agent, root: str, blobs: Sequence[Blob]) -> _Giver | None:
        name = agent.host.name
        asked = {"root": root, "blobs": [b.sha256 for b in blobs], "token": self._token}
        with suppress(HostFailed):
            if address := self._reached_at.get(name, ""):
                port = agent.call("install.blob_server.open", asked).done.whole("port", 65535)
                return _Giver(name, address, port, self._token)
        return None


def _unreached(giver: _Giver, agent: Agent) -> str:
    """Why the host does not get at the giver, "" if it does."""
    asked = {"targets": [[giver.name, giver.address, giver.port]], "timeout": REACHED}
    done = agent.call("facts.host_network.connect", asked, timeout=REACHED + 10).done
    return next((plain(error) for _, error in done.rows("results", str, str)), "no answer")
