"""Live lines: on a terminal they are below all that a command prints while it works."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text


class LiveLines:
    """Rich's Live with what `lines` returns. A pipe, CI or a dumb terminal gets none of it.

    A thread draws them at this interval in seconds (0: only `draw` does). The owner holds `lock`
    while it changes what `lines` reads, and while it prints.
    """

    def __init__(self, console: Console, lines: Callable[[], Text], every: float = 0.0) -> None:
        self.console, self._lines, self._every = console, lines, every
        self.drawn = console.is_interactive
        self.lock = threading.RLock()
        self._live: Live | None = None

    def start(self) -> None:
        global _shown
        with self.lock:
            if self._live or not self.drawn:
                return
            from rich.live import Live

            self._live = Live(
                console=self.console,
                get_renderable=lambda: self._lines() if self._live else "",
                auto_refresh=False,
                transient=True,
                redirect_stdout=sys.stdout.isatty(),
                redirect_stderr=sys.stderr.isatty(),
            )
            self._live.start()
            self.console.show_cursor()  # else a command that is killed would leave it hidden
            _shown = self
            if self._every:
                threading.Thread(target=self._redraw_lines, args=(self._live,), daemon=True).start()

    def draw(self) -> None:
        """Draw the lines in their present state; the first call starts them."""
        with self.lock:
            self.start()
            if self._live:
                self._live.refresh()

    def stop(self) -> None:
        """Clear the lines; what is printed afterwards appears in their place."""
        global _shown
        with self.lock:
            live, self._live = self._live, None
            if live:
                _shown = None
                live.stop()

    def print(self, text: str) -> None:
        """Print lines that contain escape codes: Rich would need a millisecond to parse each."""
        from rich.segment import Segment, Segments

        with self.lock:
            self.console.print(Segments([Segment(text)]), soft_wrap=True, end="")

    def _redraw_lines(self, live: Live) -> None:
        with suppress(OSError):  # the terminal is gone, and the next print reports it
            while True:
                time.sleep(self._every)
                with self.lock:
                    if self._live is not live:
                        return
                    live.refresh()


_shown: LiveLines | None = None  # there is one terminal


@contextmanager
def without_live_lines() -> Iterator[None]:
    """Clear the live lines while a question is asked: they would be drawn over it."""
    lines = _shown
    if not lines:
        yield
        return
    with lines.lock:
        lines.stop()
        try:
            yield
        finally:
            lines.start()
