"""What the controller knows of one host during a run."""

from __future__ import annotations

from dataclasses import dataclass, field

from ipexctl.core.run.outcome import HostEnd
from ipexctl.hosts.agent import Agent


@dataclass
class Link:
    """The controller's end of one host's part in the run."""

    agent: Agent
    work: str
    ranks: frozenset[int]
    number: int = 0
    heard: float = 0.0  # any word
    unshown: int = 0  # bytes of output on their way to the eyes
    owed: int = 0  # bytes painted, and not yet given back to the host
    left: int = 0  # bytes of output that were to come when its ranks had ended
    came: int = 0  # bytes of output since the end of the run
    said: set[str] = field(default_factory=set)  # what a host says once
    end: HostEnd | None = None
    lost: bool = False
    away: float = 0.0  # since when we do not reach it, while the hub may

    @property
    def open(self) -> bool:
        return not self.lost and not self.done

    @property
    def done(self) -> bool:
        """It has said its last word."""
        return self.end is not None and bool(self.end.logs)
