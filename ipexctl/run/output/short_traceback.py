"""The part of a long traceback that its reader looks for: the own frames, and the error."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ipexctl.run.output.short_paths import is_own_frame

MOST = 14  # lines
LAST = 6  # lines at the end that always stay: the frame that raised, and the error
OWN = 3  # own frames
LEFT_OUT = "  ..."
_MARKS = re.compile(r"\s*[~^]+[~^\s]*")  # below a line of code, what of it is meant


def short_traceback(lines: Sequence[str]) -> list[str]:
    lines = [text for text in lines if not (_MARKS.fullmatch(text) and text.strip())]
    if len(lines) <= MOST:
        return lines
    end = len(lines) - LAST
    own = [i for i in range(1, end) if is_own_frame(lines[i])][-OWN:]
    kept = {0, *own, *(i + 1 for i in own), *range(end, len(lines))}
    shown: list[str] = []
    for i, text in enumerate(lines):
        if i in kept:
            shown.append(text)
        elif shown[-1] != LEFT_OUT:
            shown.append(LEFT_OUT)
    return shown
