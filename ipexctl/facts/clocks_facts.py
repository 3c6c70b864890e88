"""The clock of a host against that of the controller."""

from __future__ import annotations

from typing import Any

from ipexctl.base.values import positive_or_none
from ipexctl.quick_dataclass import dataclass


@dataclass(frozen=True)
class ClockFacts:
    """The offset of the host's clock from the controller's, and its uncertainty (seconds)."""

    offset: float
    uncertainty: float


def estimate_clock(*, sent: float, received: float, now: float, remote: Any) -> ClockFacts | None:
    """Compute the offset from one question: when it left and when the answer came (monotonic), our
    clock `now` on arrival, and the host's time, which it read somewhere between the two."""
    host_time = positive_or_none(remote)
    half = (received - sent) / 2
    return ClockFacts(offset=host_time - (now - half), uncertainty=half) if host_time else None
