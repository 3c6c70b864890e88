"""mpirun on the first host and what it starts on the others; without MPI, our own starters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ipexctl.core.run import mpi, run_events
from ipexctl.core.run.run_state import Lines, RunState, ended
from ipexctl.errors import RunFailed
from ipexctl.verbs.run.host_link import Link

MPIRUN_GRACE = 2.0  # mpirun has ended: its ranks follow at once, or something else is wrong
DAEMON_GRACE = 3.0

Tell = Callable[[str, Mapping[str, object]], None]  # a host, an order for it


@dataclass
class Daemons:
    """Who asked for which of them, where it runs, and what its end means for the run."""

    state: RunState
    launcher: str
    links: Mapping[str, Link]
    tell: Tell
    note: Callable[[str], None]
    soon: Callable[[float], None]  # so many seconds are left to the ranks
    code: int | None = None  # of mpirun, when it has ended
    tail: list[str] = field(default_factory=list)  # its last words
    _over: set[int | None] = field(default_factory=set)  # those that have ended, None: mpirun
    _of_host: dict[str, Lines] = field(default_factory=dict)
    _started: dict[int, str] = field(default_factory=dict)  # key -> host of that daemon
    _by_ssh: dict[int, str] = field(default_factory=dict)  # the same, of those started by ssh

    def start(self) -> None:
        plan = self.state.plan
        if plan.mpirun:
            self.tell(self._node0, {"spawn": "mpirun", "argv": list(plan.mpirun)})
            return
        self.code = 0
        for key, host in enumerate(plan.hosts, start=1):
            self._started[key] = host.host
            self.tell(host.host, {"spawn": f"daemon{key}", "argv": list(mpi.starter(host))})

    def asked_for(self, name: str, key: int, argv: tuple[str, ...]) -> None:
        """mpirun wants a daemon: only what is in the plan is started, and only where it is."""
        try:
            if name != self._node0 or key in {*self._started, *self._by_ssh}:
                raise RunFailed(f"{name} asked for a launch that mpirun cannot want")
            wanted = mpi.read_launch(self.state.plan, argv)
        except RunFailed as e:
            self.note(e.what)
            self.tell(name, {"refused": key, "why": e.what})
            return
        if self.launcher == mpi.SSH and wanted.host != self._node0:
            to = self.links[wanted.host]
            self._by_ssh[key] = wanted.host
            argv = mpi.over_ssh(wanted, to.agent.host, to.env_file)
            self.tell(name, {"ssh": key, "argv": list(argv)})
            return
        self._started[key] = wanted.host
        self.tell(wanted.host, {"spawn": f"daemon{key}", "argv": list(wanted.argv)})

    def given_up(self, name: str, key: int) -> None:
        """mpirun has ended the program by which it asked for a daemon."""
        if name == self._node0 and key in self._started:
            self.tell(self._started[key], {"kill": f"daemon{key}"})

    def exited(self, name: str, event: run_events.Exited) -> None:
        if not self._is_of(name, event.launch) or event.launch in self._over:
            return
        self._over.add(event.launch)
        if event.error:
            self.tail.append(f"{name}: {event.error}")
        if event.launch is None:
            self.code = event.code
            self._ended("mpirun", event.code, MPIRUN_GRACE)
        elif event.launch in self._started:
            if not self.links[name].ranks <= self.state.ends.keys():
                has_mpi = bool(self.state.plan.mpi)
                who = f"MPI's daemon on {name}" if has_mpi else f"what started {name}'s ranks"
                with_mpirun = name == self._node0 and self.code is not None
                asked = event.asked or with_mpirun
                self._ended(who, event.code, DAEMON_GRACE, asked=asked)
            self.tell(self._node0, {"exited": event.launch, "code": event.code})
        else:
            host = self._by_ssh[event.launch]
            if not self.links[host].ranks <= self.state.ends.keys():
                asked = self.code is not None
                self._ended(f"{name}'s ssh to {host}", event.code, DAEMON_GRACE, asked=asked)
            self.tell(name, {"exited": event.launch, "code": event.code})

    def _is_of(self, name: str, launch: int | None) -> bool:
        """Did that host start this daemon, or mpirun?"""
        if launch is None or launch in self._by_ssh:
            return name == self._node0
        return self._started.get(launch) == name

    def said(self, name: str, data: bytes) -> None:
        lines = self._of_host.setdefault(name, Lines()).feed(data)
        self.tail = mpi.output_tail(self.tail, lines)

    def _ended(self, who: str, code: int, grace: float, *, asked: bool = False) -> None:
        """`asked`: it was killed, since mpirun had given it up for another reason."""
        if self.state.all_ended or self.state.stopping:
            return
        up, ranks = len(self.state.started), self.state.plan.world_size
        when = (
            f"while {self.state.alive} of {ranks} ranks were running"
            if up == ranks
            else f"when {up} of {ranks} ranks had started"
        )
        killed = (code < 0 or 128 < code < 128 + 65) and not asked  # 255: it gave up by itself
        self.state.mpi_ended(f"{who} {ended(code)} {when}", killed=killed)
        self.soon(grace)

    @property
    def _node0(self) -> str:
        return self.state.plan.hosts[0].host
