"""Shorten paths in the output of ranks to those users know: train.py, torch/nn/module.py."""

from __future__ import annotations

import re
from collections.abc import Sequence

_FOLDER = re.compile(r"""/(?:runs/[\w.-]{1,80}/work|(?:envs|lib)/[^\s"']{1,200}?/site-packages)/""")
_BEFORE_PATH = re.compile(r"""[\s"'(<=:]""")


def shorten_paths(text: str) -> str:
    """Remove the folder of the run, or of the environment's packages, from paths."""
    if "/work/" not in text and "/site-packages/" not in text:
        return text
    shortened, end = "", 0
    for folder in _FOLDER.finditer(text):
        skipped = text[end : folder.start()]
        starts = (match.end() for match in _BEFORE_PATH.finditer(skipped))
        shortened += skipped[: max(starts, default=0)]
        end = folder.end()
    return shortened + text[end:]


def is_own_frame(text: str) -> bool:
    """Return whether a printed line of a traceback is in a file of the user's project."""
    return text.startswith('  File "') and "/runs/" in text and "/work/" in text


MOST_LINES = 14  # lines
LAST = 6  # lines at the end that always stay: the frame that raised, and the error
OWN = 3  # frames of the user's project
LEFT_OUT = "  ..."
_MARKS = re.compile(r"\s*[~^]+[~^\s]*")  # markers below a line of code


def short_traceback(lines: Sequence[str]) -> list[str]:
    lines = [text for text in lines if not (_MARKS.fullmatch(text) and text.strip())]
    if len(lines) <= MOST_LINES:
        return lines
    end = len(lines) - LAST
    own_frames = [i for i in range(1, end) if is_own_frame(lines[i])][-OWN:]
    indexes = {0, *own_frames, *(i + 1 for i in own_frames), *range(end, len(lines))}
    shown: list[str] = []
    for i, text in enumerate(lines):
        if i in indexes:
            shown.append(text)
        elif shown[-1] != LEFT_OUT:
            shown.append(LEFT_OUT)
    return shown
