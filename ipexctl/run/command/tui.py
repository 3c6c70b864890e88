"""A run in panes, one for each rank. `q` gives the terminal back and goes on as a stream."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ipexctl.errors import printable
from ipexctl.run.command.panes import Pane, Panes
from ipexctl.run.command.run_text import RESET, count, prefixes, progress_words, status, write
from ipexctl.run.command.screen import Screen
from ipexctl.run.command.stream import TerminalView
from ipexctl.run.output.rank_lines import without_colour
from ipexctl.run.plan.launch import LaunchPlan

if TYPE_CHECKING:
    from ipexctl.run.outcome.run_result import RunResult, Tally

EVERY = 0.1  # seconds between two drawings
NOTE_STAYS = 8.0


class PanesView:
    lossy = True

    def __init__(self, stream: TerminalView) -> None:
        self.stream = stream
        self.screen = Screen()
        self.panes: Panes | None = None
        self._notes: list[str] = []
        self._rows: list[str] = []  # as they were drawn last
        self._noted = self._drawn = 0.0
        self._tally: Tally | None = None
        self._streams = False  # from `q` on

    def planned(self, run_id: str, plan: LaunchPlan) -> None:
        self.close()  # of an attempt before
        self.stream.planned(run_id, plan)
        if self._streams:
            return
        self._rows, self._tally = [], None
        prefix = prefixes(plan)
        places = [(h.host, p.rank) for h in plan.hosts for p in h.ranks]
        self.panes = Panes([Pane(h, r, prefix(h, r)) for h, r in sorted(places, key=_by_rank)])
        self._by_rank = {pane.rank: pane for pane in self.panes.panes}
        self._run_id = run_id
        self._training = self.stream.training
        self.screen.enter()

    def note(self, text: str) -> None:
        if self.panes is None:
            self.stream.note(text)
            return
        self._notes.append(printable(text))
        self._noted = time.monotonic()
        self._draw()

    def lines(self, host: str, rank: int, texts: Sequence[str]) -> None:
        if self.panes is None:
            self.stream.lines(host, rank, texts)
            return
        self._training.lines(rank, texts, time.monotonic())
        pane = self._by_rank[rank]
        pane.bar = ""
        pane.lines.extend(map(without_colour, texts))
        self._draw()

    def bar(self, host: str, rank: int, text: str) -> None:
        if self.panes is None:
            self.stream.bar(host, rank, text)
        else:
            self._training.lines(rank, [text], time.monotonic())
            self._by_rank[rank].bar = without_colour(text)

    def dropped(self, lines: int) -> None:
        if self.panes is None:
            self.stream.dropped(lines)
        else:
            self.note(f"{count(lines, 'line')} arrived too fast for this terminal: see the logs")

    def tick(self, tally: Tally) -> None:
        if self.panes is None:
            self.stream.tick(tally)
            return
        self._tally = tally
        for rank, code in tally.codes:
            self._by_rank[rank].code = code
        self._draw()

    def failed(self, rank: int) -> None:
        self.stream.failed(rank)

    def result(self, result: RunResult) -> None:
        self.close()
        self.stream.result(result)

    def close(self) -> None:
        """Back to the stream, with what was said meanwhile."""
        if self.panes is not None:
            self.panes = None
            self.screen.leave()
            for row in self._rows[:-1]:  # the last one is about keys
                write(f"{row.rstrip()}{RESET}\n")
            for text in self._notes:
                self.stream.note(text)
            self._notes.clear()

    def _draw(self) -> None:
        now = time.monotonic()
        if self.panes is None or now - self._drawn < EVERY:
            return
        self._drawn = now
        was_paused = self.panes.paused
        for key in self.screen.pressed():
            if key == "q" and not self.panes.typing:
                self._streams = True
                self.close()
                return
            self.panes.key(key)
            was_paused = False  # a key is answered, paused or not
        if was_paused:
            return
        width, height = self.screen.size()
        note = (
            self._notes[-1].replace("\n", " ")
            if self._notes and now - self._noted < NOTE_STAYS
            else ""
        )
        line = f" {self._run_id}"
        if self._tally:
            progress = self._training.progress(now)
            line = status(self._tally, progress, bare=True, width=width)
        for rank, known in self.stream.training.ranks.items():
            self._by_rank[rank].progress = "  ".join(progress_words(known.progress))
        self._rows = self.panes.rows(width, height, line, note and f" {note}")
        self.screen.draw(self._rows)


def _by_rank(place: tuple[str, int]) -> int:
    return place[1]
