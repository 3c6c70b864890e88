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
from ipexctl.common.run_orders import StartOrder
from ipexctl.common.watch_orders import WatchStart
from ipexctl.errors import IpexctlError, RunFailed, Unreachable
from ipexctl.local.run_options import RunOptions
from ipexctl.machines.agent import Agent
from ipexctl.machines.target import root_of
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.outcome import event_reader
from ipexctl.run.outcome.event_reader import Event
from ipexctl.run.outcome.run_result import HostEnd
from ipexctl.run.plan.launch import LaunchPlan

WINDOW = 512 * 1024  # bytes of output that a host may send before they are shown here
LARGEST_FRAME = 1 << 20
RETRY, SLOWEST_RETRY = 0.5, 10.0  # seconds between two attempts to reach a host again

Key = int | str  # key of a log: a rank, or a program of MPI


@dataclass(frozen=True)
class WatchedRun:
    """A run, and how this command watches it."""

    plan: LaunchPlan
    run_id: str
    options: RunOptions
    hub: str  # the host that reports what happens in the run; if it is over, any host
    attached: bool = False  # another command started it
    age: float = 0.0  # seconds since the run began


@dataclass
class HostLink:
    """A connection to one host's part in the run; a new one continues where the last one ended."""

    name: str
    agent: Agent
    number: int = 0
    heard: float = 0.0  # time of its last message
    at: int = 0  # position in its journal up to which it was read
    read: dict[Key, int] = field(default_factory=dict)  # bytes of each log that were received
    unshown: int = 0  # bytes of output that are not shown yet
    owed: int = 0  # bytes shown but not acknowledged yet
    left: float = 0  # bytes of output that were still to come when its ranks had ended
    came: int = 0  # bytes of output received since the end of the run
    end: HostEnd | None = None
    lost: bool = False
    away: float = 0.0  # time when the connection ended; the hub may still have one

    @property
    def is_open(self) -> bool:
        return not self.lost and not self.has_ended

    @property
    def has_ended(self) -> bool:
        """Return whether the host has sent its last message."""
        return self.end is not None and bool(self.end.logs)


class Cut(Unreachable):
    """The connection ended; it may be made again."""


@dataclass(frozen=True)
class LinkEvent:
    """What came over a link: an event, or how the connection failed."""

    link: HostLink
    of: str  # the host that it is about
    event: Event | IpexctlError
    at: int = 0  # where it is in the journal


@dataclass(frozen=True)
class Reached:
    """A host that was lost is reached again."""

    host: str
    agent: Agent


@dataclass
class HostLinks:
    """The links to all hosts. `inbox` gets their messages; None: only wake the loop. `reach`:
    connects to a host again."""

    run: WatchedRun
    reach: Callable[[str], Agent] | None = None
    inbox: queue.Queue[LinkEvent | Reached | None] = field(default_factory=lambda: queue.Queue(512))
    links: dict[str, HostLink] = field(default_factory=dict)
    awaited: set[str] = field(default_factory=set)  # hosts that are being reconnected
    closed: bool = False

    def __post_init__(self) -> None:
        self.ranks = {h.host: frozenset(p.rank for p in h.ranks) for h in self.run.plan.hosts}

    def start(self, link: HostLink, order: StartOrder) -> None:
        """Begin the host's part in the run."""
        self._open_link(
            link, "run.run_watch.start", {**order.document(), **self._compose_watch_start(link)}
        )

    def attach(self, link: HostLink) -> None:
        """Watch a part of the run that has begun."""
        self._open_link(link, "run.run_watch.attach", self._compose_watch_start(link))

    def reach_again(self, name: str) -> None:
        """Reconnect in the background; the inbox gets a Reached."""
        if self.reach and not self.closed and name not in self.awaited:
            self.awaited.add(name)
            threading.Thread(
                target=self._retry_connection, args=(name, self.reach), daemon=True
            ).start()

    def resume_link(self, name: str, agent: Agent) -> None:
        """Continue where the previous connection was cut."""
        self.awaited.discard(name)
        previous = self.links.get(name)
        link = (
            HostLink(name, agent, at=previous.at, read=previous.read)
            if previous
            else HostLink(name, agent)
        )
        self.attach(link)

    def give_up(self, name: str) -> None:
        """Stop waiting for a host that the hub has lost too."""
        if name in self.links:
            self.links[name].lost = True
        self.awaited.discard(name)

    def wake_loop(self) -> None:
        with suppress(queue.Full):  # a full inbox keeps the loop awake
            self.inbox.put_nowait(None)

    def root_of(self, agent: Agent) -> str:
        return root_of(agent.host, self.run.options.root)

    def _compose_watch_start(self, link: HostLink) -> dict[str, object]:
        return WatchStart(
            root=self.root_of(link.agent),
            run_id=self.run.run_id,
            host=link.name,
            lease=self.run.options.host_timeout,
            window=WINDOW,
            facts=link.name == self.run.hub,
            at=link.at,
            logs=list(link.read.items()),
        ).document()

    def _open_link(self, link: HostLink, op: str, request: Mapping[str, object]) -> None:
        self.links[link.name] = link
        link.heard = time.monotonic()
        link.agent.expect_frames_up_to(LARGEST_FRAME)
        link.agent.write_behind(self.run.options.host_timeout)
        link.number = link.agent.start(op, request)
        threading.Thread(target=self._listen_to_host, args=(link,), daemon=True).start()

    def _listen_to_host(self, link: HostLink) -> None:
        """Read and check a host's messages, in its own thread; wait while the inbox is full."""
        name = link.name
        failure: IpexctlError = Cut("the connection ended")
        try:
            for frame in link.agent.frames():
                link.heard = time.monotonic()
                if link.lost:
                    return
                if frame.header["id"] == link.number:
                    host = name
                    if name == self.run.hub:  # it passes on what others have reported
                        host = frame.header.get("host") or name
                    event = event_reader.read_host_event(
                        host, frame.header, frame.body, self.ranks[host]
                    )
                    trace.mark(type(event).__name__, host)
                    self.inbox.put(
                        LinkEvent(link, host, event, event_reader.journal_position(frame.header))
                    )
                    if isinstance(event, event_reader.RunDone):
                        return  # messages from now on answer other requests
        except Unreachable as e:
            failure = Cut(e.what, why=e.why, hint=e.hint)
        except IpexctlError as e:
            failure = e
        except Exception as e:  # an invalid message loses only this host
            failure = RunFailed(
                f"the host sent an invalid message: {type(e).__name__}",
                hint=REPORT,
                slug="agent-reply-invalid",
            )
        self.inbox.put(LinkEvent(link, name, failure))

    def _retry_connection(self, name: str, reach: Callable[[str], Agent]) -> None:
        """Try to reach the host, with growing pauses, until it answers or is given up."""
        wait = RETRY
        while name in self.awaited and not self.closed:
            try:
                agent = reach(name)
            except IpexctlError:
                time.sleep(wait)
                wait = min(2 * wait, SLOWEST_RETRY)
            else:
                self.inbox.put(Reached(name, agent))
                return
