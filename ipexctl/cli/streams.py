"""stdin, stdout and stderr as the caller left them: closed, of another encoding, or full."""

from __future__ import annotations

import errno
import io
import os
import sys

from ipexctl.errors import InputError


def prepare() -> None:
    """Closed streams become empty ones, and what stdout cannot spell becomes a `?`."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number: this one
    # an open file each, for as long as the process lives
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout = _Stdout.instead_of(sys.stdout)
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr.reconfigure(errors="backslashreplace")


def check_spells(text: str) -> None:
    """InputError where stdout would show a `?` in it: a program is to read it."""
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError as e:
        raise InputError(
            f"stdout cannot spell {e.object[e.start : e.end]!a}", why=f"it is {e.encoding}"
        ) from None


def stdout_trouble(error: Exception) -> OSError | None:
    """The error, if it is stdout's. After it nothing more is written there."""
    if not isinstance(sys.stdout, _Stdout) or error is not sys.stdout.trouble:
        return None
    # what is left in the buffer must not be tried again when the interpreter ends
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return sys.stdout.trouble


def nobody_reads(error: OSError) -> bool:
    return error.errno == errno.EPIPE


class _Stdout(io.TextIOWrapper):
    """Remembers what went wrong: an OSError does not tell whose it is."""

    trouble: OSError | None = None

    @classmethod
    def instead_of(cls, old: io.TextIOWrapper) -> _Stdout:
        old.flush()
        kind = (old.encoding, "replace", None, old.line_buffering, old.write_through)
        return cls(old.detach(), *kind)

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError as e:
            self.trouble = e
            raise

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as e:
            self.trouble = e
            raise
