"""What a check found on a host, and what to do about it: words and commands, in reading order.

Outputs print a Fix with str(), the root script takes its commands, and the user's own options go
into those of ipexctl: nothing is read back out of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from enum import Enum

from ipexctl.base.quoting import quote
from ipexctl.quick_dataclass import dataclass

# Words may come from hosts (names, paths): what a shell might expand is left for a person to read.
_PLAIN = re.compile(r"[A-Za-z0-9_./:=,@%+ *-]*")


@dataclass(frozen=True)
class Command:
    """A command; `pipe` reads its output. `scripted`: it is harmless and leaves nothing to decide.

    `options_at` is where in `argv` the user's own options go; 0: it takes none.
    """

    argv: tuple[str, ...]
    pipe: tuple[str, ...] = ()
    scripted: bool = False
    options_at: int = 0

    def __str__(self) -> str:
        return quote(self.argv) + (f" | {quote(self.pipe)}" if self.pipe else "")

    @property
    def needs_root(self) -> bool:
        return not {"sudo", "sudoedit"}.isdisjoint((*self.argv[:1], *self.pipe[:1]))

    @property
    def unattended(self) -> bool:
        """Whether a script for root may contain it."""
        return self.scripted and all(_PLAIN.fullmatch(word) for word in (*self.argv, *self.pipe))


@dataclass(frozen=True)
class Shell:
    """A command that argv cannot express (`&&`, globs, ~); never with words from hosts or users."""

    text: str
    needs_root: bool = False
    unattended: bool = False

    def __str__(self) -> str:
        return self.text


Part = str | Command | Shell


@dataclass(frozen=True)
class Fix:
    """Alternatives, each of them words and commands. A fix without any is false."""

    alternatives: tuple[tuple[Part, ...], ...] = ()

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def __bool__(self) -> bool:
        return bool(self.alternatives)

    def __or__(self, other: Fix) -> Fix:
        return Fix(self.alternatives + other.alternatives)

    @property
    def lines(self) -> tuple[str, ...]:
        return tuple(map(_format_alternative, self.alternatives))

    @property
    def commands(self) -> Iterator[Command | Shell]:
        return (part for parts in self.alternatives for part in parts if not isinstance(part, str))

    @property
    def needs_root(self) -> bool:
        return any(c.needs_root for c in self.commands)

    def with_options(self, options: tuple[str, ...]) -> Fix:
        """Return a copy with the options by which the user named the hosts."""
        return Fix(
            tuple(tuple(_with_options(p, options) for p in parts) for parts in self.alternatives)
        )


def _format_alternative(parts: tuple[Part, ...]) -> str:
    """Return one line: words that follow a command stand behind #, as it can be pasted."""
    first, *rest = parts
    words = "".join(map(str, rest))
    is_second_command = rest[1:] and rest[0] == "; " and not isinstance(rest[1], str)
    if isinstance(first, str) or not words or is_second_command:
        return f"{first}{words}"
    words = words.strip(" #;,")
    words = words[1:-1] if words.startswith("(") and words.endswith(")") else words
    return f"{first}   # {words}"


def _with_options(part: Part, options: tuple[str, ...]) -> Part:
    if isinstance(part, Command) and part.options_at:
        index = part.options_at
        return replace(part, argv=(*part.argv[:index], *options, *part.argv[index:]), options_at=0)
    return part


class Severity(str, Enum):
    FAIL = "fail"  # training on these hosts would break
    WARN = "warn"  # it would be slow or fragile
    NOTE = "note"  # good to know


@dataclass(frozen=True)
class Finding:
    """One thing a check saw on one host (host "": about the cluster)."""

    id: str
    severity: Severity
    host: str
    title: str
    evidence: str
    why: str
    fix: Fix


# --- how checks make them ------------------------------------------------------------------------
# The first argument is split at spaces and is our own text; the others may come from hosts.


def do(*parts: Part) -> Fix:
    return Fix((parts,))


def as_fix(fix: Fix | Part) -> Fix:
    return fix if isinstance(fix, Fix) else do(fix) if fix else Fix()


def command(start: str, *argv: str, pipe: str = "") -> Command:
    return Command((*start.split(), *argv), tuple(pipe.split()))


def ipexctl_command(verb: str, *argv: str) -> Command:
    """Return an ipexctl command; the user's options go after the verb."""
    words = ("ipexctl", *verb.split())
    return Command((*words, *argv), options_at=len(words))


def sudo(start: str, *argv: str) -> Command:
    """Return a command that a person has to decide on, or fill in."""
    return Command(("sudo", *start.split(), *argv))


def scripted_sudo(start: str, *argv: str) -> Command:
    """Return a command that root can run unattended: `doctor --print` puts it in a script."""
    return replace(sudo(start, *argv), scripted=True)


def edit_file(path: str) -> Command:
    """Return the command to change a line of a file by hand; words after it say which."""
    return Command(("sudoedit", path))


def write_line(line: str, path: str, *, append: bool = False, scripted: bool = True) -> Command:
    """Return the command with which root writes a line into a file."""
    return Command(("echo", line), ("sudo", "tee", *["-a"] * append, path), scripted)
