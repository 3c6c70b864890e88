"""The outcome of a play, with that of each step on each host, and the exit code. All frozen."""

from __future__ import annotations

from collections import Counter
from enum import Enum

from ipexctl.errors import EXIT_FAILED, EXIT_OK, EXIT_UNREACHABLE
from ipexctl.play.text.play_values import Play, PlayStep
from ipexctl.quick_dataclass import dataclass

EXIT_WOULD_CHANGE = 10
EXIT_UNKNOWN = 11


class State(str, Enum):
    """The outcome of a step on a host."""

    OK = "ok"
    CHANGED = "changed"
    WOULD_CHANGE = "would change"
    UNKNOWN = "unknown"
    SKIPPED = "skipped"
    IGNORED = "ignored"  # it failed, and the play says ignore_errors
    FAILED = "failed"
    UNREACHABLE = "unreachable"

    @property
    def stops(self) -> bool:
        return self in (State.FAILED, State.UNREACHABLE)

    @property
    def exit_code(self) -> int:
        return _CODES.get(self, EXIT_OK)


_CODES = {
    State.FAILED: EXIT_FAILED,
    State.UNREACHABLE: EXIT_UNREACHABLE,
    State.WOULD_CHANGE: EXIT_WOULD_CHANGE,
    State.UNKNOWN: EXIT_UNKNOWN,
}


@dataclass(frozen=True)
class StepOutcome:
    """A step on a host. `detail` is one line: what changed, or what failed."""

    step: PlayStep
    host: str
    state: State
    detail: str = ""
    why: str = ""
    hint: str = ""
    diff: str = ""
    seconds: float = 0.0
    slug: str = ""  # of what failed


_WORST = (EXIT_UNREACHABLE, EXIT_FAILED, EXIT_WOULD_CHANGE, EXIT_UNKNOWN)


@dataclass(frozen=True)
class PlayReport:
    play: Play
    hosts: tuple[str, ...]
    outcomes: tuple[StepOutcome, ...]
    check: bool
    seconds: float

    def counts(self, host: str) -> Counter[State]:
        return Counter(outcome.state for outcome in self.outcomes if outcome.host == host)

    @property
    def failures(self) -> tuple[StepOutcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.state.stops)

    @property
    def states(self) -> dict[str, str]:
        """The state of each host: failed, unreachable or ok."""
        return dict.fromkeys(self.hosts, "ok") | {o.host: o.state.value for o in self.failures}

    @property
    def exit_code(self) -> int:
        codes = {outcome.state.exit_code for outcome in self.outcomes}
        return next((code for code in _WORST if code in codes), EXIT_OK)
