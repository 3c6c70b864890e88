"""One install at a time on any host: the locks of all hosts, or of none.

First all are tried at once. Where another install holds one, they are given back and taken one
after the other, in an order that every install has, whatever its hostfile says.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from time import monotonic

from ipexctl.env.choice.env_choice import Project
from ipexctl.errors import HostFailed
from ipexctl.inventory.inventory import Host
from ipexctl.machines.fleet import SILENCE, Fleet, reading
from ipexctl.quick_dataclass import dataclass

WAIT = 7200.0  # seconds for another install, whose files may be on a slow line
Say = Callable[[str, str], None]  # host, what it waits for


@dataclass(frozen=True)
class _Try:
    """`name`: by which the locks are ordered; `number`: of the operation that holds it."""

    name: str
    number: int = 0
    holder: str = ""  # who has it instead

    @property
    def held(self) -> bool:
        return not self.holder


@contextmanager
def hold(fleet: Fleet, project: Project, say: Say) -> Iterator[None]:
    """Raises HostFailed where another install holds a host for too long: nothing was changed then.
    After an error inside, the locks go with the agents."""
    held = _all(fleet, project, say)
    yield
    _release(fleet, held)


def _all(fleet: Fleet, project: Project, say: Say) -> Mapping[Host, _Try]:
    asked = {"install": secrets.token_hex(8), "who": f"{project.name} ({project.by})"}
    tries = fleet.each(lambda host: _take(fleet, host, asked, 0, say))
    if all(one.held for one in tries.values()):
        return tries
    _release(fleet, tries)
    deadline, held = monotonic() + WAIT, dict[Host, _Try]()

    def take(host: Host) -> _Try:
        return _take(fleet, host, asked, max(0.0, deadline - monotonic()), say)

    for host in sorted(tries, key=lambda host: tries[host].name):
        held |= fleet.each(take, [host])
        if host in held and not held[host].held:
            _release(fleet, held)
            raise HostFailed(
                f"{host.name}: another install has locked it for too long; nothing was changed",
                why=f"an install of {held[host].holder} holds it",
                hint="run the same command again once that install has ended",
                slug="install-locked",
            )
    return held


def _take(fleet: Fleet, host: Host, asked: Mapping[str, str], wait: float, say: Say) -> _Try:
    agent = fleet.agents[host]
    header = {"root": fleet.root_of(host), **asked, "wait": wait}
    number = agent.start("install.fleet_lock.hold", header)
    for frame in agent.answers(number, SILENCE, 0):
        with reading(host.name):
            if frame.header.get("event") == "held":
                return _Try(_text(frame.header, "name"), number)
            if frame.header.get("event") == "waiting":
                say(host.name, f"waiting for the install of {_holder(frame.header)}")
            elif done := frame.header.get("done"):
                return _Try(_text(done, "name"), holder=_holder(done))
    raise AssertionError("an operation ends with done, or raises")


def _release(fleet: Fleet, tries: Mapping[Host, _Try]) -> None:
    numbers = {h: one.number for h, one in tries.items() if one.held and h not in fleet.downs}

    def release(host: Host) -> None:
        agent = fleet.agents[host]
        agent.feed(numbers[host], {"release": True})
        agent.wait(numbers[host], timeout=SILENCE)

    fleet.each(release, list(numbers))


def _holder(said: Mapping[str, object]) -> str:
    since = said.get("since")
    seconds = f", since {since} s" if isinstance(since, int) and since else ""
    return (_text(said, "who") or "another user") + seconds


def _text(said: object, name: str) -> str:
    value = said.get(name) if isinstance(said, Mapping) else None
    if not isinstance(value, str) or not value.isprintable():
        raise ValueError(f"no {name} of a lock")
    return value
