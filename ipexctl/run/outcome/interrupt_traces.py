"""Hide the tracebacks of ranks that ipexctl ends: those of KeyboardInterrupt, and those of an
exchange with a rank that was ended. The logs keep them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import field

from ipexctl.explain.causes import causes
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.outcome.first_cause import PEER_GONE
from ipexctl.run.output.rank_lines import without_colour

_HEAD = "Traceback (most recent call last):"
_LINKS = ("During handling of the above exception", "The above exception was the direct cause")
_PREFIX = re.compile(r"^\[rank\d+\]:? ?")  # torch's, once a process group exists
MOST_LINES = 500  # lines of one traceback


@dataclass
class _Held:
    """A traceback (`begun`), or the lines after one that may lead to the next."""

    lines: list[str] = field(default_factory=list)
    begun: bool = False
    hidden: bool = False  # whether the traceback before was hidden


class InterruptTraces:
    """Holds a traceback back until its last line names the exception. `hidden`: ranks with some."""

    def __init__(self, known: causes.Known = tuple) -> None:
        self.hidden: set[int] = set()
        self._known = known
        self._held: dict[int, _Held] = {}

    def shown(self, rank: int, texts: Sequence[str]) -> list[str]:
        return [line for text in texts for line in self._filter_line(rank, text)]

    def rest(self, rank: int) -> list[str]:
        """Return what was held back when the output ended: an incomplete traceback."""
        held = self._held.pop(rank, None)
        return held.lines if held and any(held.lines) else []

    def _filter_line(self, rank: int, text: str) -> Iterator[str]:
        plain = _PREFIX.sub("", without_colour(text)).rstrip()
        held = self._held.get(rank)
        if held and held.begun and len(held.lines) < MOST_LINES and plain[:1] in ("", " "):
            held.lines.append(text)
        elif held and held.begun:
            ended = self._follows_from_end(plain)
            self._held[rank] = _Held(hidden=ended)
            if ended:
                self.hidden.add(rank)
            else:
                yield from (*held.lines, text)
        elif plain == _HEAD or (held and (plain == "" or plain.startswith(_LINKS))):
            held = self._held.setdefault(rank, _Held())
            held.begun = plain == _HEAD
            held.lines.append(text)
        else:
            held = self._held.pop(rank, _Held())
            yield from (line for line in held.lines if line.strip() or not held.hidden)
            yield text

    def _follows_from_end(self, last: str) -> bool:
        """Return whether an exception with this last line follows from the end of the ranks."""
        if last.split(":")[0] == "KeyboardInterrupt":
            return True
        match = causes.find_likeliest_cause(
            [last], tuple(cause for cause in self._known() if cause.slug == PEER_GONE)
        )
        return match is not None
