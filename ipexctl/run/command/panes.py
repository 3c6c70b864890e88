"""Panes as rows of text: which rank is drawn where. No terminal here."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from dataclasses import field

from rich.cells import set_cell_size

from ipexctl.quick_dataclass import dataclass
from ipexctl.run.command.run_text import colour_of

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
