"""Choose runs from a list: by state, by time."""

from __future__ import annotations

from datetime import datetime

from ipexctl.base.located_errors import nearest_word
from ipexctl.base.sizes import seconds_of
from ipexctl.errors import InputError
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.outcome.listed_runs import ListedRun
from ipexctl.run.outcome.run_state import Phase


@dataclass(frozen=True)
class RunFilter:
    """Which runs to list. `states`: empty for all. `since`: leave out runs that ended before."""

    states: tuple[Phase, ...] = ()
    since: float | None = None

    def keeps(self, run: ListedRun, now: float) -> bool:
        if self.states and run.phase not in self.states:
            return False
        unknown = self.since is None or not run.began  # an unknown time is not an early one
        return unknown or not run.over or run.began + run.seconds_at(now) >= (self.since or 0.0)


def read_filter(states: str, since: str, now: float) -> RunFilter:
    """Read --state and --since. Raise InputError."""
    known = {state.value: state for state in Phase}
    words = [word.strip() for word in states.split(",") if word.strip()]
    for word in words:
        if word not in known:
            raise InputError(
                f"--state {word}: not a state",
                why=f"the states are {', '.join(known)}",
                slug="state-unknown",
            ).with_meant(word, nearest_word(word, known))
    return RunFilter(tuple(known[word] for word in words), _read_moment(since, now))


def _read_moment(text: str, now: float) -> float | None:
    """Return a time: so long ago (2h, 3d), or a date with or without a time of day."""
    if not text:
        return None
    if text[-1:].isalpha() and (seconds := seconds_of(text)) is not None:
        return now - seconds
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        raise InputError(
            f"--since {text}: neither a duration nor a date",
            why="examples: 90m, 2h, 3d, 2026-11-28, 2026-11-28T18:00",
            slug="time-invalid",
        ) from None
