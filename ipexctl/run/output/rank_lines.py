"""Turn bytes of a rank into lines that are safe for a terminal. No I/O, no clock."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import field

from ipexctl.quick_dataclass import dataclass

MAX_LINE = 64 * 1024
TAIL = 40  # lines of each rank that are remembered
WARNING = "ipexctl: warning: "  # prefix of ipexctl's own lines in a rank's output (in_ranks)
# colours pass; all other escape sequences and control characters in a rank's output do not
_ESCAPE = re.compile(
    r"\x1b\[[0-9;:]{0,64}m"  # kept below
    r"|\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[P^_X][^\x1b]*(?:\x1b\\)?"
    r"|\x1b[ -/]*[0-~]?|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f\u2028\u2029]"
    r"|[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)
_LONGEST = 67  # longest colour sequence
_FINAL = re.compile(rb"[^0-9;:]")  # ends a colour sequence, or makes it invalid
_MARK = re.compile(r"^\[rank\d+\]: ")
_COLOUR = re.compile(r"\x1b\[[0-9;:]{0,64}m")
_PLAIN = bytes([0x0A, *range(0x20, 0x7F)])
_UNPLAIN = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


_UP = b"\x1b[A"
# a bar of tqdm, and text that was printed while the cursor stood behind it
_GLUED = re.compile(
    r"([^|]{0,200}\d%\|[^|]{0,400}\| *[^\s\[]+ \[[^\]]*\])(?=[^\s\x1b]|\x1b\[[\d;]*m)(.*)"
)


def strip_control_codes(text: str) -> str:
    """Remove what must not reach a terminal."""
    return _ESCAPE.sub(lambda match: match[0] if _COLOUR.fullmatch(match[0]) else "", text)


def without_colour(text: str) -> str:
    """Remove colours."""
    return _COLOUR.sub("", text) if "\x1b" in text else text


def without_rank_prefix(text: str) -> str:
    """Remove the `[rank1]: ` that torch puts before each line of a traceback."""
    return _MARK.sub("", text)


class Lines:
    """Split a stream of bytes into lines. Of a progress bar (`\\r`) only the last state is kept.

    `bars`: each state is a line. What is printed while a bar stands has a line of its own.
    """

    def __init__(self, *, bars: bool = False) -> None:
        self._rest = b""
        self._bar = ""
        self._bars = bars
        self._held: list[bytes] = []  # a bar with its newline: the cursor may move back to it

    def feed(self, data: bytes) -> list[str]:
        if self._bars:
            data = data.replace(b"\r", b"\n")
        block, newline, rest = (self._rest + data).rpartition(b"\n")
        if newline and not self._bars and (self._held or b"%|" in block):
            lines_left = self._join_nested_bars(block.split(b"\n"), rest)
            block, newline = b"\n".join(lines_left), b"\n" if lines_left else b""
        lines = _shown_lines(block, self._bars) if newline else []
        if self._held and _UP in rest:
            self._held = []
        rest = _last_state(rest)
        while len(rest) > MAX_LINE:
            cut = _cut_position(rest)
            lines += _shown_lines(rest[:cut], self._bars)
            rest = rest[cut:]
        self._rest = rest
        return lines

    def _join_nested_bars(self, lines: list[bytes], rest: bytes) -> list[bytes]:
        """Handle nested bars of tqdm: a newline, the inner bar, and the cursor up. No line ends."""
        finished: list[bytes] = []
        for i, line in enumerate(lines):
            if _UP in line:
                self._held = []
            elif self._held and line:
                finished += self._held
                self._held = []
            following = lines[i + 1] if i + 1 < len(lines) else rest
            returns = not following or following.startswith(b"\r")
            is_bar = b"%|" in line and (line.rstrip().endswith(b"]") or _UP in line)
            if (is_bar and returns) or (self._held and not line):
                self._held.append(line)
            else:
                finished.append(line)
        return finished

    def skim(self, data: bytes) -> tuple[int, list[str]]:
        """Skip output too fast to read: return the number of lines left out, and the last ones."""
        cut = len(data)
        for _ in range(TAIL + 1):
            cut = data.rfind(b"\n", 0, cut)
            if cut < 0:
                return 0, self.feed(data)
        self._rest = b""
        return data.count(b"\n", 0, cut + 1), self.feed(data[cut + 1 :])

    def bar(self) -> str:
        """Return the state of an unfinished progress bar; "" if `told` has been called with it."""
        bar = _shown_text(self._rest.decode("utf-8", "replace")) if b"\r" in self._rest else ""
        if not bar:
            self._bar = ""
        return "" if bar == self._bar else bar

    def told(self, bar: str) -> None:
        self._bar = bar

    def end(self) -> list[str]:
        lines, self._held = self._held, []
        rest, self._rest = self._rest, b""
        if lines and _UP not in rest:
            rest = b"\n".join([*lines, rest]) if rest else b"\n".join(lines)
        return _shown_lines(rest, self._bars) if rest else []


def _last_state(rest: bytes) -> bytes:
    """Return what a terminal would show of an unfinished line."""
    cut = rest.rstrip(b"\r").rfind(b"\r")
    return rest[cut:] if cut > 0 else rest


def _shown_lines(block: bytes, bars: bool) -> list[str]:
    """Return lines that may be shown, without newlines. Most need no change."""
    text = block.decode("utf-8", "replace")
    lines = text.split("\n")
    if not _is_plain(block) and _UNPLAIN.search(text):
        lines = [_shown_text(line) for line in lines]
    if "%|" in text:
        lines = [piece for line in lines for piece in _without_bar(line, bars)]
    if max(map(len, lines)) > MAX_LINE:
        lines = [piece for line in lines for piece in _split_long_line(line)]
    return lines


def _without_bar(line: str, bars: bool) -> list[str]:
    """Return the text behind the bar in `45%|#### | 9/20 [00:03<00:04, 2.6it/s]step 9 loss 0.3`."""
    if "]" not in line or not (glued := _GLUED.match(line)):
        return [line]
    return [glued[1], glued[2]] if bars else [glued[2]]


def _is_plain(block: bytes) -> bool:
    """Return whether all is ordinary ASCII: faster than a pattern."""
    return not block.translate(None, _PLAIN)


def _cut_position(rest: bytes) -> int:
    """Return where to cut a line without end: not inside a character or a colour."""
    cut = MAX_LINE
    while cut > MAX_LINE - 3 and rest[cut] & 0xC0 == 0x80:
        cut -= 1
    escape = rest.rfind(b"\x1b", max(1, cut - _LONGEST), cut)
    complete = escape < 0 or _FINAL.search(rest, escape + 2, cut)
    return cut if complete else escape


def _split_long_line(line: str) -> list[str]:
    """Split a long clean line; a colour stays in one piece."""
    pieces = []
    while len(line) > MAX_LINE:
        escape = line.rfind("\x1b", MAX_LINE - _LONGEST, MAX_LINE)
        colour = _COLOUR.match(line, escape) if escape >= 0 else None
        cut = escape if colour and colour.end() > MAX_LINE else MAX_LINE
        pieces.append(line[:cut])
        line = line[cut:]
    return [*pieces, line]


def _shown_text(line: str) -> str:
    state, up, behind = line.rstrip("\r").rsplit("\r", 1)[-1].rpartition("\x1b[A")
    return strip_control_codes((behind if up and behind else state + behind).replace("\t", "    "))


LONGEST = 3.0  # seconds between two samples of a growing log; in a longer gap it did not grow

Span = tuple[float, float]  # (not before, not after), by the clock of the rank's host


@dataclass
class LogTimes:
    """Dates parts of a log, read from `position` on. `samples`: (time, size), both ascending."""

    samples: Sequence[tuple[float, int]]
    position: int = 0
    _sizes: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self._sizes = [size for _, size in self.samples]

    def pieces(self, data: bytes) -> Iterator[tuple[bytes, Span | None]]:
        """Yield the next bytes of the log, cut where a sample was taken."""
        done = 0
        while done < len(data):
            index = bisect_right(self._sizes, self.position)
            end = len(data)
            if index < len(self._sizes):
                end = min(end, done + self._sizes[index] - self.position)
            piece = data[done:end]
            yield piece, self._span(index, self.position, self.position + len(piece))
            self.position += len(piece)
            done = end

    def _span(self, index: int, first: int, last: int) -> Span | None:
        if index == len(self._sizes):  # written after the last sample
            return None
        later, size = self.samples[index]
        if index == 0:
            return later, later
        earlier, start = self.samples[index - 1]
        earlier = max(earlier, later - LONGEST)
        scale = (later - earlier) / (size - start)
        return earlier + scale * (first - start), earlier + scale * (last - start)


# warnings that a healthy run prints, and frames of C++, which push out the message above them;
# they are not shown, but counted
_NOISE = re.compile(
    r"^(?:\[rank\d+\]: ?)?frame #\d+: .{1,4000}[(\[]0x[0-9a-f]+(?: in \S.*\)|\])$"
    r"|\[c10d\] The hostname of the client socket cannot be retrieved"
    r"|\[Gloo\] Rank \d+ is connected to \d+ peer ranks"
    # IPEX during its import, and its optimize()
    r"|OperatorEntry\.cpp:\d+\] Warning: Warning only once for all operators"
    r"|^  Overriding a previously registered kernel for the same operator"
    r"|^  operator: aten::_addmm_activation|^  dispatch key: AutocastCPU$"
    r"|^ {2,7}(?:  |previous kernel: |new kernel: )registered at /(?:pytorch|opt/workspace/ipex)"
    r"|^My guessed rank = \d+$"
    r"|intel_extension_for_pytorch/utils/_logger\.py:\d+\] No CUDA runtime is found"
    r"|- IPEX - WARNING - '\w+' will be deprecated in a future release"
)
# faster to search: each such line contains one of them
_NOISE_WORDS = (
    "frame #",
    "[c10d]",
    "[Gloo]",
    "OperatorEntry",
    "egister",
    "aten::_",
    "AutocastCPU",
    "guessed",
    "IPEX",
    "CUDA ",
)


def without_noise(lines: list[str]) -> list[str]:
    """Remove warnings that a healthy run prints, and frames of C++."""
    block = "\n".join(lines)
    if not any(word in block for word in _NOISE_WORDS):
        return lines
    return [line for line in lines if not _NOISE.search(line)]
