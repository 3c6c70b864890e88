"""After Ctrl-C: tracebacks of KeyboardInterrupt are not shown. The logs keep them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ipexctl.run.output.rank_lines import without_colour

_HEAD = "Traceback (most recent call last):"
_LINKS = ("During handling of the above exception", "The above exception was the direct cause")
_PREFIX = re.compile(r"^\[rank\d+\]:? ?")  # torch's, once a process group exists
MOST = 500  # lines of one traceback


class InterruptTraces:
    """A traceback is held back until its last line says what it is of. `hidden`: whose were."""

    def __init__(self) -> None:
        self.hidden: set[int] = set()
        self._held: dict[int, list[str]] = {}  # a traceback, or what may lead from one to the next

    def shown(self, rank: int, texts: Sequence[str]) -> list[str]:
        return [line for text in texts for line in self._line(rank, text)]

    def rest(self, rank: int) -> list[str]:
        """What was held back when the output ended: no whole traceback."""
        held = self._held.pop(rank, [])
        return held if any(held) else []

    def _line(self, rank: int, text: str) -> Iterator[str]:
        plain = _PREFIX.sub("", without_colour(text)).rstrip()
        held = self._held.get(rank)
        if held is None:
            if plain == _HEAD:
                self._held[rank] = [text]
            else:
                yield text
        elif not any(_PREFIX.sub("", without_colour(line)).rstrip() == _HEAD for line in held):
            yield from self._after_hidden(rank, text, plain)
        elif len(held) < MOST and (plain == "" or plain.startswith(" ")):
            held.append(text)
        else:
            del self._held[rank]
            if plain.split(":")[0] == "KeyboardInterrupt":
                self.hidden.add(rank)
                self._held[rank] = []
            else:
                yield from (*held, text)

    def _after_hidden(self, rank: int, text: str, plain: str) -> Iterator[str]:
        held = self._held[rank]
        if plain in ("", _HEAD) or plain.startswith(_LINKS):
            held.append(text)
        else:
            del self._held[rank]
            yield from (line for line in held if line.strip())
            yield text
