"""The controller's connections to the hosts of a run, one agent for each."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import field

from ipexctl import trace
from ipexctl.base.host_answer import REPORT
from ipexctl.errors import IpexctlError, RunFailed, Unreachable
from ipexctl.machines.agent import Agent
from ipexctl.machines.target import root_of
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.outcome import run_events
from ipexctl.run.outcome.outcome import HostEnd
from ipexctl.run.outcome.run_events import BadEvent, Event

WINDOW = 512 * 1024  # bytes of output that a host sends ahead of what has been painted here
LARGEST_FRAME = 1 << 20
RETRY, SLOWEST_RETRY = 0.5, 10.0  # seconds between two attempts to reach a host again

Key = int | str  # of a log: a rank, or a program of MPI


@dataclass
class Link:
    """One connection to one host's part in the run; a new one takes over where another ended."""

    name: str
    agent: Agent
    number: int = 0
    heard: float = 0.0  # any word
    at: int = 0  # up to where its journal was read
    read: dict[Key, int] = field(default_factory=dict)  # bytes of each log that came
    unshown: int = 0  # bytes of output on their way to the eyes
    owed: int = 0  # bytes painted, and not yet given back to the host
    left: int = 0  # bytes of output that were to come when its ranks had ended
    came: int = 0  # bytes of output since the end of the run
    said: set[str] = field(default_factory=set)  # what a host says once
    end: HostEnd | None = None
    lost: bool = False
    away: float = 0.0  # since when we do not reach it, while the hub may

    @property
    def open(self) -> bool:
        return not self.lost and not self.done

    @property
    def done(self) -> bool:
        """It has said its last word."""
        return self.end is not None and bool(self.end.logs)


class Cut(Unreachable):
    """The connection ended; it may be made again."""


Word = tuple[Link | None, str, Event | IpexctlError | Agent | None, int]
"""Who said it and of which host, the event, and where it is in the journal. Link None: the agent
of that host, which is reached again; with no name: nothing, but the loop is to look."""


@dataclass
class HostLinks:
    """`inbox` gets what all hosts say. `reach`: connects to a host again."""

    run_id: str
    hub: str
    root: str
    ranks: Mapping[str, frozenset[int]]  # of each host
    patience: float  # seconds for a host to take what is sent
    reach: Callable[[str], Agent] | None = None
    inbox: queue.Queue[Word] = field(default_factory=lambda: queue.Queue(512))
    links: dict[str, Link] = field(default_factory=dict)
    awaited: set[str] = field(default_factory=set)  # hosts that are being reached again
    closed: bool = False

    def start(self, link: Link, order: Mapping[str, object]) -> None:
        """Begins the host's part in the run."""
        self._open(link, "run.run_watch.start", {**order, **self._from(link)})

    def attach(self, link: Link) -> None:
        """To a part that has begun."""
        asked = {"run_id": self.run_id, "lease": self.patience, **self._from(link)}
        self._open(link, "run.run_watch.attach", asked)

    def reach_again(self, name: str) -> bool:
        """In the background: the agent will be in the inbox."""
        if self.reach is None or self.closed:
            return False
        if name not in self.awaited:
            self.awaited.add(name)
            threading.Thread(target=self._reach, args=(name, self.reach), daemon=True).start()
        return True

    def reached(self, name: str, agent: Agent) -> Link:
        """Goes on where the connection before this one was cut."""
        self.awaited.discard(name)
        before = self.links.get(name)
        link = Link(name, agent, at=before.at, read=before.read) if before else Link(name, agent)
        self.attach(link)
        return link

    def give_up(self, name: str) -> None:
        """The hub has lost it, too."""
        if name in self.links:
            self.links[name].lost = True
        self.awaited.discard(name)

    def wake(self) -> None:
        with suppress(queue.Full):  # then the loop is awake
            self.inbox.put_nowait((None, "", None, 0))

    def root_of(self, agent: Agent) -> str:
        return root_of(agent.host, self.root)

    def _from(self, link: Link) -> dict[str, object]:
        return {
            "root": self.root_of(link.agent),
            "host": link.name,
            "window": WINDOW,
            "facts": link.name == self.hub,
            "at": link.at,
            "logs": [[key, size] for key, size in link.read.items()],
        }

    def _open(self, link: Link, op: str, asked: Mapping[str, object]) -> None:
        self.links[link.name] = link
        link.heard = time.monotonic()
        link.agent.expect_frames_up_to(LARGEST_FRAME)
        link.agent.write_behind(self.patience)
        link.number = link.agent.start(op, asked)
        threading.Thread(target=self._listen, args=(link,), daemon=True).start()

    def _listen(self, link: Link) -> None:
        """One thread per host. What it reads is checked here, and waits here while we are busy."""
        name = link.name
        last: IpexctlError | None = Cut("the connection ended")
        try:
            for frame in link.agent.frames():
                link.heard = time.monotonic()
                if link.lost:
                    return
                if frame.header["id"] == link.number:
                    of = frame.header.get("host", name) if name == self.hub else name
                    event = run_events.read(of, self.ranks[of], frame.header, frame.body)
                    trace.mark(type(event).__name__, of)
                    self.inbox.put((link, of, event, run_events.place(frame.header)))
                    if isinstance(event, run_events.Done):
                        return  # what comes now answers other questions
        except BadEvent as e:
            last = RunFailed(f"the host sent an invalid message: {e}", hint=REPORT)
        except Unreachable as e:
            last = Cut(e.what, why=e.why, hint=e.hint)
        except IpexctlError as e:
            last = e
        except Exception as e:  # whatever it sends, it is this host that is lost
            last = RunFailed(f"the host sent an invalid message: {type(e).__name__}", hint=REPORT)
        self.inbox.put((link, name, last, 0))

    def _reach(self, name: str, reach: Callable[[str], Agent]) -> None:
        wait = RETRY
        while name in self.awaited and not self.closed:
            try:
                agent = reach(name)
            except IpexctlError:
                time.sleep(wait)
                wait = min(2 * wait, SLOWEST_RETRY)
            else:
                self.inbox.put((None, name, agent, 0))
                return
