"""facts -> stack -> lock -> blobs on every host -> environment built there, proved, switched to."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ipexctl.core import lock as locks
from ipexctl.core import stack as stacks
from ipexctl.core.lock import Lock
from ipexctl.core.model import Facts, Host, HostDown, HostRecap, Python, Recap
from ipexctl.core.rows import Request
from ipexctl.core.stack import Stack
from ipexctl.errors import (
    EXIT_FAILED,
    EXIT_UNREACHABLE,
    InputError,
    NotHere,
    worst_exit,
)
from ipexctl.hosts import resolver
from ipexctl.hosts.agent import Agent, connect
from ipexctl.hosts.fetch import Fetcher, sized
from ipexctl.hosts.fleet import fan_out
from ipexctl.hosts.frames import Frame
from ipexctl.hosts.indexes import Indexes, from_pip, merged
from ipexctl.hosts.resolver import Resolved
from ipexctl.hosts.store import absent, default_store, ensure
from ipexctl.verbs.choice import decide
from ipexctl.verbs.facts import ROOT, probe
from ipexctl.verbs.last import remember
from ipexctl.verbs.target import AnyTransport, Target, inventory, root_of
from ipexctl.verbs.versions import table

LOCK_FILE = "ipexctl.lock"
SILENCE = 60.0  # a host that works says so more often
_UNREACHABLE = frozenset({"unreachable", "host-key-unknown", "host-key-changed"})


@dataclass(frozen=True)
class Install:
    """What the user asked for."""

    wanted: Request = Request()
    root: str = ROOT
    options: Indexes = Indexes()
    folder: Path = Path()  # where ipexctl.lock is
    check: bool = False


@dataclass(frozen=True)
class Chosen:
    """Told before anything is done. `new_lock`: ipexctl.lock was made or replaced."""

    stack: Stack
    lock: Lock
    hosts: tuple[str, ...]
    new_lock: bool


@dataclass(frozen=True)
class Step:
    """What a host (or, with host "", this machine) is doing now. total 0: not counted."""

    host: str
    text: str
    done: int = 0
    total: int = 0


@dataclass(frozen=True)
class InstallReport:
    recaps: tuple[HostRecap, ...]
    chosen: Chosen | None
    fetched: int  # bytes from package indexes
    sent: int  # bytes to hosts
    seconds: float
    check: bool = False

    @property
    def exit_code(self) -> int:
        codes = {Recap.UNREACHABLE: EXIT_UNREACHABLE, Recap.FAILED: EXIT_FAILED}
        return worst_exit([codes[r.state] for r in self.recaps if r.state in codes])


@dataclass(frozen=True)
class Progress:
    """Where the verb tells what it does. Calls to `step` come from many threads."""

    chosen: Callable[[Chosen], bool] = lambda chosen: True  # False: the user says no
    step: Callable[[Step], None] = lambda step: None


@dataclass
class _Work:
    """One install under way."""

    asked: Install
    progress: Progress
    agents: dict[Host, Agent] = field(default_factory=dict)
    downs: dict[Host, HostDown] = field(default_factory=dict)
    fetched: int = 0
    sent: int = 0


@dataclass(frozen=True)
class _State:
    """What a host has of the environment. `root` is absolute."""

    root: str
    built: bool
    proved: bool
    current: str


def install(target: Target, asked: Install, progress: Progress) -> InstallReport:
    """Raises NothingFits, InputError, NotHere; what fails on one host is in its recap."""
    began = time.monotonic()
    hosts = inventory(target)
    work = _Work(asked, progress)
    transport = AnyTransport(target, hosts)
    try:
        facts = _facts(work, transport, hosts.hosts, target)
        chosen, recaps = _all_steps(work, facts, target.forks) if facts else (None, {})
    finally:
        for agent in work.agents.values():
            agent.close()
        transport.close()
    recaps |= {host: recap_of(down, began) for host, down in work.downs.items()}
    ordered = tuple(recaps[host] for host in hosts.hosts)
    remember(hosts, {r.host: r.state.value for r in ordered}, "install")
    seconds = time.monotonic() - began
    return InstallReport(ordered, chosen, work.fetched, work.sent, seconds, asked.check)


def _all_steps(
    work: _Work, facts: Sequence[Facts], forks: int
) -> tuple[Chosen, dict[Host, HostRecap]]:
    old = _read_lock(work.asked.folder / LOCK_FILE)
    wanted = decide(work.asked.wanted, old, work.asked.folder)
    candidates = stacks.choose(facts, wanted, table())
    found, new_lock = _lock(work, candidates, old)
    stack, lock = found.stack, found.lock
    chosen = Chosen(stack, lock, tuple(f.host for f in facts), new_lock)
    agreed = work.progress.chosen(chosen)
    states = _states(work, lock, forks)
    if work.asked.check or not agreed:
        return chosen, _would(work, lock, states, agreed=agreed)
    if any(not _complete(state, lock) for state in states.values()):
        lock = _fetch(work, found)
    elif new_lock:
        lock = _sized_if_known(lock)
    if new_lock:
        _write_lock(work.asked.folder / LOCK_FILE, lock)
    recaps = _on_hosts(work, stack, lock, states, forks)
    return replace(chosen, lock=lock), recaps


# --- facts ---------------------------------------------------------------------------------------


def _facts(
    work: _Work, transport: AnyTransport, hosts: Sequence[Host], target: Target
) -> tuple[Facts, ...]:
    """Of the hosts that answered; the others are in `downs`."""
    named = work.asked.wanted.python
    python = named if "/" in named else ""

    def one(host: Host) -> Facts:
        work.progress.step(Step(host.name, "connecting"))
        agent = connect(transport, host, timeout=target.connect_timeout, python=python)
        work.agents[host] = agent
        return _with_named(probe(agent, root_of(host, work.asked.root)), agent, python)

    outcomes = fan_out(hosts, one, forks=target.forks)
    _note_downs(work, outcomes)
    return tuple(f for f in outcomes.values() if isinstance(f, Facts))


def _with_named(facts: Facts, agent: Agent, path: str) -> Facts:
    """The interpreter that the user named runs our agent, if it runs at all."""
    if not path or agent.hello.path != path or len(agent.hello.python) != 3:
        return facts
    major, minor, patch = agent.hello.python
    return replace(facts, pythons=(*facts.pythons, Python(path, (major, minor, patch))))


def _note_downs(work: _Work, outcomes: Mapping[Host, object]) -> None:
    for host, outcome in outcomes.items():
        if isinstance(outcome, HostDown):
            work.downs[host] = outcome


# --- lock and bytes ------------------------------------------------------------------------------


def _lock(work: _Work, candidates: Sequence[Stack], old: Lock | None) -> tuple[Resolved, bool]:
    """The lock in the folder if it is for one of these, else a fresh one (True)."""
    for stack in candidates if old else ():
        if old and locks.same_request(old, _request_of(stack, old)):
            return Resolved(stack, old, {}), False
    work.progress.step(Step("", "resolving"))
    return resolver.resolve(candidates, _indexes(work), os.environ), True


def _request_of(stack: Stack, lock: Lock) -> Lock:
    return replace(
        lock, row=stack.row.name, torch=stack.row.torch, mpi=stack.mpi, python=stack.python_text,
        platform=stack.platform,
    )  # fmt: skip


def _indexes(work: _Work) -> Indexes:
    return merged(work.asked.options, from_pip(os.environ), os.environ)


def _read_lock(path: Path) -> Lock | None:
    try:
        return locks.parse(path.read_text("utf-8"), str(path))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as e:
        raise InputError(f"cannot read {path}", why=str(e)) from None


def _write_lock(path: Path, lock: Lock) -> None:
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        fresh.write_text(locks.render(lock), "utf-8")
        fresh.replace(path)
    except OSError as e:
        raise NotHere(f"cannot write {path}", why=str(e)) from None


def _fetch(work: _Work, found: Resolved) -> Lock:
    """Afterwards every file of the lock is in the store, and the lock knows the sizes."""
    store, indexes, lock = default_store(os.environ), _indexes(work), found.lock
    missing = [p for p in lock.files if not store.has(p.blob)]
    if missing:
        urls = found.urls or resolver.locate(found.stack, lock, indexes, os.environ)
        fetcher = Fetcher(store, indexes)
        total = sum(p.size for p in missing)
        fetcher.fetch(
            missing,
            urls,
            lambda n: work.progress.step(Step("", "fetching", fetcher.fetched, total)),
        )
        work.fetched += fetcher.fetched
    return sized(lock, store)


def _sized_if_known(lock: Lock) -> Lock:
    store = default_store(os.environ)
    return sized(lock, store) if all(store.has(p.blob) for p in lock.files) else lock


# --- on the hosts --------------------------------------------------------------------------------


def _alive(work: _Work) -> list[Host]:
    return [host for host in work.agents if host not in work.downs]


def _states(work: _Work, lock: Lock, forks: int) -> dict[Host, _State]:
    def one(host: Host) -> _State:
        asked = {"root": root_of(host, work.asked.root), "key": lock.key}
        done = work.agents[host].call("envs.state", asked, timeout=SILENCE).done
        return _State(done["root"], done["built"], done["proved"], done["current"])

    outcomes = fan_out(_alive(work), one, forks=forks)
    _note_downs(work, outcomes)
    return {h: s for h, s in outcomes.items() if isinstance(s, _State)}


def _complete(state: _State, lock: Lock) -> bool:
    return state.built and state.proved and state.current == lock.key


def _would(
    work: _Work, lock: Lock, states: Mapping[Host, _State], *, agreed: bool
) -> dict[Host, HostRecap]:
    """The recap of a rehearsal: nothing was done."""
    recaps = {}
    for host, state in states.items():
        if _complete(state, lock):
            recaps[host] = HostRecap(host.name, Recap.OK, f"has {lock.key}")
        elif agreed:
            text = f"would become {lock.key}" + (f", is {state.current}" if state.current else "")
            recaps[host] = HostRecap(host.name, Recap.CHANGED, text)
        else:
            recaps[host] = HostRecap(host.name, Recap.SKIPPED, "you said no")
    return recaps


def _on_hosts(
    work: _Work, stack: Stack, lock: Lock, states: Mapping[Host, _State], forks: int
) -> dict[Host, HostRecap]:
    def one(host: Host) -> HostRecap:
        return _OneHost(work, stack, lock, work.agents[host]).install(states[host])

    outcomes = fan_out(list(states), one, forks=forks)
    _note_downs(work, outcomes)
    return {h: r for h, r in outcomes.items() if isinstance(r, HostRecap)}


class _OneHost:
    """The steps on one host, in order; a step that fails raises and `current` stays what it was."""

    def __init__(self, work: _Work, stack: Stack, lock: Lock, agent: Agent) -> None:
        self._work = work
        self._stack = stack
        self._lock = lock
        self._agent = agent
        self._host = agent.host.name

    def install(self, state: _State) -> HostRecap:
        began = time.monotonic()
        if _complete(state, self._lock):
            return HostRecap(self._host, Recap.OK, "nothing to do", time.monotonic() - began)
        built = False
        if not state.built:
            self._send(state.root)
            built = self._build(state.root)
        proof = self._prove(state.root)
        switched = self._switch(state.root)
        return HostRecap(
            self._host,
            Recap.CHANGED if built or switched else Recap.OK,
            stacks.proved_text(proof),
            time.monotonic() - began,
        )

    def _send(self, root: str) -> None:
        store = default_store(os.environ)
        blobs = [p.blob for p in self._lock.files]
        total = sum(b.size for b in absent(self._agent, root, blobs))
        done = 0

        def count(n: int) -> None:
            nonlocal done
            done += n
            self._tell("sending", done, total)

        sent = ensure(self._agent, root, blobs, store.path, on_bytes=count)
        self._work.sent += sent.bytes

    def _build(self, root: str) -> bool:
        """False: another install had built it meanwhile."""
        self._tell("building")
        asked = {
            "root": root,
            "key": self._lock.key,
            "python": self._stack.interpreter(self._host),
            "wheels": [[p.file, p.sha256] for p in self._lock.packages],
            "uv": self._lock.uv.sha256,
        }
        call = self._agent.call("envs.build", asked, timeout=SILENCE, on_event=self._hear)
        return bool(call.done["built"])

    def _prove(self, root: str) -> Mapping[str, Any]:
        self._tell("proving")
        impi = self._lock.version("impi-rt")
        prefix = f"{root}/envs/{self._lock.key}"
        asked = {
            "root": root,
            "key": self._lock.key,
            "ranks": 2 if impi else 1,
            "modules": [list(m) for m in stacks.modules(self._stack.row, self._lock.version)],
            "env": [list(pair) for pair in stacks.env_vars(prefix, impi)],
        }
        call = self._agent.call("envs.prove", asked, timeout=SILENCE, on_event=self._hear)
        return call.done

    def _switch(self, root: str) -> bool:
        asked = {"root": root, "key": self._lock.key}
        call = self._agent.call("envs.switch", asked, timeout=SILENCE, on_event=self._hear)
        return bool(call.done["changed"])

    def _hear(self, frame: Frame) -> None:
        if frame.header.get("event") == "waiting":
            self._tell("waiting for another install")

    def _tell(self, text: str, done: int = 0, total: int = 0) -> None:
        self._work.progress.step(Step(self._host, text, done, total))


def recap_of(down: HostDown, began: float) -> HostRecap:
    state = Recap.UNREACHABLE if down.slug in _UNREACHABLE else Recap.FAILED
    notes = tuple(text for text in (down.why, down.hint and f"try: {down.hint}") if text)
    return HostRecap(down.host, state, down.what, time.monotonic() - began, notes)
