"""What became of a play: outcomes by step and host, the recap, the exit code."""

from __future__ import annotations

from collections import Counter

from ipexctl.errors import EXIT_FAILED, EXIT_OK, EXIT_UNREACHABLE
from ipexctl.play.text.play_values import (
    EXIT_UNKNOWN,
    EXIT_WOULD_CHANGE,
    Play,
    State,
    StepOutcome,
)
from ipexctl.quick_dataclass import dataclass

_WORST = (EXIT_UNREACHABLE, EXIT_FAILED, EXIT_WOULD_CHANGE, EXIT_UNKNOWN)


@dataclass(frozen=True)
class PlayReport:
    play: Play
    hosts: tuple[str, ...]
    outcomes: tuple[StepOutcome, ...]
    check: bool
    seconds: float

    def counts(self, host: str) -> Counter[State]:
        return Counter(o.state for o in self.outcomes if o.host == host)

    @property
    def failures(self) -> tuple[StepOutcome, ...]:
        return tuple(o for o in self.outcomes if o.state.stops)

    @property
    def states(self) -> dict[str, str]:
        """Host -> failed or unreachable, or ok."""
        return dict.fromkeys(self.hosts, "ok") | {o.host: o.state.value for o in self.failures}

    @property
    def exit_code(self) -> int:
        codes = {outcome.state.exit_code for outcome in self.outcomes}
        return next((code for code in _WORST if code in codes), EXIT_OK)
