"""What `ipexctl migrate` finds in a file, and the edits that cannot change its meaning."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable
from dataclasses import replace

from ipexctl.migrate.code.rules import Rule
from ipexctl.quick_dataclass import dataclass

_END_OF_LINE = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True)
class Edit:
    """Characters of the text that are replaced."""

    start: int
    end: int
    text: str = ""


@dataclass(frozen=True)
class Finding:
    """`cell`: of a notebook, from 1. `name`: as it is written. `edit`: only where it is safe."""

    rule: Rule
    name: str
    line: int
    text: str
    use: str = ""
    lines: tuple[str, ...] = ()
    edit: Edit | None = None
    cell: int = 0

    @property
    def advice(self) -> str:
        return f"use {self.use}" if self.use else "remove it"


@dataclass(frozen=True)
class Command:
    """A line that starts ranks, and the ipexctl command that does the same."""

    line: int
    launcher: str
    text: str
    left_out: tuple[str, ...] = ()  # what was not taken over, with the reason
    notes: tuple[str, ...] = ()
    cell: int = 0


@dataclass(frozen=True)
class Reading:
    """What one file has. `unread`: why it, or a part of it, could not be read."""

    findings: tuple[Finding, ...] = ()
    commands: tuple[Command, ...] = ()
    unread: str = ""


def found(rule: Rule, name: str, line: int, edit: Edit | None = None) -> Finding:
    text = rule.says(name)
    if text.endswith(" discontinued"):
        text += f" after {rule.since}"
    return Finding(rule, name, line, text, rule.use, edit=edit)


def without_edits(reading: Reading) -> Reading:
    return replace(reading, findings=tuple(replace(f, edit=None) for f in reading.findings))


def edited(text: str, findings: Iterable[Finding]) -> str:
    """The text after all edits; of two that overlap, the first is made."""
    parts, at = [], 0
    for edit in sorted({f.edit for f in findings if f.edit}, key=lambda e: (e.start, e.end)):
        if edit.start >= at:
            parts += [text[at : edit.start], edit.text]
            at = edit.end
    return "".join([*parts, text[at:]])


class Lines:
    """Offsets in a text by line, as Python and editors count lines."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts = [0, *(m.end() for m in _END_OF_LINE.finditer(text))]

    def offset(self, line: int, column: int) -> int:
        """Of ast's places: lines from 1, columns in bytes of UTF-8."""
        start = self.starts[line - 1]
        row = self.text[start : self.end(line)]
        return start + len(row.encode("utf-8", "surrogatepass")[:column].decode("utf-8", "replace"))

    def end(self, line: int) -> int:
        """Behind the line with its end."""
        return self.starts[line] if line < len(self.starts) else len(self.text)

    def line_of(self, offset: int) -> int:
        return bisect.bisect_right(self.starts, offset)
