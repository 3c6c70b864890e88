"""argv -> one quoted string. The only place that quotes."""

from __future__ import annotations

import shlex


def quote(argv: tuple[str, ...]) -> str:
    return " ".join(shlex.quote(a) for a in argv)
