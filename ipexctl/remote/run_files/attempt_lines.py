"""RUN/attempts.HOST: the lines of the record of a run with keepers, as this host has them."""

import os
import time

from ipexctl.common.attempt_record import RecordLine, WrittenLine
from ipexctl.common.message import MYPY
from ipexctl.remote.run_files import journal

if MYPY:
    from collections.abc import Iterator


def append_line(folder: str, host: str, line: RecordLine, is_first: bool = False) -> None:
    """Append a line, or begin the file with it; raises OSError."""
    written = WrittenLine(round(time.time(), 1), line)
    flags = os.O_TRUNC if is_first else os.O_APPEND
    journal.write_lines(journal.attempts_path(folder, host), flags, [written.document()])


def read_lines(folder: str, host: str) -> "Iterator[RecordLine]":
    """Yield the lines that can be read: those of another version may not."""
    for document in journal.read_lines(journal.attempts_path(folder, host)):
        try:
            yield WrittenLine.read(document).line
        except (TypeError, ValueError, KeyError, AttributeError):
            continue
