"""run: facts -> plan -> snapshot -> mpirun on node0 -> events -> one result."""

from __future__ import annotations

import queue
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

from ipexctl.core import launch
from ipexctl.core.launch import Node, RunRequest
from ipexctl.core.model import Host, HostDown, LaunchPlan, Prepared
from ipexctl.core.runlog import RankEnd, RunState
from ipexctl.core.stack import env_vars
from ipexctl.errors import EXIT_INTERRUPTED, IpexctlError, RunFailed, Unreachable
from ipexctl.hosts.agent import Agent, connect
from ipexctl.hosts.fleet import fan_out
from ipexctl.hosts.frames import Frame
from ipexctl.verbs import sync
from ipexctl.verbs.facts import ROOT, probe
from ipexctl.verbs.target import AnyTransport, Target, inventory

PING_EVERY = 3.0
HOST_SILENCE = 30.0
FAIL_GRACE = 5.0  # after the first failure the other ranks may still say their last words
INTERRUPT_GRACE = 10.0  # after the first Ctrl-C ranks may save
STOP_WAIT = 20.0
EXIT_HOST_LOST = 121
EXIT_MPIRUN = 122

T = TypeVar("T")


@dataclass(frozen=True)
class RunOptions:
    script: str
    args: tuple[str, ...] = ()
    module: bool = False
    n: int | None = None
    ppn: int | None = None
    root: str = ROOT
    env: tuple[tuple[str, str], ...] = ()
    forks: int = 64


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


def run(target: Target, options: RunOptions, view: View, interrupts: Interrupts) -> RunResult:
    """Raises IpexctlError when it never came to ranks; otherwise the result tells how it went."""
    hosts = inventory(target)
    snapshot = sync.take(_folder(options))
    for note in snapshot.notes:
        view.note(note)
    transport = AnyTransport(target, hosts)
    agents: dict[Host, Agent] = {}
    try:
        run_id = new_run_id()
        nodes = _each(
            hosts.hosts, lambda h: _prepare(h, transport, target, options, agents), options.forks
        )
        run_dir = f"{options_root(nodes)}/runs/{run_id}"
        request = RunRequest(_argv(options), options.n, options.ppn, options.env)
        plan = launch.plan(list(nodes.values()), request, run_dir)
        used = {h: a for h, a in agents.items() if any(p.host == h.name for p in plan.hosts)}
        view.planned(run_id, plan)
        sent = _each(
            list(used),
            lambda h: sync.send(agents[h], options.root, run_id, snapshot),
            options.forks,
        )
        travelled = sum(count for _, count in sent.values())
        view.note(
            f"{len(snapshot.files)} files of {snapshot.folder} on {len(sent)} hosts, "
            f"{travelled / 1000:.1f} kB sent"
        )
        session = _Session(plan, run_id, options.root, view, interrupts)
        result = session.drive({h.name: (used[h], sent[h][0]) for h in used})
        view.result(result)
        return result
    finally:
        for agent in list(agents.values()):
            agent.close()
        transport.close()


def new_run_id() -> str:
    return time.strftime("%Y%m%d-%H%M%S-", time.gmtime()) + secrets.token_hex(3)


def options_root(nodes: Mapping[Host, Node]) -> str:
    """The root folder on node0, as an absolute path."""
    return next(iter(nodes.values())).facts.disk.root


def _folder(options: RunOptions) -> Path:
    if options.module:
        return Path.cwd()
    script = Path(options.script)
    if not script.is_file():
        raise RunFailed(
            f"there is no script {options.script}",
            why=f"looked in {Path.cwd()}",
            hint="ipexctl run [OPTIONS] SCRIPT [ARGUMENTS]",
            exit_code=2,
        )
    return script.resolve().parent


def _argv(options: RunOptions) -> tuple[str, ...]:
    if options.module:
        return ("-m", options.script, *options.args)
    return (Path(options.script).name, *options.args)


def _prepare(
    host: Host,
    transport: AnyTransport,
    target: Target,
    options: RunOptions,
    agents: dict[Host, Agent],
) -> Node:
    agent = agents[host] = connect(transport, host, timeout=target.connect_timeout)
    if agent.hello.kind != "python":
        raise RunFailed(
            f"{host.name}: no Python 3.6 or newer there", hint="ipexctl doctor", exit_code=123
        )
    facts = probe(agent, options.root)
    done = agent.call("runs.prepare", {"root": options.root}).done
    packages = dict(done["packages"])
    if not done["mpirun"]:
        raise RunFailed(
            f"{host.name}: there is no mpirun in {done['prefix']}",
            hint="ipexctl install",
            exit_code=123,
        )
    mpi_env = env_vars(done["prefix"], packages.get("impi-rt", ""))
    prepared = Prepared(
        done["prefix"], tuple(packages.items()), tuple(mpi_env), done["path"], done["port"]
    )
    return Node(host, facts, prepared)


def _each(hosts: Sequence[Host], work: Callable[[Host], T], forks: int) -> dict[Host, T]:
    """The same on all hosts, and all must succeed: a training needs every one of them."""
    outcomes = fan_out(hosts, work, forks=forks)
    downs = [o for o in outcomes.values() if isinstance(o, HostDown)]
    if downs:
        raise _together(downs, len(hosts))
    return {h: o for h, o in outcomes.items() if not isinstance(o, HostDown)}


def _together(downs: Sequence[HostDown], total: int) -> IpexctlError:
    first = downs[0]
    unreachable = {"unreachable", "host-key-unknown", "host-key-changed"}
    kind = Unreachable if any(d.slug in unreachable for d in downs) else RunFailed
    if len(downs) == 1:
        return kind(first.what, why=first.why, hint=first.hint)
    lines = "\n".join(d.what for d in downs)
    return kind(f"{len(downs)} of {total} hosts cannot run this", why=lines, hint=first.hint)


# --- the run itself ------------------------------------------------------------------------------


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
class _Session:
    """One loop over one queue: everything that happens in a run happens here, one at a time."""

    plan: LaunchPlan
    run_id: str
    root: str
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
            "lease": HOST_SILENCE,
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
        if self.now - self.last_ping < PING_EVERY:
            return
        self.last_ping = self.now
        for name, link in self.links.items():
            self._tell(name, {"ping": True})
            if not link.end and not link.lost and self.now - link.heard > HOST_SILENCE:
                self._lost(name, f"no word from it for {HOST_SILENCE:.0f} s")

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
            f"mpirun ended with code {self.mpirun_code} when {started} of "
            f"{self.plan.world_size} ranks had started",
        )
