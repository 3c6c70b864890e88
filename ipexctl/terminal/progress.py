"""The steps that a command reports while it works on hosts."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any, TypeVar

from ipexctl.errors import IpexctlError
from ipexctl.inventory.inventory import Host
from ipexctl.quick_dataclass import dataclass

BUILDING, PROVING, DONE = "building", "testing", "done"  # these have no known progress
FETCHING = "fetching"  # by the controller
FAILED = "failed"
MOVING = ("sending", FETCHING)  # first words of work that is done in many pieces

T = TypeVar("T")


@dataclass(frozen=True)
class ProgressStep:
    """What a host (or, with host "", the controller) is doing now. total 0: not counted."""

    host: str
    text: str
    done: int = 0
    total: int = 0


@dataclass(frozen=True)
class HostProgress:
    """The callbacks to which a verb reports. Calls to `step` come from many threads."""

    chosen: Callable[[Any], None] = lambda plan: None  # gets the plan before it is carried out
    step: Callable[[ProgressStep], None] = lambda step: None
    say: Callable[[str], None] = lambda text: None
    # Asked once, if there is something to do. False: the user answered no.
    agreed: Callable[[Any], bool] = lambda plan: True

    def track(self, work: Callable[[Host], T]) -> Callable[[Host], T]:
        """Wrap `work`: a host on which it fails is shown as failed."""

        def one(host: Host) -> T:
            try:
                return work(host)
            except IpexctlError:
                self.step(ProgressStep(host.name, FAILED))
                raise

        return one


def lines_of(
    say: Callable[[str, str], None], hidden: Container[str] = (DONE,)
) -> Callable[[ProgressStep], None]:
    """Return a `Progress.step` that reports each kind of step once per host."""
    reported: set[tuple[str, str]] = set()

    def step(step: ProgressStep) -> None:
        first = step.text.partition(" ")[0]
        kind = step.host, first if first in MOVING else step.text
        if step.text not in hidden and kind not in reported:
            reported.add(kind)
            say(step.host, step.text)

    return step
