"""What `ipexctl migrate` finds in a file."""

from __future__ import annotations

from ipexctl.migrate.code.rules import Rule
from ipexctl.quick_dataclass import dataclass


@dataclass(frozen=True)
class Finding:
    """`name`: as it is written."""

    rule: Rule
    name: str
    line: int
    text: str
    use: str = ""
    lines: tuple[str, ...] = ()

    @property
    def advice(self) -> str:
        return f"use {self.use}" if self.use else "remove it"


@dataclass(frozen=True)
class Command:
    """A line that starts ranks, and the ipexctl command that does the same. `why`: none does."""

    line: int
    launcher: str
    text: str
    why: str = ""


@dataclass(frozen=True)
class Reading:
    """What one file has. `unread`: why it, or a part of it, could not be read."""

    findings: tuple[Finding, ...] = ()
    commands: tuple[Command, ...] = ()
    unread: str = ""


def found(rule: Rule, name: str, line: int) -> Finding:
    text = rule.says(name)
    if text.endswith(" discontinued"):
        text += f" after {rule.since}"
    return Finding(rule, name, line, text, rule.use)
