"""The whole terminal for a while: alternate screen, keys as they are pressed, all given back."""

from __future__ import annotations

import atexit
import os
import select
import sys
import termios
from typing import Any

from ipexctl.local.environment import environment
from ipexctl.run.command.run_text import write

ENTER = "\x1b[?1049h\x1b[?25l"
LEAVE = "\x1b[?25h\x1b[?1049l"
_ARROWS = {
    b"\x1b[A": "up", b"\x1b[B": "down", b"\x1b[C": "right", b"\x1b[D": "left",
    b"\x1b[5~": "page-up", b"\x1b[6~": "page-down", b"\x1bOA": "up", b"\x1bOB": "down",
    b"\x1bOC": "right", b"\x1bOD": "left",
}  # fmt: skip
_NAMES = {"\r": "enter", "\n": "enter", "\x1b": "escape", "\x7f": "back", "\b": "back", "\t": "tab"}


def why_no_screen() -> str:
    """Why there is no screen to be had; empty if there is one."""
    if not sys.stdout.isatty() or not sys.stdin.isatty():
        return "stdin and stdout are not a terminal"
    if environment().get("TERM", "dumb") in ("", "dumb"):
        return "the terminal cannot move its cursor (TERM=dumb)"
    return ""


class Screen:
    """Ctrl-C still is a signal. Ctrl-Z is not: a run that stands still is lost."""

    def __init__(self) -> None:
        self._before: list[Any] | None = None
        self._rest = b""

    def enter(self) -> None:
        fd = sys.stdin.fileno()
        self._before = termios.tcgetattr(fd)
        atexit.register(self.leave)
        raw = termios.tcgetattr(fd)
        raw[3] &= ~(termios.ICANON | termios.ECHO)
        raw[6][termios.VSUSP] = b"\0"
        termios.tcsetattr(fd, termios.TCSADRAIN, raw)
        write(ENTER)

    def leave(self) -> None:
        """Safe to call again, and when the terminal is gone."""
        before, self._before = self._before, None
        if before is None:
            return
        atexit.unregister(self.leave)
        try:
            write(LEAVE)
            termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, before)
        except (OSError, termios.error):
            pass

    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        try:
            size = os.get_terminal_size(sys.stdout.fileno())
        except OSError:
            return 80, 24
        return max(1, size.columns), max(1, size.lines)

    def pressed(self) -> list[str]:
        """What was pressed since the last call."""
        fd = sys.stdin.fileno()
        data, self._rest = self._rest, b""
        while select.select([fd], [], [], 0)[0]:
            piece = os.read(fd, 1024)
            if not piece:
                break
            data += piece
        return list(_named(data))

    def draw(self, rows: list[str]) -> None:
        body = "\r\n".join(f"{row}\x1b[0m\x1b[K" for row in rows)
        write(f"\x1b[H{body}\x1b[J")


def _named(data: bytes) -> list[str]:
    found = []
    while data:
        arrow = next((seq for seq in _ARROWS if data.startswith(seq)), None)
        if arrow:
            found.append(_ARROWS[arrow])
            data = data[len(arrow) :]
            continue
        length = next((n for n, low in ((4, 0xF0), (3, 0xE0), (2, 0xC0)) if data[0] >= low), 1)
        char = data[:length].decode("utf-8", "replace")
        found.append(_NAMES.get(char, char))
        data = data[length:]
    return found
