"""Lines of several ranks that differ only in numbers: one line with ranges."""

from __future__ import annotations

import re
from collections.abc import Sequence

SLOT = "\0"
_RANK = re.compile(r"\[rank\d+\]:? ")  # torch puts it before each line of a traceback
# Numbers inside of words (fp16, node01) are text. A number after `step` or before `/` counts the
# training: ranks that are at different ones are not folded. Colours are skipped.
_NUMBER = re.compile(
    r"(?P<text>\x1b\[[0-9;:]*m"
    r"|(?<![A-Za-z])(?:[Ss]tep|[Ee]p(?:och)?|[Ii]t(?:er(?:ation)?)?|[Bb]atch|[Uu]pdate)s?\W{1,4}\d+(?![\d.]))"
    r"|(?<![\w.])(?:(?P<of>\d+\s?/\s?\d+)|0x[0-9a-fA-F]+"
    r"|[-+]?\d[\d,]*(?:\.\d+)*\.?(?:[eE][-+]?\d+)?)"
)


def template(text: str) -> str:
    """Equal for lines that may be folded into one."""
    if text.startswith("[rank"):
        text = _RANK.sub("", text, count=1)
    return _NUMBER.sub(_masked, text)


def _masked(match: re.Match[str]) -> str:
    return match[0] if match.lastgroup else SLOT


def merged(texts: Sequence[str]) -> str:
    """Lines of one template: what is equal once, numbers that differ as `low..high`."""
    if len(set(texts)) == 1:
        return texts[0]
    texts = list(dict.fromkeys(_RANK.sub("", text, count=1) for text in texts))
    rows = [[m for m in _NUMBER.finditer(text) if not m.lastgroup] for text in texts]
    parts, at = [], 0
    for column in zip(*rows, strict=True):
        parts += [texts[0][at : column[0].start()], _range([m[0] for m in column])]
        at = column[0].end()
    return "".join(parts) + texts[0][at:]


def _range(numbers: Sequence[str]) -> str:
    found = sorted(dict.fromkeys(numbers), key=_size)
    return found[0] if _size(found[0]) == _size(found[-1]) else f"{found[0]}..{found[-1]}"


def _size(number: str) -> tuple[float, ...]:
    """Of 1,024 or 1e-3; addresses compare by their parts."""
    if number.startswith("0x"):
        return (float(int(number, 16)),)
    plain = number.replace(",", "").rstrip(".")
    if plain.count(".") > 1:
        return tuple(map(float, plain.split(".")))
    return (float(plain),)
