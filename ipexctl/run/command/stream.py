"""Show a run as scrolling text: `node02 r05 | text`, a status line, and a summary at the end."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from ipexctl.base.sizes import count
from ipexctl.run.command.run_text import (
    RESET,
    close_colours,
    colour_of,
    rank_prefixes,
    run_headline,
    status_line,
)
from ipexctl.run.command.summary import OUTPUT, summary_lines
from ipexctl.run.output.merge_lines import Fold, LineGroup
from ipexctl.run.output.rank_lines import without_colour
from ipexctl.run.output.short_paths import shorten_paths
from ipexctl.run.output.training_state import Training
from ipexctl.run.plan.launch import LaunchPlan
from ipexctl.run.watch.metric_formats import metric_formats
from ipexctl.run.watch.run_watchers import View
from ipexctl.terminal.console import print_lines, print_text, stderr_console, without_controls
from ipexctl.terminal.live_lines import LiveLines

if TYPE_CHECKING:
    from ipexctl.run.outcome.run_result import RunResult, Tally


class PlainView(View):
    """The view without a terminal: ranks' lines on stdout, all else on stderr, complete.

    `aside`: print the lines to stderr, too, as stdout is for the run's id.
    """

    def __init__(self, *, aside: bool = False, verbose: bool = False) -> None:
        self.console = stderr_console()
        self.detailed = verbose
        self._to = sys.stderr if aside else sys.stdout

    def note(self, text: str) -> None:
        print_text(self.console, text)

    def planned(self, run_id: str, plan: LaunchPlan) -> None:
        self.prefix = rank_prefixes(plan)
        print_text(self.console, run_headline(run_id, plan))
        if plan.environment and (self.detailed or plan.environment.source != "lock"):
            print_text(self.console, str(plan.environment))
        for text in plan.notes:
            self.note(text)

    def lines(self, host: str, rank: int, texts: Sequence[str]) -> None:
        prefix = f"{self.prefix(host, rank)} | "
        block = f"\n{prefix}".join(texts)  # the texts contain no newlines
        print(f"{prefix}{without_colour(block)}", file=self._to, flush=True)

    def bar(self, host: str, rank: int, text: str) -> None:
        self.lines(host, rank, [text])

    def result(self, result: RunResult) -> None:
        for line in summary_lines(result, detailed=self.detailed):
            if line.plain.startswith(OUTPUT):
                self.console.print(without_controls(line), soft_wrap=True)
            else:
                print_lines(self.console, [line], " " * 7)


class TerminalView(PlainView):
    """A terminal: coloured lines, those of many ranks that differ only in numbers folded into one,
    and a status line with the progress of the training.

    After the first failure of a rank, lines of the others are counted and not shown.
    """

    lossy = True

    def __init__(self, out: Console, *, fold: bool = True, verbose: bool = False) -> None:
        super().__init__(verbose=verbose)
        self.console = out
        self._colour = not out.no_color
        self._folds = fold
        self._live = LiveLines(out, self._status)
        self._tally: Tally | None = None
        self._drawn = 0.0
        self._first: int | None = None
        self.held_back = 0
        self._bar = ""
        self._fold = Fold(1)

    def planned(self, run_id: str, plan: LaunchPlan) -> None:
        self.rest()  # of the previous attempt
        self._first, self._bar = None, ""
        self.fold(plan.world_size)
        super().planned(run_id, plan)

    def fold(self, ranks: int) -> None:
        self._fold = Fold(ranks if self._folds else 1)
        self.training = Training(metric_formats())

    def lines(self, host: str, rank: int, texts: Sequence[str]) -> None:
        now = time.monotonic()
        self.training.lines(rank, texts, now)
        if self._first is not None and rank != self._first:
            self.held_back += len(texts)
            return
        self._fold.add(rank, texts, now)
        self._show(self._fold.due(now))

    def bar(self, host: str, rank: int, text: str) -> None:
        """Show in the status line the bar's numbers, or the bar if it is not of training."""
        if not self.training.lines(rank, [text], time.monotonic()):
            self._bar = f"{self.prefix(host, rank)} {without_colour(text).strip()}"

    def failed(self, rank: int) -> None:
        if self._first is None and not self.detailed:
            self.held_back += self._fold.without(rank)
            self._first = rank

    def dropped(self, lines: int) -> None:
        self._show(self._fold.rest())
        self.note(f"... {count(lines, 'line')} arrived too fast for this terminal: see the logs")

    def tick(self, tally: Tally) -> None:
        now = time.monotonic()
        self._tally = tally
        self._show(self._fold.due(now))
        if now - self._drawn > 0.2:
            self._drawn = now
            self._live.draw()

    def rest(self) -> None:
        """Show lines that still wait to be folded, and the number of those not shown."""
        self._live.stop()
        self._show(self._fold.rest())
        if self.held_back:
            lines, self.held_back = count(self.held_back, "line"), 0
            self.note(f"... {lines} from other ranks after the failure not shown (-v shows them)")

    def result(self, result: RunResult) -> None:
        self.rest()
        super().result(result)

    def close(self) -> None:
        with suppress(OSError):
            self._live.stop()

    def _status(self) -> Text:
        progress = self.training.progress(time.monotonic())
        return status_line(self._tally, progress, self._bar, width=self.console.width - 1)

    def _show(self, groups: Iterable[LineGroup]) -> None:
        block = "".join(map(self._line, groups))
        if block:
            self._live.print(block)

    def _line(self, group: LineGroup) -> str:
        prefix = f"{self.prefix.of_group(group)} |"
        text = shorten_paths(group.text)
        if not self._colour:
            return f"{prefix} {without_colour(text)}\n"
        code = 1 if len(group.ranks) > 1 else colour_of(group.ranks[0])
        return f"\x1b[{code}m{prefix}{RESET} {close_colours(text)}\n"
