"""Who says whether a folder that looks wrong is sent: -y, the person at the terminal, or no one."""

from __future__ import annotations

import sys
from collections.abc import Callable


def always(question: str) -> bool:
    """The answer of -y."""
    return True


def never(question: str) -> bool:
    """The answer where no one can be asked."""
    return False


def send_agreed(*, yes: bool) -> Callable[[str], bool]:
    from ipexctl.terminal.confirm import confirm

    if yes:
        return always
    asks = sys.stdin.isatty() and sys.stderr.isatty()
    return (lambda question: confirm(f"{question} [y/N] ", sys.stdin)) if asks else never
