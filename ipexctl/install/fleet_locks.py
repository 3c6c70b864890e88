"""One install at a time on any host: an install holds the locks of all hosts, or none.

All are tried at once. If another install holds one, all are released, and tried again when that one
is free. Nothing is held meanwhile, so two installs never wait for each other.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from time import monotonic, sleep

from ipexctl.base.host_answer import Answer
from ipexctl.common.env_answers import ProjectEnv
from ipexctl.common.install_answers import LockAwaited, LockEvent, LockHolder, LockTaken
from ipexctl.errors import HostFailed
from ipexctl.inventory.inventory import Host
from ipexctl.machines.fleet import SILENCE, Fleet
from ipexctl.quick_dataclass import dataclass

WAIT = 7200.0  # seconds to wait for another install, whose files may come over a slow line
PAUSE = 1.0  # maximum seconds before the next try; random, as another install may retry as well
Say = Callable[[str, str], None]  # host, what it waits for


@dataclass(frozen=True)
class _Try:
    """`number`: of the operation that holds the lock. `holder`: what else holds it."""

    number: int = 0
    holder: str = ""


@contextmanager
def hold_locks(fleet: Fleet, project: ProjectEnv, say: Say) -> Iterator[None]:
    """Hold the locks of all hosts. Raises HostFailed if another install holds a host for too long:
    nothing was changed then. After an error inside, the locks end with the agents."""
    tries = _take_all_locks(fleet, project, say)
    yield
    _release_locks(fleet, tries)


def _take_all_locks(fleet: Fleet, project: ProjectEnv, say: Say) -> Mapping[Host, _Try]:
    """Take the locks of all hosts; release all and wait whenever another install holds one."""
    request = {"install": secrets.token_hex(8), "who": f"{project.name} ({project.by})"}
    deadline = monotonic() + WAIT

    def take(host: Host, wait: float = 0.0) -> _Try:
        return _take_lock(fleet, host, {**request, "wait": wait}, say)

    while True:
        tries = fleet.map_hosts(take)
        busy = [host for host, attempt in tries.items() if attempt.holder]
        if not busy:
            return tries
        _release_locks(fleet, tries)
        wait_for = partial(take, wait=max(0.0, deadline - monotonic()))
        waited = fleet.map_hosts(wait_for, busy[:1])
        _release_locks(fleet, waited)
        for host, attempt in waited.items():
            if attempt.holder:
                raise HostFailed(
                    f"{host.name}: another install has locked it for too long; nothing was changed",
                    why=f"an install of {attempt.holder} holds it",
                    hint="run the same command again once that install has ended",
                    slug="install-locked",
                )
        sleep(random.uniform(0, PAUSE))


def _take_lock(fleet: Fleet, host: Host, request: Mapping[str, object], say: Say) -> _Try:
    agent = fleet.agents[host]
    number = agent.start("install.fleet_lock.hold", {"root": fleet.root_of(host), **request})
    for frame in agent.answers(number, SILENCE, 0):
        answer = Answer(host.name, frame.header)
        if "done" in answer:
            return _Try(holder=_describe_holder(answer.value("done", LockHolder)))
        match answer.value("event", LockEvent):
            case LockTaken():
                return _Try(number)
            case LockAwaited(holder):
                say(host.name, f"waiting for the install of {_describe_holder(holder)}")
    raise AssertionError("an operation ends with done, or raises")


def _release_locks(fleet: Fleet, tries: Mapping[Host, _Try]) -> None:
    numbers = {h: one.number for h, one in tries.items() if not one.holder and h not in fleet.downs}

    def release(host: Host) -> None:
        agent = fleet.agents[host]
        agent.feed(numbers[host], {"release": True})
        agent.wait(numbers[host], timeout=SILENCE)

    fleet.map_hosts(release, list(numbers))


def _describe_holder(holder: LockHolder) -> str:
    return (holder.who or "another user") + f", since {holder.since} s" * bool(holder.since)
