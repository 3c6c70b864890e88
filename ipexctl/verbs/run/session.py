"""One run while it lasts: a loop over one queue, in which everything happens one at a time.

Hosts may send WINDOW bytes of output ahead of what has been painted here; so their other words are
never held up behind output, and a slow terminal costs neither memory nor the run.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from ipexctl.core.model import LaunchPlan
from ipexctl.core.plan.placement_check import Placed
from ipexctl.core.run import mpi, rank_exchange, run_events
from ipexctl.core.run.outcome import HostEnd, RunResult, Tally
from ipexctl.core.run.run_events import BadEvent, Event
from ipexctl.core.run.run_result import Ending, result_of
from ipexctl.core.run.run_state import RunState
from ipexctl.core.run.stall_watch import Health
from ipexctl.core.script.frameworks import Frameworks
from ipexctl.errors import IpexctlError, RunFailed
from ipexctl.hosts.agent import Agent
from ipexctl.hosts.target import root_of
from ipexctl.local.shipped_tables import failures
from ipexctl.verbs.run.host_link import Link
from ipexctl.verbs.run.mpi_daemons import Daemons
from ipexctl.verbs.run.run_folder import Record
from ipexctl.verbs.run.run_notices import Teller
from ipexctl.verbs.run.run_watchers import Interrupts, Painter
from ipexctl.verbs.run.start_request import Orders

PING_EVERY = 3.0
FAIL_GRACE = 3.0  # after the first failure the other ranks may still say their last words
INTERRUPT_GRACE = 10.0  # after the first Ctrl-C ranks may save
STOP_WAIT = 20.0
SLOWEST_REST = 10_000  # bytes per second, of a host that sends the rest of its output
END_WAIT = 20.0  # for mpirun, when all its ranks have ended
WINDOW = 512 * 1024
LARGEST_FRAME = 1 << 20
SPARE_LAUNCHES = 16  # that mpirun may ask for twice


_Word = tuple[str, "Event | IpexctlError | None"]


@dataclass
class Session:
    """`drive` starts the run on its hosts and returns when nothing of it is left."""

    plan: LaunchPlan
    run_id: str
    root: str
    host_timeout: float
    painter: Painter
    interrupts: Interrupts
    record: Record = field(default_factory=lambda: Record(None))
    timeout: float | None = None
    launcher: str = mpi.AGENTS
    stall: float | None = None
    secret: Mapping[str, str] = field(default_factory=dict, repr=False)
    about: Mapping[str, object] = field(default_factory=dict)  # for those who list runs
    frameworks: Frameworks | None = None
    require_together: bool = False
    all_up: Callable[[], None] = lambda: None  # is called once, when all ranks have started
    inbox: queue.Queue[_Word] = field(default_factory=lambda: queue.Queue(512))
    links: dict[str, Link] = field(default_factory=dict)
    settled: set[int] = field(default_factory=set)  # ranks whose end is known and noted
    seen_interrupts: int = 0
    stopped_by: str = ""
    deadline: float | None = None  # when what is left gets killed
    refused: str = ""  # what mpirun did that is not in the plan
    broken: str = ""  # a host that could not do its part

    def drive(self, hosts: Mapping[str, tuple[Agent, str]]) -> RunResult:
        self.state = RunState(self.plan)
        self.orders = Orders(
            self.plan, self.run_id, self.launcher, self.host_timeout, WINDOW, self.about,
            self.secret,
        )  # fmt: skip
        self.placed = Placed(self.plan)
        self.exchange = rank_exchange.Watch(self.plan, self.frameworks)
        self.health = Health(self.plan, self.host_timeout, self.stall)
        self.daemons = Daemons(
            self.state, self.launcher, self.links, self._tell, self.painter.note, self._soon
        )
        self.began = self.now = self.last_ping = time.monotonic()
        self.teller = Teller(self.state, self.painter)
        self.painter.on_shown = self._wake
        self.interrupts.armed = True
        try:
            for name, (agent, work) in hosts.items():
                ranks = next(h.ranks for h in self.plan.hosts if h.host == name)
                self.links[name] = Link(agent, work, frozenset(p.rank for p in ranks))
                self._open(name)
            while not self._over():
                self._step()
            self._stop()
        finally:
            self.interrupts.armed = False
        return self._result()

    def _over(self) -> bool:
        if self.deadline is not None and self.now >= self.deadline:
            return True
        if self.state.all_ended and (self.daemons.code is not None or self.state.all_known):
            return True
        return bool(self.refused or self.broken)

    def _step(self) -> None:
        """What has come, for a moment at most; then what is due."""
        until = time.monotonic() + 0.1
        wait = 0.1
        with suppress(queue.Empty):
            while time.monotonic() < until:
                name, event = self.inbox.get(timeout=wait)
                wait = 0.0
                self._look_at_clock()
                if name:
                    self._take(name, event)
        self._look_at_clock()
        self._give_back()
        self._ping()
        self._heed_interrupts()
        self._heed_time()
        self.teller.bars(self.now)
        if self.deadline is None:
            self.teller.stragglers(self.now)
        self.painter.tick(self._tally())

    def _wake(self) -> None:
        with suppress(queue.Full):  # then the loop is awake
            self.inbox.put_nowait(("", None))

    def _look_at_clock(self) -> None:
        """Ten times a second; if not, we were suspended, and words of the hosts lie unread."""
        away, self.now = time.monotonic() - self.now, time.monotonic()
        if away > 2.0:
            for link in self.links.values():
                link.heard = self.now
        if away > self.host_timeout:
            self.state.controller_away(away, self.host_timeout)

    # -- to the hosts --

    def _open(self, name: str) -> None:
        link = self.links[name]
        link.heard = time.monotonic()
        link.agent.expect_frames_up_to(LARGEST_FRAME)
        link.agent.write_behind(self.host_timeout)
        root = root_of(link.agent.host, self.root)
        link.number = link.agent.start("run.runs.host", self.orders.of(name, root, link.work))
        threading.Thread(target=self._listen, args=(name, link), daemon=True).start()

    def _listen(self, name: str, link: Link) -> None:
        """One thread per host. What it reads is checked here, and waits here while we are busy."""
        last: IpexctlError | None = None
        try:
            for frame in link.agent.frames():
                link.heard = time.monotonic()
                if link.lost:
                    return
                if frame.header["id"] == link.number:
                    event = run_events.read(name, link.ranks, frame.header, frame.body)
                    self.inbox.put((name, event))
                    if isinstance(event, run_events.Done):
                        return  # what comes now answers other questions
        except BadEvent as e:
            last = RunFailed(f"it sent what no host of ours sends: {e}")
        except IpexctlError as e:
            last = e
        except Exception as e:  # whatever it sends, it is this host that is lost
            last = RunFailed(f"it sent what no host of ours sends: {type(e).__name__}")
        self.inbox.put((name, last))

    def _tell(self, name: str, order: Mapping[str, object]) -> None:
        link = self.links[name]
        if not link.open:
            return
        try:
            link.agent.feed(link.number, order)
        except IpexctlError as e:
            self._lost(name, e.what)

    def _ping(self) -> None:
        silence = self.host_timeout
        if self.now - self.last_ping < min(PING_EVERY, silence / 4):
            return
        self.last_ping = self.now
        for name, link in self.links.items():
            self._tell(name, {"ping": True})
            if link.open and self.now - link.heard > silence:
                self._lost(name, f"no word from it for {silence:.0f} s")

    def _give_back(self) -> None:
        for name, size in self.painter.shown().items():
            link = self.links[name]
            link.unshown -= size
            link.owed += size
            if link.owed >= WINDOW // 4:
                self._tell(name, {"shown": link.owed})
                link.owed = 0

    def _heed_interrupts(self) -> None:
        if self.painter.gone and not self.interrupts.count:
            self.interrupts.count, self.interrupts.last = 1, self.painter.why
        if self.interrupts.count == self.seen_interrupts or self.state.stopping:
            return
        first, self.seen_interrupts = not self.seen_interrupts, self.interrupts.count
        if not first or self.interrupts.count > 1:
            self.deadline = self.now
            return
        self._interrupt(self.interrupts.last, INTERRUPT_GRACE, " Another Ctrl-C kills them now.")

    def _interrupt(self, by: str, seconds: float, more: str = "") -> None:
        self.stopped_by = by
        self.state.interrupted = True
        self.painter.interrupted()
        self._ask_to_end(by, more, seconds)

    def _heed_time(self) -> None:
        """The run's own limit, and ranks and hosts that stand still."""
        if self.state.stopping:
            return
        heard = {name: link.heard for name, link in self.links.items() if link.open}
        for text in self.health.news(self.now, heard):
            self.painter.note(text)
        for text in (self.exchange.warning(self.now), self.exchange.waiting(self.now)):
            if text:
                self.painter.note(text)
        if (frozen := self.health.frozen()) and not self.state.frozen:
            self.state.rank_frozen(frozen.rank, frozen.seconds)
            self._soon(0.0)
        if self.timeout and self.now - self.began > self.timeout and not self.state.timeout:
            self.state.timed_out(self.timeout)
            if self.state.timeout:
                self._ask_to_end(self.state.timeout)

    def _ask_to_end(self, why: str, more: str = "", seconds: float = INTERRUPT_GRACE) -> None:
        self.painter.note(
            f"{why}: passed on to the ranks as Ctrl-C; they have {seconds:.0f} s to end.{more}"
        )
        for name in self.links:
            self._tell(name, {"signal": 2, "why": why})
        self._soon(seconds)

    def _tally(self) -> Tally:
        state, loads = self.state, self.health.loads
        failed = sum(not e.ok for e in state.ends.values())
        return Tally(
            self.plan.world_size,
            state.alive,
            len(state.ends) - failed,
            failed,
            self.now - self.began,
            tuple((h.host, loads[h.host]) for h in self.plan.hosts if h.host in loads),
            tuple((end.rank, 0 if end.ok else end.exit_code) for end in state.ends.values()),
        )

    # -- from the hosts --

    def _take(self, name: str, event: Event | IpexctlError | None) -> None:
        link = self.links[name]
        if event is None or isinstance(event, IpexctlError):
            if link.open:
                why = event.what.removeprefix(f"{name}: ") if event else "its connection ended"
                self._lost(name, why)
        elif not link.lost:
            self._event(name, link, event)

    def _event(self, name: str, link: Link, event: Event) -> None:
        if fact := run_events.said_once(event):
            if fact in link.said:
                self._lost(name, f"it said twice that {fact}")
                return
            link.said.add(fact)
        match event:
            case run_events.Ready(env_file):
                self._ready(link, env_file)
            case run_events.LaunchAsked(key, argv):
                link.launches += 1
                if link.launches > len(self.links) + SPARE_LAUNCHES:
                    self._lost(name, "it asks for more launches than the run has hosts")
                else:
                    self.daemons.asked_for(name, key, argv)
            case run_events.LaunchGone(key):
                self.daemons.given_up(name, key)
            case run_events.Exited():
                self.daemons.exited(name, event)
            case run_events.RankStarted(rank, where):
                self.state.rank_started(rank)
                for text in self.placed.add(rank, where):
                    self.painter.note(text)
                self.health.spoke(rank, self.now)
                if len(self.state.started) == self.plan.world_size:
                    self.all_up()
            case run_events.RankEnded():
                self._rank_ended(name, event)
            case run_events.RankRefused(why):
                self.refused = self.refused or f"{name}: {why}"
            case run_events.Output():
                self._output(name, link, event)
            case run_events.OutputEnd(rank):
                last = self.state.output_end(rank)
                if self.painter.missed(rank):  # a flood, but its last words are shown
                    last = self.state.tails.get(rank, [])
                self.painter.output(name, rank, last, 0)
                self.painter.ended(name, rank)
                self._settle(name, rank)
            case run_events.Sample():
                self.health.sample(name, event)
            case run_events.LeaseOver(seconds):
                self._lost(
                    name,
                    f"it heard nothing from this machine for {seconds:.0f} s and ended its part",
                )
            case run_events.StopAsked(by, seconds):
                if not (self.state.interrupted or self.state.stopping):
                    self._interrupt(f"{by} (ipexctl stop)", seconds)
            case run_events.Traffic(report):
                self.exchange.add(name, report, self.now)
            case run_events.Swept(survivors, left):
                link.end, link.left = HostEnd(name, survivors, ""), left
            case run_events.Done(survivors, logs):
                link.end = HostEnd(name, survivors, logs)
            case run_events.Broken(what):
                self.broken = self.broken or f"{name}: {what}"
                link.lost = True

    def _ready(self, link: Link, env_file: str) -> None:
        if not link.env_file:
            link.env_file = env_file
            if all(link.env_file for link in self.links.values()):
                self.daemons.start()

    def _rank_ended(self, name: str, event: run_events.RankEnded) -> None:
        self.state.rank_ended(event.end)
        self.health.ended(event.end.rank)
        self.teller.last_end = self.now
        self._settle(name, event.end.rank)

    def _settle(self, name: str, rank: int) -> None:
        """What follows from a rank's end, once: its end and its last words come in any order.

        A wrapper whose rank failed is not told to go: MPI would end the others without last words.
        """
        if not self.state.settled(rank) or rank in self.settled:
            return
        self.settled.add(rank)
        if self.state.ends[rank].ok:
            self._tell(name, {"noted": rank, "ok": True})
            if self.state.all_ended:
                self._soon(END_WAIT)
        elif not (self.state.interrupted or self.state.timeout):  # they may take INTERRUPT_GRACE
            self._soon(FAIL_GRACE)

    def _output(self, name: str, link: Link, event: run_events.Output) -> None:
        size = len(event.data)
        link.unshown += size
        link.left -= size
        link.came += size
        if link.unshown > 2 * WINDOW:
            self._lost(name, "it sends more output than it may")
            return
        self.record.log(name, event.rank, event.data)
        if event.rank is not None:
            for text in self.health.spoke(event.rank, self.now):
                self.painter.note(text)
            if self.painter.full:
                self.painter.drop(name, event.rank, self.state.skim(event.rank, event.data), size)
            else:
                texts = self.state.output(event.rank, event.data)
                self.exchange.printed(event.rank, event.data, texts, self.now)
                self.painter.output(name, event.rank, texts, size)
        else:
            self.daemons.said(name, event.data)
            self.painter.output(name, -1, (), size)

    def _lost(self, name: str, why: str) -> None:
        self.links[name].lost = True
        self.state.host_lost(name, why)
        self._soon(1.0)

    def _soon(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        self.deadline = end if self.deadline is None else min(self.deadline, end)

    # -- the end --

    def _stop(self) -> None:
        """Every host ends what is left, says what it found, and sends the rest of the output.

        That may take long where the reader here is slow: one more Ctrl-C leaves the rest out.
        """
        self.state.stopping = True
        for name in self.links:
            self._tell(name, {"stop": True})
        began, patience = time.monotonic(), self.interrupts.count
        waited, before = 0.0, began  # for the hosts, not for whoever reads
        for link in self.links.values():
            link.came = 0
        while any(link.open for link in self.links.values()):
            self._step()
            waited += 0.0 if self.painter.behind else self.now - before
            before = self.now
            most = max((k.came for k in self.links.values() if k.open), default=0)
            if waited > STOP_WAIT + most / SLOWEST_REST:
                break
            if self.interrupts.count > patience and self.now - began > 1.0:
                break
            self.teller.rest_of_logs(self.now, sum(k.left for k in self.links.values() if k.open))
        self.record.lacks([name for name, link in self.links.items() if not link.done])

    def _result(self) -> RunResult:
        ending = Ending(
            self.run_id,
            time.monotonic() - self.began,
            tuple(self._host_end(h.host) for h in self.plan.hosts),
            stopped_by=self.stopped_by or (self.interrupts.last if self.seen_interrupts else ""),
            broken=self.broken,
            refused=self.refused,
            mpi_tail=tuple(self.daemons.tail),
            exchange=self.exchange.judge(completed=self.state.all_ok),
            require_together=self.require_together,
        )
        return result_of(self.state, ending, failures())

    def _host_end(self, name: str) -> HostEnd:
        end = self.links[name].end or HostEnd(name, None, "")
        return replace(end, load=self.health.overall(name))
