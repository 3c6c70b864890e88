"""What a command that works on hosts tells on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from ipexctl.errors import IpexctlError
from ipexctl.inventory.inventory import Host
from ipexctl.quick_dataclass import dataclass

if TYPE_CHECKING:
    from ipexctl.install.install_plan import Plan

BUILDING, PROVING, DONE = "building", "testing", "done"  # of these it is not known how far they are
FETCHING = "fetching"  # by this machine
FAILED = "failed"

T = TypeVar("T")


@dataclass(frozen=True)
class Step:
    """What a host (or, with host "", this machine) is doing now. total 0: not counted."""

    host: str
    text: str
    done: int = 0
    total: int = 0


@dataclass(frozen=True)
class Progress:
    """Where the verb tells what it does. Calls to `step` come from many threads."""

    chosen: Callable[[Plan], None] = lambda plan: None  # what, before it is done
    step: Callable[[Step], None] = lambda step: None
    say: Callable[[str], None] = lambda text: None
    # Asked once, if there is something to do. False: the user says no.
    agreed: Callable[[Plan], bool] = lambda plan: True

    def shown(self, work: Callable[[Host], T]) -> Callable[[Host], T]:
        """`work`, and a host on which it fails is shown as failed."""

        def one(host: Host) -> T:
            try:
                return work(host)
            except IpexctlError:
                self.step(Step(host.name, FAILED))
                raise

        return one
