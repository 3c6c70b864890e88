"""install --rollback, env ls, env diff, env rm: what hosts keep, and one step back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from ipexctl.core import envs as core
from ipexctl.core.answer import Answer
from ipexctl.core.changes import told
from ipexctl.core.drift import Drift, read_drift
from ipexctl.core.envs import Shelf
from ipexctl.core.inventory import fold
from ipexctl.core.model import Host, HostDown, HostRecap, Recap
from ipexctl.errors import (
    EXIT_FAILED,
    EXIT_OK,
    EXIT_UNREACHABLE,
    HostFailed,
    InputError,
    worst_exit,
)
from ipexctl.hosts.agent import Agent, connect
from ipexctl.hosts.fleet import fan_out
from ipexctl.verbs.facts import ROOT
from ipexctl.verbs.hints import command, spelled_downs
from ipexctl.verbs.installing.work import SILENCE, recap_of
from ipexctl.verbs.last import remember
from ipexctl.verbs.target import AnyTransport, Target, inventory, root_of

T = TypeVar("T")


@dataclass(frozen=True)
class Kept:
    """What each host has; `recaps` has those that could not be asked."""

    shelves: tuple[Shelf, ...]
    recaps: tuple[HostRecap, ...]

    @property
    def exit_code(self) -> int:
        return exit_code(self.recaps)


@dataclass(frozen=True)
class Back:
    """`key`: the environment that was gone back to, "" if no host has a previous one."""

    key: str
    recaps: tuple[HostRecap, ...]
    check: bool = False

    @property
    def exit_code(self) -> int:
        return exit_code(self.recaps)


@dataclass(frozen=True)
class Compared:
    """Each host's environment beside what was built there. `mend`: the command, "" for none."""

    drifts: tuple[Drift, ...]
    recaps: tuple[HostRecap, ...]
    mend: str

    @property
    def exit_code(self) -> int:
        return worst_exit([exit_code(self.recaps), EXIT_FAILED if self.mend else EXIT_OK])


@dataclass(frozen=True)
class Removal:
    """What goes (or went) from one host: (key, bytes), what stays and why, and idle blobs."""

    host: str
    removed: tuple[tuple[str, int], ...]
    kept: tuple[tuple[str, str], ...]
    blobs: int
    blob_bytes: int

    @property
    def bytes(self) -> int:
        return sum(size for _, size in self.removed) + self.blob_bytes


@dataclass(frozen=True)
class Removed:
    """`done` False: only shown."""

    removals: tuple[Removal, ...]
    recaps: tuple[HostRecap, ...]
    done: bool

    @property
    def exit_code(self) -> int:
        return exit_code(self.recaps)


def exit_code(recaps: Sequence[HostRecap]) -> int:
    codes = {Recap.UNREACHABLE: EXIT_UNREACHABLE, Recap.FAILED: EXIT_FAILED}
    return worst_exit([codes[r.state] for r in recaps if r.state in codes])


class Fleet:
    """The hosts, connected, and those that were lost on the way."""

    def __init__(self, target: Target, root: str) -> None:
        self.hosts = inventory(target)
        self._transport = AnyTransport(target, self.hosts)
        self._target = target
        self._root = root
        self._began = time.monotonic()
        self.agents: dict[Host, Agent] = {}
        self.down: dict[str, HostRecap] = {}

    def connect(self) -> None:
        def one(host: Host) -> None:
            timeout = self._target.connect_timeout
            self.agents[host] = connect(self._transport, host, timeout=timeout)

        self._each(self.hosts.hosts, one)

    def close(self) -> None:
        for agent in list(self.agents.values()):
            agent.close()
        self._transport.close()

    def ordered(self, found: Mapping[str, T]) -> tuple[T, ...]:
        """As in the hostfile."""
        return tuple(found[h.name] for h in self.hosts.hosts if h.name in found)

    def each(self, work: Callable[[Host], T]) -> dict[str, T]:
        """Of those that are still with us."""
        return self._each([h for h in self.agents if h.name not in self.down], work)

    def call(self, host: Host, op: str, **asked: Any) -> Answer:
        header = {"root": root_of(host, self._root), **asked}
        return self.agents[host].call(op, header, timeout=SILENCE).done

    def shelves(self, *, sizes: bool) -> dict[str, Shelf]:
        def one(host: Host) -> Shelf:
            done = self.call(host, "upkeep.list", sizes=sizes)
            try:
                return core.read_shelf(host.name, done)
            except ValueError as e:
                raise HostFailed(f"{host.name}: what it keeps is not readable ({e})") from None

        return self.each(one)

    def _each(self, hosts: Sequence[Host], work: Callable[[Host], T]) -> dict[str, T]:
        found = {}
        for host, outcome in fan_out(hosts, work, forks=self._target.forks).items():
            if isinstance(outcome, HostDown):
                down = spelled_downs([outcome], self._target, self._root)[0]
                self.down[host.name] = recap_of(down, self._began)
            else:
                found[host.name] = outcome
        return found


@contextmanager
def fleet_of(target: Target, root: str) -> Iterator[Fleet]:
    fleet = Fleet(target, root)
    try:
        fleet.connect()
        yield fleet
    finally:
        fleet.close()


# --- the verbs -----------------------------------------------------------------------------------


def kept(target: Target, root: str = ROOT) -> Kept:
    with fleet_of(target, root) as fleet:
        shelves = fleet.shelves(sizes=True)
        return Kept(fleet.ordered(shelves), fleet.ordered(fleet.down))


def compare(target: Target, root: str = ROOT, *, full: bool = False) -> Compared:
    """The current environments, against their builds and each other. `full`: read every file."""
    with fleet_of(target, root) as fleet:

        def one(host: Host) -> Drift:
            done = fleet.call(host, "drift.compare", full=full)
            try:
                return read_drift(host.name, done)
            except ValueError as e:
                raise HostFailed(f"{host.name}: its environment is not readable ({e})") from None

        found = fleet.ordered(fleet.each(one))
        return Compared(found, fleet.ordered(fleet.down), _mend(target, root, found))


def _mend(target: Target, root: str, found: Sequence[Drift]) -> str:
    """The command that makes them whole and equal, "" where they are. What is only seen in files
    `install` does not see, and a rebuild is for those hosts alone."""
    by_hand = [d.host for d in found if d.by_hand]
    same = len({d.current for d in found}) == 1
    if not found or (same and found[0].current and not by_hand):
        return ""
    if same and by_hand and len(found) > len(by_hand):
        target = replace(target, limit=(fold(by_hand),))
    again = any(d.files and not d.changed for d in found)
    return command(target, "install", root) + " --rebuild" * again


def rollback(target: Target, root: str = ROOT, *, check: bool = False) -> Back:
    """`current` and `previous` swap, on the hosts where that leads to the same environment."""
    with fleet_of(target, root) as fleet:
        shelves = fleet.shelves(sizes=False)
        key = core.way_back(list(fleet.ordered(shelves)))
        recaps = fleet.each(lambda host: _back(fleet, host, shelves[host.name], key, check=check))
        ordered = fleet.ordered({**recaps, **fleet.down})
    if not check:
        remember(fleet.hosts, {r.host: r.state.value for r in ordered}, "install")
    return Back(key, ordered, check)


def _back(fleet: Fleet, host: Host, shelf: Shelf, key: str, *, check: bool) -> HostRecap:
    env = shelf.env(key)
    if env and key == shelf.current:
        return HostRecap(host.name, Recap.OK, f"is {key} already, {env.title}")
    if why := core.not_back(shelf, key):
        stays = shelf.current or "nothing"
        return HostRecap(host.name, Recap.FAILED, why, notes=(f"current stays {stays}",))
    if not check:
        fleet.call(host, "upkeep.rollback", key=key)
    now = "would be" if check else "is"
    before = shelf.current or "nothing"
    text = f"{now} {key}, {env.title if env else ''}; before: {before}"
    notes = (f"changed by hand: {told(env.changed)}",) if env and env.changed else ()
    return HostRecap(host.name, Recap.CHANGED, text, notes=notes)


def remove(
    target: Target,
    keys: Sequence[str],
    agreed: Callable[[Sequence[Removal]], bool],
    root: str = ROOT,
) -> Removed:
    """Without keys: all that is neither current nor previous. `agreed` sees first what would go."""
    for key in keys:
        if not core.is_key(key):
            raise InputError(f"{key!r} is not an environment's name", hint="ipexctl env ls")
    with fleet_of(target, root) as fleet:
        shelves = fleet.shelves(sizes=False)
        going = {name: _going(shelf, keys) for name, shelf in shelves.items()}
        known = {e.key for shelf in shelves.values() for e in shelf.envs}
        if shelves and (strange := [key for key in keys if key not in known]):
            what = f"no host has the environment {strange[0]}"
            raise InputError(what, hint="ipexctl env ls")

        def one(host: Host, *, check: bool) -> Removal:
            if not shelves[host.name].envs and not shelves[host.name].blobs:
                return Removal(host.name, (), (), 0, 0)  # perhaps there is no root: make none
            done = fleet.call(host, "upkeep.remove", keys=going[host.name], check=check)
            return _removal(host.name, done)

        found = fleet.ordered(fleet.each(lambda host: one(host, check=True)))
        done = any(r.removed or r.blobs for r in found) and agreed(found)
        if done:
            found = fleet.ordered(fleet.each(lambda host: one(host, check=False)))
        return Removed(found, fleet.ordered(fleet.down), done)


def _going(shelf: Shelf, keys: Sequence[str]) -> list[str]:
    return [key for key in keys if shelf.env(key)] if keys else list(shelf.unused)


def _removal(host: str, done: Answer) -> Removal:
    removed = tuple((key, size) for key, size in done.rows("removed", str, int))
    stays = tuple((key, why) for key, why in done.rows("kept", str, str))
    return Removal(host, removed, stays, done.whole("blobs"), done.whole("bytes"))
