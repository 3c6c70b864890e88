"""shell --mpi: plain mpirun on one host reaches the others, without keys between them.

mpirun starts our program instead of ssh; the agents of the hosts start its daemons. It has no plan
of ranks: what is typed there decides.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from ipexctl.base.typed_command import Typed
from ipexctl.errors import IpexctlError, RunFailed, Unreachable
from ipexctl.inventory.hostfile_text import fold
from ipexctl.inventory.inventory import Host, Inventory
from ipexctl.local.environment import environment
from ipexctl.local.project_lock import env_choice_of
from ipexctl.machines.agent import failure
from ipexctl.machines.fleet import Fleet
from ipexctl.machines.target import Target, all_hosts
from ipexctl.machines.wire.frames import Frame
from ipexctl.project import send_project
from ipexctl.quick_dataclass import dataclass
from ipexctl.run import run
from ipexctl.run.plan import launch_plan, mpi
from ipexctl.run.plan.launch import HostPlan, LaunchPlan
from ipexctl.run.plan.run_options import RunOptions
from ipexctl.run.prepare_hosts import each, prepare_on
from ipexctl.run.run_script import Script
from ipexctl.run.watch.start_request import Orders
from ipexctl.shell import shell

READY = 30.0  # seconds
HOSTFILE = "hostfile"  # as the guides call it
LOST = 255  # as ssh has it
MARK = "IPEXCTL_RUN_ID"  # whatever has it ends with the agents
# they follow the number of ranks per host, which nobody has said here
_COUNTED = frozenset({"OMP_NUM_THREADS", "KMP_AFFINITY", "CCL_WORKER_AFFINITY", "I_MPI_PIN"})


def run_shell(
    target: Target, name: str, command: tuple[str, ...], root: str,
    confirm: send_project.Confirm,
) -> int:  # fmt: skip
    """The exit code of `command` on the host, or of a login shell where no command is given."""
    shell.check_terminal(target, name, command, "--mpi")
    here = shell.find(target, name)
    hosts = all_hosts(target) if target.hostfile else Inventory((here,), name)
    folder = Path.cwd()
    project = send_project.project_of(folder, folder)
    snapshot = send_project.take(project, confirm, environment(), target.note)
    for text in snapshot.notes:
        target.note(text)
    with Fleet(replace(target, forks=Target.forks), root, hosts) as fleet:
        prepared = _Prepared.on(fleet, root, project)
        sent = each(
            fleet,
            lambda host: snapshot.bring(fleet.agents[host], fleet.root_of(host), prepared.run_id),
            typed=Typed(),
        )
        target.note(snapshot.told(sum(one.bytes for one in sent.values())))
        cwd = _same("works", {host.name: one.cwd for host, one in sent.items()})
        exchange = _Exchange(fleet, prepared.plan, here)
        bootstrap, programs = exchange.begin(prepared.run_id, cwd)
        target.note(_told(prepared.plan))
        env = prepared.env(here, bootstrap, f"{cwd}/{HOSTFILE}", programs)
        return shell.at_host(fleet, here, shell.remote_line(env, command, cwd))


def _told(plan: LaunchPlan) -> str:
    each_one = "-N 1" if plan.mpi.startswith("openmpi") else "-ppn 1"
    return (
        f"{mpi.title(plan.mpi)} starts ranks on {fold(host.host for host in plan.hosts)}: "
        f"mpirun -n {len(plan.hosts)} {each_one} python3 SCRIPT   # rank 0 on {plan.hosts[0].host}"
    )


@dataclass(frozen=True)
class _Prepared:
    run_id: str
    plan: LaunchPlan
    command_env: Mapping[str, tuple[tuple[str, str], ...]]  # of each host, for a person's shell

    @classmethod
    def on(cls, fleet: Fleet, root: str, project: send_project.Project) -> _Prepared:
        run_id = run.new_run_id()
        choice = env_choice_of(project.start)
        script, options = Script(project, (), env=choice), RunOptions("", root=root)
        nodes = each(
            fleet,
            lambda host: prepare_on(fleet, host, options, script, run_id, {}),
            typed=Typed(),
        )
        plan = launch_plan.plan(list(nodes.values()), launch_plan.RunRequest((), ppn=1), run_id)
        if plan.mpi == mpi.NONE:
            raise RunFailed(
                "there is no mpirun on these hosts, or none that works here",
                hint="ipexctl install --mpi intel   # or mpich, openmpi",
                slug="mpirun-missing",
            )
        _same("has its environment", {host.host: host.prefix for host in plan.hosts})
        env = {host.name: node.prepared.command_env for host, node in nodes.items()}
        return cls(run_id, plan, env)

    def env(self, here: Host, bootstrap: str, hosts: str, programs: str) -> shell.Env:
        """Of the shell. What differs on each host comes from there, where mpirun passes on all that
        it has; Open MPI's own ranks have no other."""
        host = next(h for h in self.plan.hosts if h.host == here.name)
        set_here = dict(self.command_env[here.name])
        own = _of_host(self.plan, host) if self.plan.mpi.startswith("openmpi") else {}
        more = {**_master(self.plan), **own}
        set_here["PATH"] = ":".join(filter(None, (programs, set_here.get("PATH", ""))))
        return (
            (MARK, self.run_id),
            *set_here.items(),
            *((k, v) for k, v in more.items() if k not in set_here and k != "PATH"),
            *mpi.shell_vars(self.plan.mpi, bootstrap, host.nic, hosts),
        )


def _master(plan: LaunchPlan) -> dict[str, str]:
    return {"MASTER_ADDR": plan.master_addr, "MASTER_PORT": str(plan.master_port)}


def _of_host(plan: LaunchPlan, host: HostPlan) -> dict[str, str]:
    """For mpirun's daemon there, and through it for the ranks."""
    found = {**_master(plan), **dict(host.env), **dict(host.rank_env)}
    return {name: value for name, value in found.items() if name not in _COUNTED}


def _same(what: str, found: Mapping[str, str]) -> str:
    """mpirun passes on the paths of the host where it is typed."""
    if len(set(found.values())) > 1:
        raise RunFailed(
            "the hosts keep their files in different places, and mpirun uses one path for all",
            why="; ".join(f"{host} {what} in {path}" for host, path in found.items()),
            hint="ipexctl run mpirun ...   # there each host uses its own paths",
            slug="paths-differ",
        )
    return next(iter(found.values()))


@dataclass
class _Exchange:
    """Passes what mpirun asks for to the host that it names."""

    fleet: Fleet
    plan: LaunchPlan
    here: Host  # where the shell is
    numbers: dict[Host, int] = field(default_factory=dict)  # of the operation on each host
    targets: dict[int, Host] = field(default_factory=dict)  # of each launch
    came: queue.Queue[tuple[Host, Mapping[str, Any]]] = field(default_factory=queue.Queue)

    def begin(self, run_id: str, cwd: str) -> tuple[str, str]:
        """Returns the program that mpirun starts instead of ssh, and the folder of our Python."""
        row = mpi.FLAVOURS[self.plan.mpi]
        for host, agent in self.fleet.agents.items():
            plan = next(p for p in self.plan.hosts if p.host == host.name)
            asked = {
                "root": self.fleet.root_of(host),
                "run_id": run_id,
                "env": _of_host(self.plan, plan),
                "daemons": [f"{plan.mpi_bin}/{name}" for name in sorted(row.daemons)],
                "run": self._run() if host == self.here else None,
                "hostfile": f"{cwd}/{HOSTFILE}",
                "python": f"{plan.prefix}/bin/python3",
            }
            self.numbers[host] = agent.start("run.typed_mpirun.serve", asked)
            threading.Thread(target=self._read, args=(host,), daemon=True).start()
        ready = dict(self._ready() for _ in self.numbers)
        threading.Thread(target=self._pass_on, daemon=True).start()
        return ready[self.here.name]

    def _ready(self) -> tuple[str, tuple[str, str]]:
        try:
            host, event = self.came.get(timeout=READY)
        except queue.Empty:
            raise Unreachable(
                f"some hosts sent no data for {READY:.0f} s", slug="no-answer"
            ) from None
        if event.get("event") != "ready":
            raise RunFailed(
                f"{host.name}: {event.get('why', 'it said something else')}",
                slug="mpi-shell-failed",
            )
        return host.name, (str(event.get("bootstrap")), str(event.get("bin")))

    def _read(self, host: Host) -> None:
        why = "the connection ended"
        try:
            for frame in self._frames(host):
                self.came.put((host, frame.header))
        except IpexctlError as e:
            why = e.what
        self.came.put((host, {"event": "lost", "why": why}))

    def _frames(self, host: Host) -> Iterator[Frame]:
        for frame in self.fleet.agents[host].frames():
            if frame.header.get("id") == self.numbers[host]:
                if "error" in frame.header:
                    raise failure(host, frame.header["error"])
                yield frame

    def _pass_on(self) -> None:
        while True:
            host, event = self.came.get()
            kind, key = event.get("event"), event.get("key")
            if kind == "lost":
                self._lost(host, str(event["why"]))
            elif not isinstance(key, int):
                continue
            elif kind == "launch" and host == self.here:
                self._launch(key, event)
            elif kind == "gone" and host == self.here and key in self.targets:
                self._tell(self.targets.pop(key), {"kill": key})
            elif kind == "ended" and self.targets.get(key) == host:
                says = {"exit": event.get("code"), "said": event.get("said")}
                self._answer(key, says)

    def _launch(self, key: int, event: Mapping[str, Any]) -> None:
        host = next((h for h in self.numbers if h.name == event.get("host")), None)
        if host:
            self.targets[key] = host
            self._tell(host, {"spawn": key, "argv": event.get("argv")})

    def _run(self) -> dict[str, object]:
        """As remote/hub/mpi_launch.py reads it, each host under all its names."""
        known = {h.name: h for h in self.fleet.agents}
        names = {
            p.host: {p.host, p.host.partition(".")[0], known[p.host].address or p.host}
            for p in self.plan.hosts
        }
        names[self.here.name] |= {"localhost", "127.0.0.1"}
        document = Orders(self.plan, self.plan.run_id, RunOptions("")).of_all()
        listed = document["hosts"]
        assert isinstance(listed, list)
        more = [dict(one, label=name) for one in listed for name in sorted(names[one["host"]])]
        return {**document, "hosts": [*listed, *more], "names": [*names]}

    def _lost(self, host: Host, why: str) -> None:
        for key, target in list(self.targets.items()):
            if target == host:
                self._answer(key, {"exit": LOST, "said": f"ipexctl: {host.name}: {why}\n"})

    def _answer(self, key: int, says: Mapping[str, Any]) -> None:
        self._tell(self.here, {"answer": key, "says": dict(says)})

    def _tell(self, host: Host, order: Mapping[str, Any]) -> None:
        try:
            self.fleet.agents[host].feed(self.numbers[host], order)
        except IpexctlError:
            return  # its end is heard by its reader
