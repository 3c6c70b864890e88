"""The answer to whether an unusual folder is sent: -y, the user's at the terminal, or none."""

from __future__ import annotations

import sys
from collections.abc import Callable


def answer_yes(question: str) -> bool:
    """Agree, as -y does."""
    return True


def answer_no(question: str) -> bool:
    """Refuse, since the user cannot be asked."""
    return False


def send_agreed(*, yes: bool) -> Callable[[str], bool]:
    from ipexctl.terminal.confirm import confirm

    if yes:
        return answer_yes
    interactive = sys.stdin.isatty() and sys.stderr.isatty()
    return (lambda question: confirm(f"{question} [y/N] ", sys.stdin)) if interactive else answer_no
