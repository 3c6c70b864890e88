"""The steps on each host: send, build, prove, switch. A failure leaves `current` unchanged."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from ipexctl.base.host_answer import Answer
from ipexctl.base.host_outcome import HostResult, HostState
from ipexctl.blobs.blob_relay import Carrier, Moved
from ipexctl.blobs.blob_store import Room, default_store, need_room
from ipexctl.common.env_answers import EnvFound, HostMpiAnswer, ProjectEnv
from ipexctl.common.install_answers import EnvChanged, EnvProof, EnvState
from ipexctl.errors import HostFailed, IpexctlError
from ipexctl.facts.mpi_install_facts import Mpi
from ipexctl.install.fetch_wheels import Supply
from ipexctl.install.install_plan import HostInstall, Plan, Work
from ipexctl.install.lock_wheels import in_order
from ipexctl.inventory.inventory import Host
from ipexctl.local.project_lock import project_of
from ipexctl.machines.agent import LONG, Agent
from ipexctl.machines.fleet import SILENCE, Fleet
from ipexctl.machines.wire.frames import Frame
from ipexctl.stack import mpi
from ipexctl.stack import selection as stacks
from ipexctl.stack.lock_file import Lock
from ipexctl.stack.mpi import Pairs
from ipexctl.terminal.progress import BUILDING, DONE, PROVING, ProgressStep


def state_of(
    fleet: Fleet,
    host: Host,
    key: str,
    project: ProjectEnv,
    own: str = "",
    used: str = "",
) -> EnvState:
    """Return what the host has of an environment. `own`: "system" if it uses the host's own MPI.
    `used`: the environment that the project uses so far."""
    op = "install.env_marks.state"
    answer = fleet.call(host, op, key=key, mpi=own, project=project.id, used=used)
    return answer.read(EnvState)


def dry_run_recaps(plan: Plan, *, agreed: bool) -> dict[Host, HostResult]:
    """Return the recaps of a dry run."""
    return {part.host: _predict_install(part, plan.lock.key, agreed=agreed) for part in plan.parts}


def _predict_install(part: HostInstall, key: str, *, agreed: bool) -> HostResult:
    name, state = part.host.name, part.state
    if part.complete:
        return HostResult(name, HostState.OK, f"has {key}")
    if not agreed:
        return HostResult(name, HostState.SKIPPED, "you answered no")
    suffix = f", is {state.current}" if state.current else ""
    return HostResult(name, HostState.CHANGED, f"would become {key}{suffix}", notes=part.notes)


def on_hosts(
    work: Work, fleet: Fleet, plan: Plan, supply: Supply
) -> tuple[dict[Host, HostResult], Moved]:
    """Apply the plan. The bytes moved include those to hosts that failed afterwards."""
    relay = work.asked.relay and len(plan.parts) > 1
    reached_at = {part.host.name: part.address for part in plan.parts} if relay else {}
    read, say = default_store().read, work.progress.say
    carrier = Carrier(read, reached_at, say, supply.is_here)
    parts = {part.host: part for part in plan.parts if part.host not in fleet.downs}
    building = any(part.needs_build for part in parts.values())
    moved: dict[Host, Moved] = {}

    def apply(host: Host) -> HostResult:
        part, built = parts[host], False
        steps = _InstallOnHost(
            fleet.agents[host], part.state.root, plan, supply.lock, carrier, work.progress.step
        )
        if part.complete:
            if not part.state.asked:
                steps.note_project()
            if building:
                steps.offer_files()
            return steps.make_recap(HostState.OK, "nothing to do")
        if part.needs_build:
            # unpacked, they take at least as much again; the host checks before each wheel
            room = Room(2 * part.to_send, len(part.lacking))
            need_room(fleet.agents[host], part.state.root, room)
            rebuild = part.state.mark if part.needs_rebuild else ""
            with steps.start_build(rebuild) as build:
                moved[host] = steps.send_files()
            built = steps.wait_for_build(build)
        supply.wait_for_files()
        proved, switched = steps.prove_build(), steps.make_current()
        work.switched.append(host.name)
        steps.report_step(DONE)
        state = HostState.CHANGED if built or switched else HostState.OK
        sent = moved.get(host, Moved()).sent
        return steps.make_recap(state, proved, notes=part.notes, sent=sent)

    recaps = fleet.map_hosts(work.progress.track(apply), list(parts))
    return recaps, sum(moved.values(), Moved())


Modules = Sequence[tuple[str, str, str]]  # name, distribution, version


class EnvOnHost:
    """An environment on one host: prove it, switch to it, report it. Raises HostFailed."""

    def __init__(
        self,
        agent: Agent,
        root: str,
        key: str,
        project: ProjectEnv,
        step: Callable[[ProgressStep], None],
    ) -> None:
        self.host = agent.host.name
        self.key, self.prefix = key, f"{root}/envs/{key}"
        self._agent = agent
        self._ours = {"root": root, "key": key}
        self.project = project
        self._step = step
        self._doing = ""
        self._began = time.monotonic()

    def call(self, op: str, **values: object) -> Answer:
        return self._call(op, {**self._ours, **values})

    def _call(self, op: str, request: Mapping[str, object]) -> Answer:
        return self._agent.call(
            op, request, timeout=SILENCE, total=LONG, on_event=self._show_progress
        ).done

    def prove(
        self,
        starter: Mpi | None,
        env: Pairs,
        modules: Modules,
        *,
        system: bool,
        requested: Sequence[tuple[str, str]] = (),
    ) -> str:
        """Prove the environment; returns what was proved, in words. `system`: `starter` is the
        host's own MPI. `requested`: distributions and their versions, imported after `modules`."""
        self._begin_step(PROVING)
        answer = self.call(
            "install.environments.prove",
            mpi=mpi.SYSTEM if system else "",
            mpirun=mpi.single_host_command(starter, 2) if starter else [],
            modules=[list(row) for row in modules],
            requested=[list(row) for row in requested],
            env=[list(pair) for pair in (*env, *mpi.single_host_vars(starter))],
        )
        proof = answer.read(EnvProof)
        names = proof.imported
        rest = f" and {len(names) - 3} more" if len(names) > 3 else ""
        imports = f", imports {', '.join(names[:3])}{rest}" if names else ""
        return stacks.proved_text(proof) + imports

    def own_mpi(self, **values: object) -> Mpi:
        """Return the host's mpirun."""
        found = self._call("run.run_environment.find_mpirun", values).read(HostMpiAnswer).system
        recognised = mpi.recognise_mpi(found)
        if recognised is None:
            raise mpi.no_mpirun(self.host, found)
        return recognised

    def make_current(self) -> bool:
        """Make the environment current. Returns False if it already was."""
        answer = self.call("install.environments.switch", project=self.project.document())
        return answer.read(EnvChanged).changed

    def note_project(self) -> None:
        """Record on the host that this project uses the environment, which is current already."""
        self.call("install.env_users.ask", project=self.project.document())

    def make_recap(
        self, state: HostState, detail: str, *, notes: tuple[str, ...] = (), sent: int = 0
    ) -> HostResult:
        return HostResult(self.host, state, detail, time.monotonic() - self._began, notes, sent)

    def report_step(self, text: str, done: int = 0, total: int = 0) -> None:
        self._step(ProgressStep(self.host, text, done, total))

    def _begin_step(self, text: str) -> None:
        self._doing = text
        self.report_step(text)

    def _show_progress(self, frame: Frame) -> None:
        """Show progress; any frame from the host while it works is a sign of life."""
        if frame.header.get("event") == "waiting":
            self.report_step("waiting for another install")
        elif self._doing:
            self.report_step(self._doing)


class _InstallOnHost(EnvOnHost):
    """An environment built from the files of a lock."""

    def __init__(
        self,
        agent: Agent,
        root: str,
        plan: Plan,
        lock: Lock,
        carrier: Carrier,
        step: Callable[[ProgressStep], None],
    ) -> None:
        super().__init__(agent, root, lock.key, project_of(plan.folder), step)
        self._root = root
        self._stack = plan.found.stack
        self._lock = lock
        self._carrier = carrier

    def offer_files(self) -> None:
        with suppress(HostFailed):  # it has what it needs
            blobs = [package.blob for package in self._lock.files]
            self._carrier.offer(self._agent, self._root, blobs)

    def send_files(self) -> Moved:
        blobs = [package.blob for package in in_order(self._lock)]
        return self._carrier.bring(self._agent, self._root, blobs, self.report_step)

    @contextmanager
    def start_build(self, rebuild: str) -> Iterator[int]:
        """Build while files are sent inside the context; the host unpacks what has arrived.
        `rebuild`: the mark of the build that is replaced."""
        cpython = self._lock.cpython
        number = self._agent.start_beside(
            "install.environments.build",
            {
                **self._ours,
                "python": self._stack.interpreter(self.host),
                "wheels": [[p.file, p.sha256, p.size] for p in self._lock.packages],
                "uv": [self._lock.uv.sha256, self._lock.uv.size],
                "cpython": [cpython.sha256, cpython.size] if cpython else [],
                "rebuild": rebuild,
            },
        )
        try:
            yield number
        except BaseException:
            with suppress(IpexctlError):  # its connection may be what failed
                self._agent.feed(number, {"abort": True})
            raise
        self._agent.feed(number, {"all": True})

    def wait_for_build(self, number: int) -> bool:
        """Wait for the build. Returns False if another install built it meanwhile."""
        self._begin_step(BUILDING)
        answer = self._agent.wait(
            number, timeout=SILENCE, total=LONG, on_event=self._show_progress
        ).done
        return answer.read(EnvChanged).changed

    def prove_build(self) -> str:
        """Start ranks and import the packages in the new environment; return what was proved."""
        system = self._lock.mpi == mpi.SYSTEM
        packages = {package.name: package.version for package in self._lock.packages}
        starter = self.own_mpi() if system else mpi.in_packages(packages, self.prefix)
        sourced, env = self._with_setvars(mpi.env_vars(self.prefix, starter))
        modules = stacks.stack_modules(self._stack.row, self._lock.version)
        return (
            self.prove(starter, env, modules, system=system, requested=self._lock.requested)
            + f" with this host's {starter}" * system
            + ", setvars.sh sourced" * sourced
        )

    def _with_setvars(self, pairs: Pairs) -> tuple[bool, Pairs]:
        """Return whether the environment has a setvars script of the bindings, and the variables of
        a process that uses them."""
        if not self._stack.row.oneccl:
            return False, pairs
        request = {"root": self._ours["root"], "environment": self.key, "run_id": "proof"}
        setvars = self._call("run.run_environment.find", request).read(EnvFound).setvars
        return bool(setvars), mpi.with_setvars(pairs, setvars)
