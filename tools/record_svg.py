"""A recorded terminal session as an animated SVG: it plays in a browser, without scripts.

    script -q -O typescript -T timing -c 'bash --norc'     # in a terminal of COLUMNS x ROWS
    python tools/record_svg.py typescript timing --size 96x28 --title TEXT > session.svg

The typescript is played into a small screen (what ipexctl and a shell write: text, colours,
erasing, moves of the cursor); each picture of it becomes a column of the SVG, one shown after
the other. Pauses are shortened to --pause seconds. Where nothing moves (a reader without
animations, or with `prefers-reduced-motion`), the last picture is seen. --from TEXT begins where
TEXT first stands; the `exit` that ends the session is left out.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from html import escape, unescape
from pathlib import Path

CELL_WIDTH, CELL_HEIGHT, MARGIN = 8.4, 18, 12
LEAST = 0.08  # seconds that a picture is seen
LAST = 6.0  # and the last one
MOST = 20.0  # and all of them
BACKGROUND, FOREGROUND = "#161b22", "#d0d7de"
PALETTE = (
    "#484f58", "#ff7b72", "#3fb950", "#d29922", "#58a6ff", "#bc8cff", "#39c5cf", "#b1bac4",
    "#6e7681", "#ffa198", "#56d364", "#e3b341", "#79c0ff", "#d2a8ff", "#56d4dd", "#f0f6fc",
)  # fmt: skip
_PIECE = re.compile(
    r"\x1b\[(?P<args>[0-9;?]*)[ -/]*(?P<final>[@-~])|\x1b\].*?(?:\x07|\x1b\\)|\x1b[()].|\x1b[=>78M]"
    r"|(?P<control>[\x00-\x1f])|(?P<text>[^\x00-\x1f\x1b]+)",
    re.DOTALL,
)


NO_BREAK = "\u00a0"  # a space that no reader folds with its neighbours
_EXIT = re.compile(r"\$ e(x(i(t)?)?)?$")


@dataclass(frozen=True)
class Style:
    colour: int = -1
    bold: bool = False
    dim: bool = False


Cell = tuple[str, Style]
Picture = tuple[tuple[Cell, ...], ...]
BLANK: Cell = (" ", Style())


@dataclass
class Screen:
    columns: int
    rows: int
    cells: list[list[Cell]] = field(default_factory=list)
    row: int = 0
    column: int = 0
    style: Style = Style()

    def __post_init__(self) -> None:
        self.cells = [self._blank() for _ in range(self.rows)]

    def _blank(self) -> list[Cell]:
        return [BLANK] * self.columns

    def feed(self, text: str) -> None:
        for piece in _PIECE.finditer(text):
            if piece["text"]:
                for char in piece["text"]:
                    self._put(char)
            elif piece["control"]:
                self._control(piece["control"])
            elif piece["final"]:
                self._escape(piece["args"], piece["final"])

    def picture(self) -> Picture:
        return tuple(tuple(row) for row in self.cells)

    def _put(self, char: str) -> None:
        if self.column == self.columns:
            self.column = 0
            self._down()
        self.cells[self.row][self.column] = (char, self.style)
        self.column += 1

    def _down(self) -> None:
        if self.row + 1 < self.rows:
            self.row += 1
        else:
            self.cells = [*self.cells[1:], self._blank()]

    def _control(self, char: str) -> None:
        if char == "\n":
            self._down()
        elif char == "\r":
            self.column = 0
        elif char == "\b":
            self.column = max(0, self.column - 1)
        elif char == "\t":
            self.column = min(self.columns - 1, self.column // 8 * 8 + 8)

    def _escape(self, args: str, final: str) -> None:
        if "?" in args:
            return
        numbers = [int(n or 0) for n in args.split(";")]
        count = numbers[0] or 1
        match final:
            case "m":
                self._dress(numbers)
            case "K":
                self._erase_line(numbers[0])
            case "J":
                self._erase_line(numbers[0])
                first = 0 if numbers[0] == 2 else self.row + 1
                for row in range(first, self.rows):
                    self.cells[row] = self._blank()
            case "H":
                self.row = min(self.rows, count) - 1
                self.column = min(self.columns, numbers[1] if len(numbers) > 1 else 1) - 1
            case "A":
                self.row = max(0, self.row - count)
            case "C":
                self.column = min(self.columns - 1, self.column + count)
            case "D":
                self.column = max(0, self.column - count)

    def _erase_line(self, how: int) -> None:
        row, at = self.cells[self.row], self.column
        if how == 0:
            row[at:] = [BLANK] * (self.columns - at)
        else:
            row[:] = self._blank()

    def _dress(self, numbers: list[int]) -> None:
        for number in numbers:
            if number == 0:
                self.style = Style()
            elif number == 1:
                self.style = replace(self.style, bold=True)
            elif number == 2:
                self.style = replace(self.style, dim=True)
            elif number == 22:
                self.style = replace(self.style, bold=False, dim=False)
            elif number == 39:
                self.style = replace(self.style, colour=-1)
            elif 30 <= number <= 37:
                self.style = replace(self.style, colour=number - 30)
            elif 90 <= number <= 97:
                self.style = replace(self.style, colour=number - 82)


def pictures(session: bytes, timing: str, size: tuple[int, int]) -> Iterator[tuple[float, Picture]]:
    """What stood on the screen, and when it came, in seconds."""
    session = session.partition(b"\n")[2]  # script's own first line
    screen, at, now, rest = Screen(*size), 0, 0.0, b""
    for line in timing.splitlines():
        pause, length = line.split()[-2:]  # `O 0.1 23`, or without the letter
        now += float(pause)
        data, rest = rest + session[at : at + int(length)], b""
        at += int(length)
        while data and data[-1] & 0x80:  # a character may come in two pieces
            try:
                data.decode()
                break
            except UnicodeDecodeError:
                data, rest = data[:-1], data[-1:] + rest
        screen.feed(data.decode("utf-8", "replace"))
        yield now, screen.picture()


def shortened(
    seen: Iterator[tuple[float, Picture]], begin: str, pause: float
) -> list[tuple[float, Picture]]:
    """Pictures with the seconds that each is shown; those that flit by are left out."""
    kept: list[tuple[float, Picture]] = []
    began = not begin
    for now, picture in seen:
        began = began or any(begin in words(row) for row in picture)
        if not began or (kept and kept[-1][1] == picture):
            continue
        if kept and now - kept[-1][0] < LEAST:
            kept[-1] = (kept[-1][0], picture)
        else:
            kept.append((now, picture))
    while kept and any(_EXIT.search(words(row)) for row in kept[-1][1]):
        kept.pop()
    ends = [now for now, _ in kept[1:]]
    shown = [min(pause, b - a) for (a, _), b in zip(kept, ends, strict=False)]
    return [(s, picture) for s, (_, picture) in zip([*shown, LAST], kept, strict=True)]


def paced(
    seen: Iterator[tuple[float, Picture]], begin: str, pause: float, most: float = MOST
) -> list[tuple[float, Picture]]:
    """Return the pictures of `shortened`, played faster if they take more than `most` seconds."""
    every = list(seen)
    shown = shortened(iter(every), begin, pause)
    speed = sum(seconds for seconds, _ in shown[:-1]) / (most - LAST)
    if speed <= 1:
        return shown
    return shortened(((now / speed, picture) for now, picture in every), begin, pause / speed)


def words(row: tuple[Cell, ...]) -> str:
    return "".join(char for char, _ in row).rstrip()


def runs(row: tuple[Cell, ...]) -> Iterator[tuple[int, str, Style]]:
    """Neighbours of one style."""
    column = 0
    while column < len(row):
        end, style = column, row[column][1]
        while end < len(row) and row[end][1] == style:
            end += 1
        text = "".join(char for char, _ in row[column:end])
        if text.strip():
            yield column + len(text) - len(text.lstrip()), text.strip(), style
        column = end


def drawn(row: tuple[Cell, ...]) -> str:
    """A row as SVG, its left end at 0 and its base line at 0."""
    parts = []
    for column, text, style in runs(row):
        fill = f' fill="{PALETTE[style.colour]}"' if style.colour >= 0 else ""
        weight = ' font-weight="bold"' if style.bold else ""
        weight += ' opacity=".7"' if style.dim else ""
        place = f'x="{column * CELL_WIDTH:g}" textLength="{len(text) * CELL_WIDTH:g}"'
        parts.append(f"<text {place}{fill}{weight}>{escape(text).replace(' ', NO_BREAK)}</text>")
    return "".join(parts)


def svg(shown: list[tuple[float, Picture]], title: str) -> str:
    columns = len(shown[0][1][0])
    rows = max((y for _, p in shown for y, row in enumerate(p, start=1) if words(row)), default=1)
    width, height = columns * CELL_WIDTH + 2 * MARGIN, rows * CELL_HEIGHT + 2 * MARGIN
    total, at = sum(seconds for seconds, _ in shown), 0.0
    names: dict[str, str] = {}  # a row's drawing -> its id
    frames, steps = [], []
    for number, (seconds, picture) in enumerate(shown):
        steps.append(f"{at / total:.3%}{{transform:translateX({-number * width:g}px)}}")
        at += seconds
        for y, row in enumerate(picture):
            if drawing := drawn(row):
                name = names.setdefault(drawing, f"r{len(names)}")
                x, base = number * width + MARGIN, MARGIN + y * CELL_HEIGHT + 14
                frames.append(f'<use href="#{name}" x="{x:g}" y="{base}"/>')
    last = -(len(shown) - 1) * width
    defs = "\n".join(f'<g id="{name}">{drawing}</g>' for drawing, name in names.items())
    style = (
        f"#f{{transform:translateX({last:g}px);animation:p {total:.2f}s step-end infinite}}"
        f"@keyframes p{{{''.join(steps)}}}"
        "@media(prefers-reduced-motion){#f{animation:none}}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}" font-size="14" fill="{FOREGROUND}" '
        'font-family="ui-monospace,Menlo,Consolas,DejaVu Sans Mono,monospace">\n'
        f"<title>{escape(title)}</title><style>{style}</style>\n"
        f"<defs>{defs}</defs>\n"
        f'<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>\n'
        f'<g id="f">{"".join(frames)}</g>\n</svg>\n'
    )


def shown_rows(drawing: str) -> list[str]:
    """Return each different row of text that an SVG of this module shows."""
    rows = re.findall(r'<g id="r\d+">(.*?)</g>', drawing)
    pieces = (re.findall(r">([^<]*)</text>", row) for row in rows)
    return [unescape("  ".join(row)).replace(NO_BREAK, " ") for row in pieces]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("typescript", type=Path)
    parser.add_argument("timing", type=Path)
    parser.add_argument("--size", default="96x28", help="of the terminal: COLUMNSxROWS")
    parser.add_argument("--pause", type=float, default=1.5, help="the longest, in seconds")
    parser.add_argument("--from", dest="begin", default="", help="begin where this text stands")
    parser.add_argument("--title", default="a terminal session")
    args = parser.parse_args()
    columns, rows = map(int, args.size.split("x"))
    seen = pictures(args.typescript.read_bytes(), args.timing.read_text(), (columns, rows))
    shown = paced(seen, args.begin, args.pause)
    if not shown:
        raise SystemExit("nothing was shown")
    sys.stdout.write(svg(shown, args.title))


if __name__ == "__main__":
    main()
