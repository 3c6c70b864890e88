"""Read JSON that another host, another process or an earlier run wrote.

Python's own reader takes NaN, numbers of any length and any depth. What one machine took, the next
one would refuse, or fail to write: so all of them refuse the same.
"""

import json
import math
import re

MYPY = False  # importing typing takes longer than what a host does for a short request
if MYPY:
    from typing import Any

DIGITS = 20  # of a whole number
DEPTH = 64  # lists and objects in each other: deeper than any of our documents
# A number may be refused only if one of these is in the text with 0 for each of its digits; else
# Python's reader needs no call for each number.
_ALIKE = bytes.maketrans(b"123456789", b"0" * 9)
_LONG, *_EXPONENTS = b"0" * (DIGITS + 1), b"e000", b"E000", b"e+000", b"E+000"
_NESTING = re.compile(rb'[\[{]|[\]}]|"(?:[^"\\]|\\.)*"', re.DOTALL)


def read_strict_json(data: bytes, depth: int = DEPTH) -> "Any":
    """Return the value. Raise ValueError for what is no JSON, has a number without end or with
    many digits, or is deeper than this."""
    if data.count(b"[") + data.count(b"{") > depth and depth_of(data) > depth:
        raise ValueError("lists and objects in each other, more than %d deep" % depth)
    alike = data.translate(_ALIKE)
    is_odd = _LONG in alike or any(map(alike.__contains__, _EXPONENTS))
    return (_STRICT if is_odd else _USUAL).decode(data.decode("utf-8"))


def depth_of(data: bytes) -> int:
    """Return how many lists and objects are in each other."""
    depth = deepest = 0
    for found in _NESTING.finditer(data):
        first = found.group()[:1]
        depth += (first in b"[{") - (first in b"]}")
        deepest = max(deepest, depth)
    return deepest


def read_int(text: str) -> int:
    if len(text.lstrip("-")) > DIGITS:
        raise ValueError("a number of many digits")
    return int(text)


def read_float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number without end")
    return number


def refuse_constant(text: str) -> float:
    raise ValueError("%s is not JSON" % text)


_USUAL = json.JSONDecoder(parse_constant=refuse_constant)
_STRICT = json.JSONDecoder(
    parse_int=read_int, parse_float=read_float, parse_constant=refuse_constant
)
