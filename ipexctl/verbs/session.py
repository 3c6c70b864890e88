"""One run while it lasts: a loop over one queue, in which everything happens one at a time."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from ipexctl.core import launch
from ipexctl.core.model import LaunchPlan
from ipexctl.core.runlog import RankEnd, RunState
from ipexctl.errors import EXIT_INTERRUPTED, IpexctlError, RunFailed
from ipexctl.hosts.agent import Agent
from ipexctl.hosts.frames import Frame

PING_EVERY = 3.0
FAIL_GRACE = 5.0  # after the first failure the other ranks may still say their last words
INTERRUPT_GRACE = 10.0  # after the first Ctrl-C ranks may save
STOP_WAIT = 20.0
EXIT_HOST_LOST = 121
EXIT_MPIRUN = 122


@dataclass(frozen=True)
class HostEnd:
    """What a host said when the run was over. `survivors` None: it could not be asked."""

    host: str
    survivors: int | None
    logs: str


@dataclass(frozen=True)
class RunResult:
    run_id: str
    exit_code: int
    ended_by: str  # ranks · rank-failed · host-lost · interrupted · mpirun
    seconds: float
    plan: LaunchPlan
    hosts: tuple[HostEnd, ...]
    first: RankEnd | None = None
    tail: tuple[str, ...] = ()
    victims: tuple[RankEnd, ...] = ()
    cause: str = ""
    hidden: int = 0  # lines known to be harmless that were not shown


class View(Protocol):
    """Who watches a run."""

    def note(self, text: str) -> None: ...
    def planned(self, run_id: str, plan: LaunchPlan) -> None: ...
    def line(self, host: str, rank: int, text: str) -> None: ...
    def tick(self, state: RunState, seconds: float) -> None: ...
    def result(self, result: RunResult) -> None: ...


@dataclass
class Interrupts:
    """Counts Ctrl-C. `armed` once the run can answer to it; before, it ends the command at once."""

    count: int = 0
    armed: bool = False

    def hit(self, *_: object) -> None:
        if not self.armed:
            raise KeyboardInterrupt
        self.count += 1


@dataclass
class _Link:
    """The controller's end of one host's part in the run."""

    agent: Agent
    work: str
    number: int = 0
    ready: bool = False
    heard: float = 0.0
    end: HostEnd | None = None
    lost: bool = False


@dataclass
class Session:
    """`drive` starts the run on its hosts and returns when nothing of it is left."""

    plan: LaunchPlan
    run_id: str
    root: str
    host_timeout: float
    view: View
    interrupts: Interrupts
    inbox: queue.SimpleQueue[tuple[str, Frame | IpexctlError | None]] = field(
        default_factory=queue.SimpleQueue
    )
    links: dict[str, _Link] = field(default_factory=dict)
    launches: dict[int, str] = field(default_factory=dict)  # key -> host of that daemon
    mpirun_code: int | None = None
    mpirun_tail: list[str] = field(default_factory=list)
    seen_interrupts: int = 0
    deadline: float | None = None  # when what is left gets killed
    trouble: str = ""
    daemon: str = ""  # the first of MPI's daemons that ended before its ranks

    def drive(self, hosts: Mapping[str, tuple[Agent, str]]) -> RunResult:
        self.state = RunState(self.plan)
        self.began = self.now = time.monotonic()
        self.last_ping = self.now
        self.interrupts.armed = True
        for name, (agent, work) in hosts.items():
            self.links[name] = _Link(agent, work, heard=self.now)
            self._open(name)
        while not self._over():
            self._step(0.1)
        self._stop()
        return self._result()

    def _over(self) -> bool:
        if self.deadline is not None and self.now >= self.deadline:
            return True
        if self.state.all_ended and self.mpirun_code is not None:
            return True
        return bool(self.trouble)

    def _step(self, wait: float) -> None:
        try:
            name, frame = self.inbox.get(timeout=wait)
            self._take(name, frame)
            while True:
                name, frame = self.inbox.get_nowait()
                self._take(name, frame)
        except queue.Empty:
            pass
        self.now = time.monotonic()
        self._ping()
        self._heed_interrupts()
        self.view.tick(self.state, self.now - self.began)

    # -- to the hosts --

    def _open(self, name: str) -> None:
        link = self.links[name]
        plan = next(h for h in self.plan.hosts if h.host == name)
        python = f"{plan.prefix}/bin/python"
        ranks = [
            {
                "rank": place.rank,
                "local_rank": place.local_rank,
                "cpus": list(place.cpus),
                "env": self.plan.rank_environment(plan, place),
                "argv": [python, *self.plan.argv],
            }
            for place in plan.ranks
        ]
        asked = {
            "root": self.root,
            "run_id": self.run_id,
            "lease": self.host_timeout,
            "env": dict(plan.env),
            "cwd": link.work,
            "ranks": ranks,
            "machinefile": self.plan.machinefile,
        }
        link.number = link.agent.start("runs.host", asked)
        threading.Thread(target=self._listen, args=(name, link.agent), daemon=True).start()

    def _listen(self, name: str, agent: Agent) -> None:
        try:
            for frame in agent.frames():
                self.inbox.put((name, frame))
            self.inbox.put((name, None))
        except IpexctlError as e:
            self.inbox.put((name, e))

    def _tell(self, name: str, order: Mapping[str, object]) -> None:
        link = self.links[name]
        if link.lost or link.end:
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
            if not link.end and not link.lost and self.now - link.heard > silence:
                self._lost(name, f"no word from it for {silence:.0f} s")

    def _heed_interrupts(self) -> None:
        if self.interrupts.count == self.seen_interrupts or self.state.stopping:
            return
        self.seen_interrupts = self.interrupts.count
        if self.seen_interrupts == 1:
            self.view.note(
                f"Ctrl-C: passed on to the ranks; they have {INTERRUPT_GRACE:.0f} s to end. "
                "Again to kill them now."
            )
            self.state.interrupted = True
            for name in self.links:
                self._tell(name, {"signal": 2})
            self.deadline = self.now + INTERRUPT_GRACE
        else:
            self.deadline = self.now

    # -- from the hosts --

    def _take(self, name: str, frame: Frame | IpexctlError | None) -> None:
        link = self.links[name]
        link.heard = time.monotonic()
        if frame is None or isinstance(frame, IpexctlError):
            if not link.end:
                self._lost(name, frame.what if frame else "its connection ended")
        elif frame.header["id"] != link.number:
            return
        elif "error" in frame.header:
            self.trouble = self.trouble or f"{name}: {frame.header['error']['what']}"
            link.end = HostEnd(name, None, "")
        elif "done" in frame.header:
            done = frame.header["done"]
            link.end = HostEnd(name, len(done["survivors"]), done["logs"])
        else:
            self._event(name, frame)

    def _event(self, name: str, frame: Frame) -> None:
        event = frame.header["event"]
        handler = {
            "ready": self._ready,
            "launch": self._launch,
            "unlaunch": self._unlaunch,
            "exited": self._exited,
            "rank": self._rank,
            "log": self._log,
            "pong": lambda *_: None,
        }[event]
        handler(name, frame)

    def _ready(self, name: str, frame: Frame) -> None:
        self.links[name].ready = True
        if all(link.ready for link in self.links.values()):
            self._tell(self.node0, {"spawn": "mpirun", "argv": list(self.plan.mpirun)})

    @property
    def node0(self) -> str:
        return self.plan.hosts[0].host

    def _launch(self, name: str, frame: Frame) -> None:
        key = int(frame.header["key"])
        try:
            if name != self.node0:
                raise RunFailed(f"{name} asked for a launch, and only {self.node0} may")
            wanted = launch.read_launch(self.plan, frame.header["argv"])
        except RunFailed as e:
            self.view.note(e.what)
            self._tell(name, {"refused": key, "why": e.what})
            return
        self.launches[key] = wanted.host
        self._tell(wanted.host, {"spawn": f"daemon{key}", "argv": list(wanted.argv)})

    def _unlaunch(self, name: str, frame: Frame) -> None:
        key = int(frame.header["key"])
        if key in self.launches:
            self._tell(self.launches[key], {"kill": f"daemon{key}"})

    def _exited(self, name: str, frame: Frame) -> None:
        key, code = frame.header["key"], int(frame.header["code"])
        if frame.header.get("error"):
            self.mpirun_tail.append(f"{name}: {frame.header['error']}")
        if key == "mpirun":
            self.mpirun_code = code
            if not self.state.all_ended:
                self._soon(2.0)  # a rank's own last word may still be on its way
        else:
            if not self.state.all_ended and not self.state.stopping:
                self.daemon = self.daemon or f"MPI's daemon on {name} ended with code {code}"
                self._soon(FAIL_GRACE)
            self._tell(self.node0, {"exited": int(key.removeprefix("daemon")), "code": code})

    def _rank(self, name: str, frame: Frame) -> None:
        rank = frame.header["rank"]
        if "refused" in frame.header:
            self.trouble = f"{name}: {frame.header['refused']}"
        elif "started" in frame.header:
            self.state.rank_started(rank)
        else:
            ended = frame.header["ended"]
            for text in self.state.output_end(rank):
                self.view.line(name, rank, text)
            end = RankEnd(rank, name, ended["code"], ended["signal"], ended["lost"])
            self.state.rank_ended(end)
            if not end.ok:
                self._soon(FAIL_GRACE)

    def _log(self, name: str, frame: Frame) -> None:
        key = frame.header["key"]
        if isinstance(key, int):
            for text in self.state.output(key, frame.body):
                self.view.line(name, key, text)
        else:
            text = frame.body.decode("utf-8", "replace").strip()
            self.mpirun_tail = (self.mpirun_tail + text.splitlines())[-20:]

    def _lost(self, name: str, why: str) -> None:
        self.links[name].lost = True
        self.state.host_lost(name, why)
        self._soon(1.0)

    def _soon(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        self.deadline = end if self.deadline is None else min(self.deadline, end)

    # -- the end --

    def _stop(self) -> None:
        self.state.stopping = True
        for name in self.links:
            self._tell(name, {"stop": True})
        until = time.monotonic() + STOP_WAIT
        while time.monotonic() < until and any(
            not (link.end or link.lost) for link in self.links.values()
        ):
            self._step(0.1)

    def _result(self) -> RunResult:
        state, (ended_by, code, cause) = self.state, self._verdict()
        first = state.first if ended_by == "rank-failed" else None
        return RunResult(
            run_id=self.run_id,
            exit_code=code,
            ended_by=ended_by,
            seconds=time.monotonic() - self.began,
            plan=self.plan,
            hosts=tuple(link.end or HostEnd(name, None, "") for name, link in self.links.items()),
            first=first,
            tail=tuple(state.tails.get(first.rank, ())) if first else tuple(self.mpirun_tail),
            victims=state.victims if first else (),
            cause=cause,
            hidden=state.hidden,
        )

    def _verdict(self) -> tuple[str, int, str]:
        state = self.state
        if self.seen_interrupts:
            return "interrupted", EXIT_INTERRUPTED, "stopped by Ctrl-C"
        if state.lost_host:
            host, why = state.lost_host
            return "host-lost", EXIT_HOST_LOST, f"{host} was lost: {why}"
        if state.first:
            first = state.first
            return "rank-failed", first.exit_code, f"rank {first.rank} on {first.host} {first}"
        if self.trouble:
            return "mpirun", EXIT_MPIRUN, self.trouble
        if state.all_ok:
            return "ranks", 0, ""
        started = len(state.started)
        return (
            "mpirun",
            EXIT_MPIRUN,
            self.daemon
            or f"mpirun ended with code {self.mpirun_code} when {started} of "
            f"{self.plan.world_size} ranks had started",
        )
