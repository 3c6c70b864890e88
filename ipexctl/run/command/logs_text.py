"""What `logs` shows: `node02 r05 | text`, or the text alone where one rank is asked for.

With --follow in a terminal, what `run` shows.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ipexctl.run.command.run_text import RESET, Prefixes, closed, colour_of, write
from ipexctl.run.command.stream import TerminalView
from ipexctl.run.jobs.logs import Show
from ipexctl.run.jobs.ps import AskedRun
from ipexctl.run.outcome.listed_runs import Run
from ipexctl.run.output.rank_lines import without_colour
from ipexctl.terminal.console import print_lines, stderr_console, stdout_console
from ipexctl.terminal.recap_lines import not_shown


def lines(*, alone: bool) -> Show:
    console = stdout_console()
    colour = console.is_terminal and not console.no_color

    def show(run: Run, host: str, rank: int, texts: Sequence[str]) -> None:
        prefix = place(run, host, rank)
        prefix = f"\x1b[{colour_of(rank)}m{prefix}{RESET} | " if colour else f"{prefix} | "
        spelled: Callable[[str], str] = closed if colour else without_colour
        write("".join(f"{'' if alone else prefix}{spelled(text)}\n" for text in texts))

    return show


def place(run: Run, host: str, rank: int) -> str:
    """`node02 r05`, as wide as for any rank of the run."""
    return Prefixes(run.about.hosts, run.about.ranks)(host, rank)


class FollowView(TerminalView):
    """The output of a run that goes on, as `run` shows it: folded, with a status line."""

    def __init__(self, *, fold: bool, ranks: int) -> None:
        super().__init__(stdout_console(), fold=fold, verbose=True)
        self._run, self._chosen = "", ranks
        self._lock, self._over = threading.Lock(), threading.Event()

    def show(self, run: Run, host: str, rank: int, texts: Sequence[str]) -> None:
        with self._lock:
            self._place(run, host, rank)
            self.lines(host, rank, texts)

    def show_bar(self, run: Run, host: str, rank: int, text: str) -> None:
        with self._lock:
            self._place(run, host, rank)
            self.bar(host, rank, text)

    def _place(self, run: Run, host: str, rank: int) -> None:
        if self._run != run.id:
            self._run = run.id
            ranks = max(run.about.ranks, rank + 1)
            self.prefix = Prefixes(run.about.hosts, ranks)
            self.fold(self._chosen or ranks)
        self.prefix.place(rank, host)

    @contextmanager
    def live(self) -> Iterator[None]:
        """Lines that wait for their equals are shown in time, and the status line is drawn."""
        ticks = threading.Thread(target=self._ticks, daemon=True)
        ticks.start()
        try:
            yield
        finally:
            self._over.set()
            ticks.join()
            if self._run:
                self.rest()

    def _ticks(self) -> None:
        while not self._over.wait(0.1):
            with self._lock:
                if self._run:
                    self.tick(None)


def json_lines(run: Run, host: str, rank: int, texts: Sequence[str]) -> None:
    """One object for each line, as `run --json` has them."""
    events = ({"event": "line", "host": host, "rank": rank, "text": text} for text in texts)
    write("".join(f"{json.dumps({'schema_version': 1, **event})}\n" for event in events))


def show_missing(read: AskedRun) -> None:
    """Hosts that could not be asked."""
    print_lines(stderr_console(), not_shown(read.recaps, read.answered))
