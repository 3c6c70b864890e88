"""The nouns of one install: what was asked, what is told on the way, what came of it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from ipexctl.core.answer import Answer
from ipexctl.core.changes import Change, read_changes, rows
from ipexctl.core.fetching import Fetch
from ipexctl.core.lock import Lock
from ipexctl.core.model import Host, HostDown, HostRecap, Recap
from ipexctl.core.rows import Request
from ipexctl.core.stack import Stack
from ipexctl.errors import EXIT_FAILED, EXIT_UNREACHABLE, HostFailed, worst_exit
from ipexctl.hosts.agent import Agent
from ipexctl.hosts.carriers import Carrier, Moved, Push
from ipexctl.hosts.indexes import Indexes
from ipexctl.hosts.store import default_store
from ipexctl.verbs.facts import ROOT

LOCK_FILE = "ipexctl.lock"
SILENCE = 60.0  # a host that works says so more often
UNREACHABLE = frozenset({"unreachable", "host-key-unknown", "host-key-changed"})


class Cuda(Enum):
    """What to do where torch can only be had as a CUDA build."""

    REFUSE = "refuse"
    ASK = "ask"
    TAKE = "take"


@dataclass(frozen=True)
class Install:
    """What the user asked for."""

    wanted: Request = Request()
    root: str = ROOT
    options: Indexes = Indexes()
    folder: Path = Path()  # where ipexctl.lock is
    check: bool = False
    cuda: Cuda = Cuda.REFUSE
    needs: tuple[Path, ...] = ()  # requirements files of the user's own
    rebuild: bool = False  # also where nothing is to do
    bundle: Path | None = None
    lock_sha256: str = ""  # of the bundle's lock, as the user knows it
    python_from: str = ""  # where a CPython is that is carried to the hosts
    fetch: Fetch = Fetch.CONTROLLER
    relay: bool = True  # hosts give each other what one of them was sent


@dataclass(frozen=True)
class Chosen:
    """Told before anything is done. `new_lock`: ipexctl.lock was made or replaced.

    `no_cpu_build`: why this lock brings a CUDA build of torch, if nobody has agreed to it yet.
    `to_fetch`: bytes, as far as they are known.
    """

    stack: Stack
    lock: Lock
    hosts: tuple[str, ...]
    new_lock: bool
    no_cpu_build: str = ""
    to_fetch: int = 0


@dataclass(frozen=True)
class Planned:
    """What would change on which host, before it is done."""

    chosen: Chosen
    changes: tuple[tuple[str, tuple[Change, ...]], ...]


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
    fetched: int  # bytes from package indexes, whoever fetched them
    sent: int  # bytes to hosts
    seconds: float
    check: bool = False
    fetch: Fetch | None = None  # who did; None: there was nothing to bring
    drawn: int = 0  # bytes from the host that fetched for all
    passed: int = 0  # bytes from host to host

    @property
    def exit_code(self) -> int:
        codes = {Recap.UNREACHABLE: EXIT_UNREACHABLE, Recap.FAILED: EXIT_FAILED}
        return worst_exit([codes[r.state] for r in self.recaps if r.state in codes])


@dataclass(frozen=True)
class Progress:
    """Where the verb tells what it does. Calls to `step` come from many threads."""

    chosen: Callable[[Chosen], None] = lambda chosen: None
    step: Callable[[Step], None] = lambda step: None
    say: Callable[[str], None] = lambda text: None
    # Asked once, if there is something to do. False: the user says no.
    agreed: Callable[[Planned], bool] = lambda planned: True


@dataclass
class Work:
    """One install under way."""

    asked: Install
    progress: Progress
    agents: dict[Host, Agent] = field(default_factory=dict)
    downs: dict[Host, HostDown] = field(default_factory=dict)
    fetched: int = 0
    sent: int = 0
    drawn: int = 0
    passed: int = 0
    fetch: Fetch | None = None
    carrier: Carrier = field(default_factory=lambda: Push(default_store(os.environ).path))
    _counting: threading.Lock = field(default_factory=threading.Lock)

    def count(self, moved: Moved) -> None:
        """Called from many threads."""
        with self._counting:
            self.sent += moved.sent
            self.fetched += moved.fetched
            self.passed += moved.passed

    @property
    def all_here(self) -> bool:
        """Are all files in the store of this machine, once they have been fetched?"""
        return self.asked.fetch is Fetch.CONTROLLER or self.fetch in (
            Fetch.CONTROLLER,
            Fetch.NODE0,
        )


@dataclass(frozen=True)
class State:
    """What a host has of the environment. `root` is absolute; `changed`: by hand, since it was
    built; `again`: it is to be built anew even so; `mark`: which build it is.
    """

    root: str
    built: bool
    proved: bool
    current: str
    changed: tuple[Change, ...] = ()
    again: bool = False
    packages: tuple[tuple[str, str], ...] = ()  # of `current`
    mark: str = ""

    @property
    def stale(self) -> bool:
        return self.built and bool(self.changed or self.again)


def read_state(host: str, done: Answer, *, again: bool) -> State:
    """Raises HostFailed."""
    found = done["packages"]
    try:
        changed = read_changes(done["changed"])
        packages = rows([list(p) for p in found.items()] if isinstance(found, dict) else None, 2)
    except ValueError as e:
        raise HostFailed(f"{host}: its environment is not readable ({e})") from None
    return State(
        done.path("root"), done.flag("built"), done.flag("proved"), done.text("current"), changed,
        again, tuple((name, version) for name, version in packages), done.text("mark"),
    )  # fmt: skip


def note_downs(work: Work, outcomes: Mapping[Host, object]) -> None:
    for host, outcome in outcomes.items():
        if isinstance(outcome, HostDown):
            work.downs[host] = outcome


def recap_of(down: HostDown, began: float) -> HostRecap:
    state = Recap.UNREACHABLE if down.slug in UNREACHABLE else Recap.FAILED
    notes = tuple(text for text in (down.why, down.hint and f"try: {down.hint}") if text)
    return HostRecap(down.host, state, down.what, time.monotonic() - began, notes)
