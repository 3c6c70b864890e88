"""install --use-env: an environment that the hosts have already becomes what `run` uses."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ipexctl.core import borrow, mpi
from ipexctl.core import stack as stacks
from ipexctl.core.answer import Answer
from ipexctl.core.borrow import Look
from ipexctl.core.model import Host, HostRecap, Recap
from ipexctl.core.rows import Row
from ipexctl.core.software import Mpi
from ipexctl.errors import HostFailed, InputError
from ipexctl.hosts.agent import Agent, connect
from ipexctl.hosts.fleet import fan_out
from ipexctl.verbs.envs import exit_code
from ipexctl.verbs.installing.work import (
    SILENCE,
    Install,
    State,
    Step,
    Work,
    note_downs,
    read_state,
    recap_of,
)
from ipexctl.verbs.installing.work import Progress as InstallProgress
from ipexctl.verbs.last import remember
from ipexctl.verbs.target import AnyTransport, Target, inventory, root_of
from ipexctl.verbs.versions import table


@dataclass(frozen=True)
class Borrowed:
    """`looks`: of the hosts that have it. `row` None: `why` no row of the table is like it."""

    path: str
    key: str
    looks: tuple[Look, ...]
    row: Row | None
    why: str
    recaps: tuple[HostRecap, ...] = ()
    seconds: float = 0.0
    check: bool = False

    @property
    def exit_code(self) -> int:
        return exit_code(self.recaps)


@dataclass(frozen=True)
class UseEnv:
    """`system_mpi`: the hosts' own mpirun, where the environment has none."""

    path: str
    root: str
    system_mpi: bool = False
    check: bool = False


@dataclass(frozen=True)
class Progress:
    found: Callable[[Borrowed], None] = lambda found: None
    step: Callable[[Step], None] = lambda step: None


def use_env(target: Target, asked: UseEnv, progress: Progress) -> Borrowed:
    """Raises InputError where the hosts' environments are of no use together."""
    began = time.monotonic()
    hosts = inventory(target)
    work = Work(Install(root=asked.root), InstallProgress(step=progress.step))
    transport = AnyTransport(target, hosts)
    try:
        looks = _looked(work, transport, hosts.hosts, asked, target)
        found = _judged(asked, tuple(looks.values()))
        if looks:
            progress.found(found)
        states = _states(work, looks, found.key, target.forks)
        if asked.check:
            recaps = {h: _would(h, s, found.key) for h, s in states.items()}
        else:
            recaps = _taken(work, asked, found, looks, states, target.forks)
    finally:
        for agent in list(work.agents.values()):
            agent.close()
        transport.close()
    recaps |= {host: recap_of(down, began) for host, down in work.downs.items()}
    ordered = tuple(recaps[host] for host in hosts.hosts)
    if not asked.check:
        remember(hosts, {r.host: r.state.value for r in ordered}, "install")
    return Borrowed(
        found.path, found.key, found.looks, found.row, found.why, ordered,
        time.monotonic() - began, asked.check,
    )  # fmt: skip


def _looked(
    work: Work, transport: AnyTransport, hosts: Sequence[Host], asked: UseEnv, target: Target
) -> dict[Host, Look]:
    def one(host: Host) -> Look:
        work.progress.step(Step(host.name, "connecting"))
        agent = work.agents[host] = connect(transport, host, timeout=target.connect_timeout)
        if agent.hello.kind != "python":
            raise HostFailed(f"{host.name}: no Python 3.6 or newer there", hint="ipexctl doctor")
        work.progress.step(Step(host.name, "looking"))
        header = {"root": root_of(host, asked.root), "path": asked.path}
        done = agent.call("borrow.look", header, timeout=SILENCE).done
        try:
            look = borrow.read_look(host.name, done)
        except ValueError as e:
            raise HostFailed(f"{host.name}: its environment is not readable ({e})") from None
        if not look.torch:
            raise HostFailed(f"{host.name}: there is no torch in {look.path}")
        return look

    outcomes = fan_out(hosts, one, forks=target.forks)
    note_downs(work, outcomes)
    return {h: o for h, o in outcomes.items() if isinstance(o, Look)}


def _judged(asked: UseEnv, looks: tuple[Look, ...]) -> Borrowed:
    if different := borrow.disagreement(looks):
        raise InputError(
            f"the environments at {asked.path} are not the same on all hosts",
            why=f"{different}; ranks exchange what Python and torch have packed",
            hint="ipexctl install   # makes the same one on all hosts",
        )
    row, why = borrow.row_of(looks[0], table()) if looks else (None, "")
    return Borrowed(asked.path, borrow.key_of(asked.path), looks, row, why)


def _states(work: Work, looks: Mapping[Host, Look], key: str, forks: int) -> dict[Host, State]:
    def one(host: Host) -> State:
        asked = {"root": root_of(host, work.asked.root), "key": key, "mpi": ""}
        done = work.agents[host].call("marks.state", asked, timeout=SILENCE).done
        return read_state(host.name, done, again=False)

    outcomes = fan_out(list(looks), one, forks=forks)
    note_downs(work, outcomes)
    return {h: s for h, s in outcomes.items() if isinstance(s, State)}


def _would(host: Host, state: State, key: str) -> HostRecap:
    if state.built and state.current == key and not state.stale:
        return HostRecap(host.name, Recap.OK, "uses it already")
    now = f", uses {state.current}" if state.current else ""
    return HostRecap(host.name, Recap.CHANGED, f"would use it{now}")


def _taken(
    work: Work, asked: UseEnv, found: Borrowed, looks: Mapping[Host, Look],
    states: Mapping[Host, State], forks: int,
) -> dict[Host, HostRecap]:  # fmt: skip
    def one(host: Host) -> HostRecap:
        return _OneHost(work, asked, found, work.agents[host], looks[host]).use(states[host])

    outcomes = fan_out(list(states), one, forks=forks)
    note_downs(work, outcomes)
    return {h: r for h, r in outcomes.items() if isinstance(r, HostRecap)}


class _OneHost:
    """Links, proof, switch; what fails raises, and `current` stays what it was."""

    def __init__(
        self, work: Work, asked: UseEnv, found: Borrowed, agent: Agent, look: Look
    ) -> None:
        self._work = work
        self._asked = asked
        self._found = found
        self._agent = agent
        self._look = look

    def use(self, state: State) -> HostRecap:
        began = time.monotonic()
        name, ours = self._look.host, {"root": state.root, "key": self._found.key}
        taken = self._call("borrow.take", {**ours, "path": self._asked.path}).flag("built")
        starter, system = self._mpi(state.root)
        whole = state.built and not taken and self._proved(ours, system=system)
        if whole and state.current == self._found.key:
            return HostRecap(name, Recap.OK, "nothing to do", time.monotonic() - began)
        said = "" if whole else self._prove(ours, starter, system=system)
        self._call("envs.switch", ours)
        notes = () if starter else ("no mpirun: `run` starts the ranks itself",)
        seconds = time.monotonic() - began
        return HostRecap(name, Recap.CHANGED, said or "as it was proved before", seconds, notes)

    def _proved(self, ours: Mapping[str, str], *, system: bool) -> bool:
        asked = {**ours, "mpi": mpi.SYSTEM if system else ""}
        return self._call("marks.state", asked).flag("proved")

    def _prove(self, ours: Mapping[str, str], starter: Mpi | None, *, system: bool) -> str:
        self._work.progress.step(Step(self._look.host, "proving"))
        prefix = f"{ours['root']}/envs/{self._found.key}"
        env = (*mpi.env_vars(prefix, starter), *mpi.alone_vars(starter))
        asked = {
            **ours,
            "mpi": mpi.SYSTEM if system else "",
            "mpirun": mpi.alone(starter, 2) if starter else [],
            "modules": [list(m) for m in borrow.modules(self._look, self._found.row)],
            "env": [list(pair) for pair in env],
        }
        with_it = f" with {starter}" if starter and system else ""
        return stacks.proved_text(self._call("envs.prove", asked)) + with_it

    def _mpi(self, root: str) -> tuple[Mpi | None, bool]:
        """What starts its ranks, and whether it must be looked for again at each run."""
        prefix = f"{root}/envs/{self._found.key}"
        if wheel := mpi.in_packages(self._look.packages, prefix):
            return wheel, False
        if not (self._look.mpirun or self._asked.system_mpi):
            return None, False
        said = self._call("prepare.mpirun", {"prefix": prefix})["system"]
        try:
            found = mpi.of_host(said)
        except ValueError as e:
            raise HostFailed(f"{self._look.host}: what it says is not readable ({e})") from None
        if found is None:
            raise mpi.no_mpirun(self._look.host, said)
        return found, True

    def _call(self, op: str, asked: Mapping[str, object]) -> Answer:
        return self._agent.call(op, asked, timeout=SILENCE).done
