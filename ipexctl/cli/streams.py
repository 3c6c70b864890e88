"""stdin, stdout and stderr as the caller left them: closed, in another encoding, or full."""

from __future__ import annotations

import errno
import io
import os
import sys
from contextlib import nullcontext, suppress

errors_as_json = False  # `--json` was given


def prepare_streams() -> None:
    """Open closed streams as empty ones, and replace what stdout cannot encode by `?`."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number: this one
    # one open file each, for the life of the process
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout = _Stream.instead_of(sys.stdout, "replace")
        sys.__stdout__ = sys.stdout  # type: ignore[misc]  # it is asked for the terminal's width
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr = _Stderr.instead_of(sys.stderr, "backslashreplace")


def fold_for_stderr(text: str, indent: str) -> list[str]:
    """Return lines for stderr: wrapped between words on a terminal, else a single line."""
    if not sys.stderr.isatty():
        return [text]
    from ipexctl.base.wrapping import wrap_text

    return wrap_text(text, os.get_terminal_size(sys.stderr.fileno()).columns or 80, indent)


def print_error(what: str, why: str, hint: str) -> None:
    """Print an error on stderr. The lines of the hint can be pasted: commands are not wrapped, and
    other words stand behind #."""
    from ipexctl.base.shell_line import shell_line

    lines = fold_for_stderr(f"ipexctl: {what}", "  ")
    for i, line in enumerate(why.splitlines()):
        lines += fold_for_stderr(f"  {'why:' if i == 0 else '':5}{line}", " " * 7)
    for i, line in enumerate(hint.splitlines()):
        text = f"  {'try:' if i == 0 else '':5}{shell_line(line)}"
        is_words = text[7:].startswith("#")
        lines += fold_for_stderr(text, " " * 7 + "# ") if is_words else [text]
    print("\n".join(lines), file=sys.stderr)


def stdout_trouble(error: Exception) -> OSError | None:
    """Return the error if it is stdout's."""
    return _stream_error(error, sys.stdout)


def has_no_reader(error: BaseException) -> bool:
    """Decide whether the reader of stdout or stderr has closed the pipe, as in `ipexctl doctor |
    head`. Click then ends with SystemExit."""
    cause = error.__context__ if isinstance(error, SystemExit) and error.__context__ else error
    trouble = _stream_error(cause, sys.stdout) or _stream_error(cause, sys.stderr)
    return trouble is not None and trouble.errno == errno.EPIPE


def _stream_error(error: BaseException, stream: object) -> OSError | None:
    stream = getattr(stream, "wrapped", stream)  # Click's, after an EPIPE
    trouble = stream.trouble if isinstance(stream, _Stream) else None
    return trouble if error is trouble else None


class _Stream(io.TextIOWrapper):
    """Remembers the stream's error, as an OSError does not name it; writes nothing afterwards."""

    trouble: OSError | None = None

    @classmethod
    def instead_of(cls, old: io.TextIOWrapper, errors: str) -> _Stream:
        old.flush()
        kind = (old.encoding, errors, None, old.line_buffering, old.write_through)
        return cls(old.detach(), *kind)

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError as e:
            self._failed(e)
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as e:
            self._failed(e)

    def _failed(self, error: OSError) -> None:
        """Raise the error, and prevent another write of the buffer when the interpreter ends."""
        self.trouble = error
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
        raise error


class _Stderr(_Stream):
    """A full disk behind it changes neither the command nor its exit code."""

    def _failed(self, error: OSError) -> None:
        with suppress(OSError) if error.errno != errno.EPIPE else nullcontext():
            super()._failed(error)
