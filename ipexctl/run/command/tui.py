"""A run in panes, one for each rank. `q` gives the terminal back and goes on as a stream."""

from __future__ import annotations

import atexit
import os
import re
import select
import sys
import termios
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from rich.cells import set_cell_size

from ipexctl.base.sizes import count
from ipexctl.errors import printable
from ipexctl.local.environment import environment
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.command.run_text import RESET, colour_of, prefixes, progress_words, status, write
from ipexctl.run.command.stream import TerminalView
from ipexctl.run.output.rank_lines import without_colour
from ipexctl.run.plan.launch import LaunchPlan
from ipexctl.run.watch.run_watchers import View

if TYPE_CHECKING:
    from ipexctl.run.outcome.run_result import RunResult, Tally

KEPT = 1000  # lines of each rank
NARROW, LOW = 26, 4  # the smallest pane
SMALLEST = (20, 5)


@dataclass
class Pane:
    host: str
    rank: int
    title: str
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=KEPT))
    bar: str = ""
    code: int | None = None
    progress: str = ""  # step and loss


@dataclass
class Panes:
    """What is looked at. `key` changes it; `rows` draws it."""

    panes: list[Pane]
    selected: int = 0
    zoomed: bool = False
    paused: bool = False
    typing: bool = False  # a filter
    filter: str = ""
    scroll: int = 0  # lines up from the end, when zoomed
    page: int = 1  # lines that a page has
    fits: int = 1  # panes that fit on the screen

    def key(self, key: str) -> None:
        if self.typing:
            self._type(key)
        elif key in ("right", "tab", "l", "left", "h"):
            step = -1 if key in ("left", "h") else 1
            self.selected = (self.selected + step) % len(self.panes)
            self.scroll = 0
        elif key == "enter":
            self.zoomed, self.scroll = not self.zoomed, 0
        elif key == "escape":
            self.zoomed, self.filter, self.scroll = False, "", 0
        elif key in ("p", " "):
            self.paused = not self.paused
        elif key == "/":
            self.typing = True
        elif key in ("page-up", "page-down") and not self.zoomed:
            step = self.fits if key == "page-down" else -self.fits
            self.selected = min(max(0, self.selected + step), len(self.panes) - 1)
        elif key in ("up", "k", "page-up"):
            self.scroll += self.page if key == "page-up" else 1
        elif key in ("down", "j", "page-down"):
            self.scroll = max(0, self.scroll - (self.page if key == "page-down" else 1))

    def _type(self, key: str) -> None:
        if key in ("enter", "escape"):
            self.typing = False
            self.filter = "" if key == "escape" else self.filter
        elif key == "back":
            self.filter = self.filter[:-1]
        elif len(key) == 1 and key.isprintable():
            self.filter += key

    def rows(self, width: int, height: int, status: str, note: str) -> list[str]:
        if width < SMALLEST[0] or height < SMALLEST[1]:
            return [set_cell_size("the terminal is too small", width)]
        inner = height - 2
        body = self._zoom(width, inner) if self.zoomed else self._grid(width, inner)
        body += [""] * (inner - len(body))
        return [set_cell_size(status, width), *body[:inner], self._foot(width, note)]

    def _foot(self, width: int, note: str) -> str:
        if self.typing:
            return set_cell_size(
                f" filter: {self.filter}_   Enter applies it, Esc clears it", width
            )
        text = note or " arrows select  Enter zoom  / filter  p pause  q stream  Ctrl-C stop"
        text = f" [filter {self.filter}]{text}" if self.filter else text
        text = f" [paused]{text}" if self.paused else text
        if self.fits < len(self.panes) and not self.zoomed:
            first = self.selected // self.fits * self.fits
            last = min(first + self.fits, len(self.panes))
            text = f" panes {first + 1}-{last} of {len(self.panes)}  PgDn PgUp {text}"
        return f"\x1b[2m{set_cell_size(text, width)}"

    def _zoom(self, width: int, height: int) -> list[str]:
        pane = self.panes[self.selected]
        lines = self._lines(pane)
        self.page = height - 1
        self.scroll = min(self.scroll, max(0, len(lines) - self.page))
        end = len(lines) - self.scroll
        shown = lines[max(0, end - self.page) : end]
        more = f" ({self.scroll} lines below)" if self.scroll else ""
        return [
            self._title(pane, width, more, chosen=True),
            *(set_cell_size(t, width) for t in shown),
        ]

    def _grid(self, width: int, height: int) -> list[str]:
        columns, rows = layout(len(self.panes), width, height)
        self.fits = columns * rows
        at = self.selected // self.fits * self.fits
        panes = self.panes[at : at + self.fits]
        high, wide = height // rows, width // columns
        out = []
        for first in range(0, len(panes), columns):
            blocks = [self._block(p, wide - 1, high) for p in panes[first : first + columns]]
            out += [" ".join(parts) for parts in zip(*blocks, strict=True)]
        return out

    def _block(self, pane: Pane, width: int, height: int) -> list[str]:
        shown = self._lines(pane)[-(height - 1) :]
        chosen = pane is self.panes[self.selected]
        title = self._title(pane, width, "", chosen=chosen)
        body = [set_cell_size(text, width) for text in shown]
        return [title, *body, *([" " * width] * (height - 1 - len(body)))]

    def _lines(self, pane: Pane) -> Sequence[str]:
        lines = [*pane.lines, *([pane.bar] if pane.bar else [])]
        if not self.filter:
            return lines
        try:
            wanted = re.compile(self.filter, re.IGNORECASE)
        except re.error:
            wanted = re.compile(re.escape(self.filter), re.IGNORECASE)
        return [text for text in lines if wanted.search(text)]

    def _title(self, pane: Pane, width: int, more: str, *, chosen: bool) -> str:
        state = "" if pane.code is None else " done" if pane.code == 0 else f" exit {pane.code}"
        known = f"  {pane.progress}" if pane.progress and pane.code is None else ""
        name = f" {pane.title}{state}{known}{more} "
        text = set_cell_size(f"--{name}{'-' * width}", width)
        colour = 31 if pane.code else colour_of(pane.rank)
        return f"\x1b[{'7;' if chosen else ''}{colour}m{text}\x1b[0m"


def layout(count: int, width: int, height: int) -> tuple[int, int]:
    """Columns and rows of panes: the widest panes that all fit, else as many as can be read."""
    most = max(1, width // NARROW)
    for columns in range(1, most + 1):
        rows = -(-count // columns)
        if height // rows >= LOW:
            return columns, rows
    return most, max(1, height // LOW)


EVERY = 0.1  # seconds between two drawings
NOTE_STAYS = 8.0


class PanesView(View):
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


ENTER = "\x1b[?1049h\x1b[?25l"
LEAVE = "\x1b[?25h\x1b[?1049l"
_ARROWS = {
    b"\x1b[A": "up", b"\x1b[B": "down", b"\x1b[C": "right", b"\x1b[D": "left",
    b"\x1b[5~": "page-up", b"\x1b[6~": "page-down", b"\x1bOA": "up", b"\x1bOB": "down",
    b"\x1bOC": "right", b"\x1bOD": "left",
}  # fmt: skip
_NAMES = {"\r": "enter", "\n": "enter", "\x1b": "escape", "\x7f": "back", "\b": "back", "\t": "tab"}


def why_no_screen() -> str:
    """Why there is no screen to be had; empty if there is one."""
    if not sys.stdout.isatty() or not sys.stdin.isatty():
        return "stdin and stdout are not a terminal"
    if environment().get("TERM", "dumb") in ("", "dumb"):
        return "the terminal cannot move its cursor (TERM=dumb)"
    return ""


class Screen:
    """Ctrl-C still is a signal. Ctrl-Z is not: a run that stands still is lost."""

    def __init__(self) -> None:
        self._before: list[Any] | None = None
        self._rest = b""

    def enter(self) -> None:
        fd = sys.stdin.fileno()
        self._before = termios.tcgetattr(fd)
        atexit.register(self.leave)
        raw = termios.tcgetattr(fd)
        raw[3] &= ~(termios.ICANON | termios.ECHO)
        raw[6][termios.VSUSP] = b"\0"
        termios.tcsetattr(fd, termios.TCSADRAIN, raw)
        write(ENTER)

    def leave(self) -> None:
        """Safe to call again, and when the terminal is gone."""
        before, self._before = self._before, None
        if before is None:
            return
        atexit.unregister(self.leave)
        try:
            write(LEAVE)
            termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, before)
        except (OSError, termios.error):
            pass

    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        try:
            size = os.get_terminal_size(sys.stdout.fileno())
        except OSError:
            return 80, 24
        return max(1, size.columns), max(1, size.lines)

    def pressed(self) -> list[str]:
        """What was pressed since the last call."""
        fd = sys.stdin.fileno()
        data, self._rest = self._rest, b""
        while select.select([fd], [], [], 0)[0]:
            piece = os.read(fd, 1024)
            if not piece:
                break
            data += piece
        return list(_named(data))

    def draw(self, rows: list[str]) -> None:
        body = "\r\n".join(f"{row}\x1b[0m\x1b[K" for row in rows)
        write(f"\x1b[H{body}\x1b[J")


def _named(data: bytes) -> list[str]:
    found = []
    while data:
        arrow = next((seq for seq in _ARROWS if data.startswith(seq)), None)
        if arrow:
            found.append(_ARROWS[arrow])
            data = data[len(arrow) :]
            continue
        length = next((n for n, low in ((4, 0xF0), (3, 0xE0), (2, 0xC0)) if data[0] >= low), 1)
        char = data[:length].decode("utf-8", "replace")
        found.append(_NAMES.get(char, char))
        data = data[length:]
    return found
