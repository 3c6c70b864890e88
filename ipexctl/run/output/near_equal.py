"""Lines of several ranks that differ only in numbers: one line with ranges."""

from __future__ import annotations

import re
from collections.abc import Sequence

SLOT = "\0"
_RANK = re.compile(r"\[rank\d+\]:? ")  # torch puts it before each line of a traceback
# Numbers inside of words (fp16, node01) are text. A number after `step` or before `/` counts the
# training: ranks that are at different ones are not folded. Colours are skipped.
_NUMBER = re.compile(
    r"(\x1b\[[0-9;:]*m"
    r"|(?<![A-Za-z])(?:[Ss]tep|[Ee]p(?:och)?|[Ii]t(?:er(?:ation)?)?|[Bb]atch|[Uu]pdate)s?"
    r"\W{1,4}\d+(?![\d.])"
    r"|(?<![\w.])\d+\s?/\s?\d+)"
    r"|(?<![\w.])(0x[0-9a-fA-F]+|[-+]?\d[\d,]*(?:\.\d+)*\.?(?:[eE][-+]?\d+)?)"
)


def template(text: str) -> tuple[str, tuple[str, ...]]:
    """(what is equal for lines that may be folded into one, the numbers in this one)"""
    if text.startswith("[rank"):
        text = _RANK.sub("", text, count=1)
    pieces = _NUMBER.split(text)  # text, what is kept, number, text...
    if len(pieces) == 1:
        return text, ()
    kept, numbers = pieces[1::3], pieces[2::3]
    rest = ((SLOT if k is None else k) + t for k, t in zip(kept, pieces[3::3], strict=True))
    return pieces[0] + "".join(rest), tuple(n for n in numbers if n is not None)


def merged(key: str, rows: Sequence[tuple[str, ...]]) -> str:
    """Lines of one template: what is equal once, numbers that differ as `low..high`."""
    texts = key.split(SLOT)
    ranges = map(_range, zip(*rows, strict=True))
    return texts[0] + "".join(r + text for r, text in zip(ranges, texts[1:], strict=True))


def _range(numbers: Sequence[str]) -> str:
    if len(set(numbers)) == 1:
        return numbers[0]
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
