"""The steps on each host: send, build, prove, switch. What fails leaves `current` as it was."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from ipexctl.core import mpi, setvars
from ipexctl.core import stack as stacks
from ipexctl.core.changes import Change, between, told
from ipexctl.core.lock import Lock
from ipexctl.core.model import Host, HostRecap, Recap
from ipexctl.core.setvars import Pairs
from ipexctl.core.software import Mpi
from ipexctl.core.stack import Stack
from ipexctl.errors import HostFailed
from ipexctl.hosts.agent import Agent
from ipexctl.hosts.fleet import fan_out
from ipexctl.hosts.frames import Frame
from ipexctl.hosts.pythons import PYTHON_FILES, unpacked_size
from ipexctl.hosts.store import Room, default_store, room_for
from ipexctl.verbs.installing.work import SILENCE, State, Step, Work, note_downs, read_state
from ipexctl.verbs.target import root_of


def _alive(work: Work) -> list[Host]:
    return [host for host in work.agents if host not in work.downs]


def states_of(work: Work, lock: Lock, forks: int) -> dict[Host, State]:
    def one(host: Host) -> State:
        own = lock.mpi if lock.mpi == mpi.SYSTEM else ""
        asked = {"root": root_of(host, work.asked.root), "key": lock.key, "mpi": own}
        done = work.agents[host].call("marks.state", asked, timeout=SILENCE).done
        return read_state(host.name, done, again=work.asked.rebuild)

    outcomes = fan_out(_alive(work), one, forks=forks)
    note_downs(work, outcomes)
    return {h: s for h, s in outcomes.items() if isinstance(s, State)}


def complete(state: State, lock: Lock) -> bool:
    return state.built and state.proved and state.current == lock.key and not state.stale


def changes_to(
    lock: Lock, states: Mapping[Host, State]
) -> tuple[tuple[str, tuple[Change, ...]], ...]:
    """Of the hosts on which something is to do: from what is current to the lock's packages."""
    wanted = {p.name: p.version for p in lock.packages}
    return tuple(
        (host.name, between(dict(state.packages), wanted))
        for host, state in states.items()
        if not complete(state, lock)
    )


def would(
    work: Work, lock: Lock, states: Mapping[Host, State], *, agreed: bool
) -> dict[Host, HostRecap]:
    """The recap of a rehearsal: nothing was done."""
    recaps = {}
    for host, state in states.items():
        if complete(state, lock):
            recaps[host] = HostRecap(host.name, Recap.OK, f"has {lock.key}")
        elif agreed and state.stale:
            text = f"would build {lock.key} anew"
            notes = (f"changed by hand: {told(state.changed)}",) if state.changed else ()
            recaps[host] = HostRecap(host.name, Recap.CHANGED, text, notes=notes)
        elif agreed:
            text = f"would become {lock.key}" + (f", is {state.current}" if state.current else "")
            recaps[host] = HostRecap(host.name, Recap.CHANGED, text)
        else:
            recaps[host] = HostRecap(host.name, Recap.SKIPPED, "you said no")
    return recaps


def on_hosts(
    work: Work, stack: Stack, lock: Lock, states: Mapping[Host, State], forks: int
) -> dict[Host, HostRecap]:
    building = any(not s.built or s.stale for s in states.values())
    room = _room(work, lock) if building else Room()

    def one(host: Host) -> HostRecap:
        return _OneHost(work, stack, lock, room, work.agents[host]).install(states[host])

    outcomes = fan_out(list(states), one, forks=forks)
    note_downs(work, outcomes)
    return {h: r for h, r in outcomes.items() if isinstance(r, HostRecap)}


def _room(work: Work, lock: Lock) -> Room:
    """As far as it is known here: of what hosts fetch themselves, their builder looks at it."""
    store = default_store(os.environ)
    room = room_for([store.path(p.blob) for p in lock.packages]) if work.all_here else Room()
    python = unpacked_size(store.path(lock.cpython.blob)) if lock.cpython else 0
    return Room(room.bytes + python, room.files + PYTHON_FILES * bool(python))


class _OneHost:
    """The steps on one host, in order; a step that fails raises and `current` stays what it was."""

    def __init__(self, work: Work, stack: Stack, lock: Lock, room: Room, agent: Agent) -> None:
        self._work = work
        self._stack = stack
        self._lock = lock
        self._room = room
        self._agent = agent
        self._host = agent.host.name

    def install(self, state: State) -> HostRecap:
        began = time.monotonic()
        if complete(state, self._lock):
            return HostRecap(self._host, Recap.OK, "nothing to do", time.monotonic() - began)
        built, sent = False, 0
        if not state.built or state.stale:
            self._make_room(state)
            sent = self._bring(state.root)
            built = self._build(state.root, fresh=state.stale)
        proved = self._prove(state.root)
        switched = self._switch(state.root)
        return HostRecap(
            self._host,
            Recap.CHANGED if built or switched else Recap.OK,
            proved,
            time.monotonic() - began,
            sent=sent,
        )

    def _make_room(self, state: State) -> None:
        if state.stale:
            asked = {"root": state.root, "key": self._lock.key, "mark": state.mark}
            self._agent.call("upkeep.aside", asked, timeout=SILENCE, on_event=self._hear)

    def _bring(self, root: str) -> int:
        """Bytes that were sent from here."""
        blobs = [p.blob for p in self._lock.files]
        moved = self._work.carrier.bring(self._agent, root, blobs, self._tell, self._room)
        self._work.count(moved)
        return moved.sent

    def _build(self, root: str, *, fresh: bool) -> bool:
        """False: another install had built it meanwhile."""
        self._tell("building")
        asked = {
            "root": root,
            "key": self._lock.key,
            "python": self._stack.interpreter(self._host),
            "wheels": [[p.file, p.sha256] for p in self._lock.packages],
            "uv": self._lock.uv.sha256,
            "cpython": self._lock.cpython.sha256 if self._lock.cpython else "",
            "fresh": fresh,
        }
        call = self._agent.call("envs.build", asked, timeout=SILENCE, on_event=self._hear)
        return call.done.flag("built")

    def _prove(self, root: str) -> str:
        """What was shown, in words."""
        self._tell("proving")
        prefix = f"{root}/envs/{self._lock.key}"
        starter = self._mpi(prefix)
        ours = mpi.env_vars(prefix, starter)
        script, env = self._with_setvars(root, ours)
        asked = {
            "root": root,
            "key": self._lock.key,
            "mpi": mpi.SYSTEM if self._lock.mpi == mpi.SYSTEM else "",
            "mpirun": mpi.alone(starter, 2) if starter else [],
            "modules": [list(m) for m in stacks.modules(self._stack.row, self._lock.version)],
            "env": [list(pair) for pair in (*env, *mpi.alone_vars(starter))],
        }
        call = self._agent.call("envs.prove", asked, timeout=SILENCE, on_event=self._hear)
        own = self._lock.mpi == mpi.SYSTEM
        return (
            stacks.proved_text(call.done)
            + f" with this host's {starter}" * own
            + ", setvars.sh sourced" * bool(script)
        )

    def _mpi(self, prefix: str) -> Mpi | None:
        if self._lock.mpi != mpi.SYSTEM:
            return mpi.in_packages({p.name: p.version for p in self._lock.packages}, prefix)
        said = self._agent.call("prepare.mpirun", {}, timeout=SILENCE).done["system"]
        try:
            found = mpi.of_host(said)
        except ValueError as e:
            raise HostFailed(f"{self._host}: what it says is not readable ({e})") from None
        if found is None:
            raise mpi.no_mpirun(self._host, said)
        return found

    def _with_setvars(self, root: str, ours: Pairs) -> tuple[str, Pairs]:
        """The script of the bindings in this environment, "" if there is none, and the variables
        of a process that uses them."""
        if not self._stack.row.oneccl:
            return "", ours
        asked = {"root": root, "key": self._lock.key}
        done = self._agent.call("envs.setvars", asked, timeout=SILENCE, on_event=self._hear).done
        try:
            return done.text("script"), setvars.merged(ours, setvars.checked(done["set"]))
        except ValueError as e:
            raise HostFailed(f"{self._host}: what it says is not readable ({e})") from None

    def _switch(self, root: str) -> bool:
        asked = {"root": root, "key": self._lock.key}
        call = self._agent.call("envs.switch", asked, timeout=SILENCE, on_event=self._hear)
        return call.done.flag("changed")

    def _hear(self, frame: Frame) -> None:
        if frame.header.get("event") == "waiting":
            self._tell("waiting for another install")

    def _tell(self, text: str, done: int = 0, total: int = 0) -> None:
        self._work.progress.step(Step(self._host, text, done, total))
