"""Says once per stall which rank hangs, from the looks of all hosts."""

from __future__ import annotations

from dataclasses import field, replace
from typing import Any

from ipexctl.quick_dataclass import dataclass
from ipexctl.run.outcome.run_events import Looked, Stalled
from ipexctl.run.outcome.run_result import Stall
from ipexctl.run.outcome.run_state import RunState
from ipexctl.run.watch.run_watchers import Painter

PATIENCE = 3.0  # seconds for the looks of hosts that are slow, or not reached from here


@dataclass
class StallNotes:
    """Fed with events; asked ten times a second. No clock here: `now` is given."""

    state: RunState
    painter: Painter
    run: str  # its name, or its ID
    looks: dict[int, dict[str, Any]] = field(default_factory=dict)  # number -> host -> look
    stalled: Stalled | None = None
    since: float = 0.0  # when this command learned of it
    noted: Stall | None = None
    ended: float | None = None  # when the run was told to end
    ends: dict[int, str] = field(default_factory=dict)  # of ranks, before it: later ones were ended

    def looked(self, host: str, event: Looked) -> None:
        self.looks.setdefault(event.number, {})[host] = event.ranks

    def stands_still(self, event: Stalled, now: float) -> None:
        self.stalled, self.since, self.noted = event, now, None
        self.ends = {rank: end.short for rank, end in self.state.ends.items()}

    def moves(self) -> None:
        if self.stalled and self.noted:
            self.painter.note("the run makes progress again")
        self.stalled = self.noted = None
        self.looks.clear()

    def tick(self, now: float, silent: tuple[tuple[str, float], ...]) -> None:
        """`silent`: hosts that do not respond, and for how many seconds."""
        if self.stalled is None or self.noted:
            return
        late = self._active() - self._there(self.stalled).keys()
        if not late or now - self.since >= PATIENCE:
            self.tell(now, silent)

    def tell(self, now: float, silent: tuple[tuple[str, float], ...] = ()) -> None:
        """Unless it was told; also when a run ends that stood still a moment ago, or long ago."""
        if self.stalled is None or self.noted:
            return
        self.noted = self._diagnosed(self._there(self.stalled), self._seconds(now), silent)
        self.painter.note(f"{self.noted} (ipexctl why {self.run})")

    def at_end(self, now: float) -> Stall | None:
        """What held the run up when it was told to end; all hosts have sent their looks."""
        self.tell(now)
        return replace(self.noted, seconds=self._seconds(now)) if self.noted else None

    def _seconds(self, now: float) -> float:
        at = now if self.ended is None else self.ended
        return (self.stalled.seconds if self.stalled else 0.0) + at - self.since

    def _there(self, stalled: Stalled) -> dict[str, Any]:
        return self.looks.get(stalled.number, {})

    def _active(self) -> set[str]:
        of = self.state.plan.host_of
        return {of(rank) for rank in self.state.started - self.state.ends.keys()}

    def _diagnosed(
        self, looks: dict[str, Any], seconds: float, silent: tuple[tuple[str, float], ...]
    ) -> Stall:
        from ipexctl.run.hang.diagnosis import diagnose
        from ipexctl.run.hang.run_situation import situation

        found = diagnose(situation(self.state.plan, looks, self.ends, seconds, silent))
        return Stall(seconds, found.kind.value, found.headline)
