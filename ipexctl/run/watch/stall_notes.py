"""Says once per stall which rank hangs, from the looks of all hosts."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from ipexctl.quick_dataclass import dataclass
from ipexctl.run.outcome.run_events import Looked, Stalled
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
    noted: bool = False
    ends: dict[int, str] = field(default_factory=dict)  # of ranks, before it: later ones were ended

    def looked(self, host: str, event: Looked) -> None:
        self.looks.setdefault(event.number, {})[host] = event.ranks

    def stands_still(self, event: Stalled, now: float) -> None:
        self.stalled, self.since, self.noted = event, now, False
        self.ends = {rank: end.short for rank, end in self.state.ends.items()}

    def moves(self) -> None:
        if self.stalled and self.noted:
            self.painter.note("the run makes progress again")
        self.stalled = None
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
        self.noted = True
        seconds = self.stalled.seconds + now - self.since
        self.painter.note(self._text(self._there(self.stalled), seconds, silent))

    def _there(self, stalled: Stalled) -> dict[str, Any]:
        return self.looks.get(stalled.number, {})

    def _active(self) -> set[str]:
        of = self.state.plan.host_of
        return {of(rank) for rank in self.state.started - self.state.ends.keys()}

    def _text(
        self, looks: dict[str, Any], seconds: float, silent: tuple[tuple[str, float], ...]
    ) -> str:
        from ipexctl.run.hang.diagnosis import diagnose
        from ipexctl.run.hang.run_situation import situation

        found = diagnose(situation(self.state.plan, looks, self.ends, seconds, silent))
        return f"no progress for {seconds:.0f} s: {found.headline} (ipexctl why {self.run})"
