"""Parse TOML, on Python 3.10 too."""

from __future__ import annotations

import re
import sys
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# The libraries' time and memory is quadratic in the number of parts.
_DEEP_KEY = re.compile(
    r"""(?<![\w-])(?:(?:[\w-]{1,256}|"[^"\n]{0,256}"|'[^'\n]{0,256}')[ \t]*\.[ \t]*){32}"""
)


def loads(text: str) -> dict[str, Any]:
    """Parse the text. Raises ValueError."""
    if _DEEP_KEY.search(text):
        raise ValueError("a key has more than 32 parts")
    try:
        document: dict[str, Any] = tomllib.loads(text)
    except RecursionError:
        raise ValueError("values are nested too deeply") from None
    return document
