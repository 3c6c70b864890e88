"""Print what `logs` shows: `node02 r05 | text`, or only the text if one rank is selected.

With --follow in a terminal, the output looks like that of `run`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence

from rich.text import Text

from ipexctl.run.command.run_text import RESET, Prefixes, close_colours, colour_of
from ipexctl.run.command.stream import TerminalView
from ipexctl.run.jobs.logs import Show
from ipexctl.run.jobs.ps import AskedRun
from ipexctl.run.outcome.listed_runs import ListedRun
from ipexctl.run.output.rank_lines import without_colour
from ipexctl.terminal.console import print_lines, stderr_console, stdout_console
from ipexctl.terminal.live_lines import LiveLines
from ipexctl.terminal.recap_lines import not_shown


def plain_line_writer(*, alone: bool) -> Show:
    """Return a function that prints lines of ranks. `alone`: without their prefix."""
    console = stdout_console()
    colour = console.is_terminal and not console.no_color

    def show(run: ListedRun, host: str, rank: int, texts: Sequence[str]) -> None:
        prefix = rank_prefix(run, host, rank)
        prefix = f"\x1b[{colour_of(rank)}m{prefix}{RESET} | " if colour else f"{prefix} | "
        spelled: Callable[[str], str] = close_colours if colour else without_colour
        lines = (f"{'' if alone else prefix}{spelled(text)}\n" for text in texts)
        print("".join(lines), end="", flush=True)

    return show


def rank_prefix(run: ListedRun, host: str, rank: int) -> str:
    """Return `node02 r05`, as wide as for any rank of the run."""
    return Prefixes(run.about.hosts, run.about.ranks)(host, rank)


class FollowView(TerminalView):
    """The output of an active run, as `run` shows it: folded, with a status line."""

    def __init__(self, *, fold: bool, ranks: int) -> None:
        super().__init__(stdout_console(), fold=fold, verbose=True)
        self._live = LiveLines(self.console, self._status, every=0.1)
        self._run, self._chosen = "", ranks

    def show(self, run: ListedRun, host: str, rank: int, texts: Sequence[str]) -> None:
        with self._live.lock:
            self._place_rank(run, host, rank)
            self.lines(host, rank, texts)

    def show_bar(self, run: ListedRun, host: str, rank: int, text: str) -> None:
        with self._live.lock:
            self._place_rank(run, host, rank)
            self.bar(host, rank, text)

    def _place_rank(self, run: ListedRun, host: str, rank: int) -> None:
        if self._run != run.id:
            self._run = run.id
            ranks = max(run.about.ranks, rank + 1)
            self.prefix = Prefixes(run.about.hosts, ranks)
            self.fold(self._chosen or ranks)
            self._live.start()
        self.prefix.place_rank(rank, host)

    def _status(self) -> Text:
        """Return the status line; first show folded lines whose waiting time is over."""
        self._show(self._fold.due(time.monotonic()))
        return super()._status()


def json_lines(run: ListedRun, host: str, rank: int, texts: Sequence[str]) -> None:
    """Print an object for each line, as `run --json` does."""
    events = ({"event": "line", "host": host, "rank": rank, "text": text} for text in texts)
    lines = (f"{json.dumps({'schema_version': 1, **event})}\n" for event in events)
    print("".join(lines), end="", flush=True)


class Noticed:
    """Pass lines on, and note that there were some."""

    def __init__(self, show: Show) -> None:
        self._show = show
        self.any = False

    def show(self, run: ListedRun, host: str, rank: int, texts: Sequence[str]) -> None:
        self.any = True
        self._show(run, host, rank, texts)


def show_missing(read: AskedRun, *, printed: bool) -> None:
    """Show the hosts that could not be asked, and say so if there was nothing to print."""
    console = stderr_console()
    if not printed:
        none = "no such output" if read.run.over else "no such output yet"
        said = f"{none}: {read.run.name_or_id} is {read.run.phase.value}"
        print_lines(console, [Text(said)])
    print_lines(console, not_shown(read.recaps, read.answered))
