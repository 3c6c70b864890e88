"""A terminal on which each answer is typed when its question is asked, and not before."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_FLUSHED = 1  # TIOCPKT_FLUSHREAD: what was typed so far was discarded, as before each question


class AnsweringTerminal:
    """`fd`: the side of the program. `shown`: what it was sent, complete after the `with` block."""

    def __init__(self, ahead: bytes, answers: tuple[bytes, ...]) -> None:
        self._ours, self.fd = pty.openpty()
        fcntl.ioctl(self._ours, termios.TIOCPKT, struct.pack("i", 1))
        os.write(self._ours, ahead)
        self._answers = list(answers)
        self._reader = threading.Thread(target=self._answer, daemon=True)
        self.shown = b""
        self._reader.start()

    def _answer(self) -> None:
        while True:
            try:
                packet = os.read(self._ours, 1 << 16)
            except OSError:  # EIO: nobody has the other side any more
                return
            if packet[0] == 0:
                self.shown += packet[1:]
            elif packet[0] & _FLUSHED and self._answers:
                os.write(self._ours, self._answers.pop(0))

    def close(self) -> None:
        os.close(self.fd)
        self._reader.join(20)
        os.close(self._ours)


@contextmanager
def answering(*answers: bytes, ahead: bytes = b"") -> Iterator[AnsweringTerminal]:
    """`ahead` is typed at once, and each of the answers to one question."""
    terminal = AnsweringTerminal(ahead, answers)
    try:
        yield terminal
    finally:
        terminal.close()
