"""Every failure ipexctl can explain, as one tree.

    IpexctlError            what / why / hint      exit
    ├── InputError          flag, hostfile line, file:line:col    2
    ├── NothingFits         no row of the version table           3
    ├── Unreachable         one host did not answer               4
    │   ├── HostKeyUnknown  the key has not been accepted yet     4
    │   └── HostKeyChanged  the key is not the one on record      4
    ├── HostFailed          a host answered and then failed       1
    ├── NotHere             this machine lacks rights or tools    2
    └── RunFailed           our own failures of `run`             120-125

Each error has a slug: programs and tests tell errors apart by it, never by their words.
Anything else that escapes is a bug of ours: a traceback and exit 70.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import TypeVar

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_INPUT = 2
EXIT_NOTHING_FITS = 3
EXIT_UNREACHABLE = 4
EXIT_BUG = 70
EXIT_INTERRUPTED = 130
EXIT_NO_READER = 141  # as shells report a program that SIGPIPE ended

LEAVE_OUT = "leave it out"  # what a hint begins with if the rest of the line is accepted
_LINE_ENDS = ("Zl", "Zp")  # U+2028 and U+2029
_PRECEDENCE = (
    EXIT_BUG,
    EXIT_INTERRUPTED,
    EXIT_INPUT,
    EXIT_NOTHING_FITS,
    EXIT_UNREACHABLE,
    EXIT_FAILED,
)


def worst_exit(codes: list[int]) -> int:
    """Return the exit code of a command when several apply."""
    for code in _PRECEDENCE:
        if code in codes:
            return code
    return EXIT_OK


def reason_of(error: Exception) -> str:
    """Return why a file could not be read or written, without error number and path."""
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8 text"
    return getattr(error, "strerror", None) or str(error)


E = TypeVar("E", bound="IpexctlError")


class IpexctlError(Exception):
    """What happened, the cause or evidence, and the next thing to type; all printable."""

    slug = "error"  # of errors without one of their own
    exit_code = EXIT_FAILED

    def __init__(self, what: str, *, why: str = "", hint: str = "", slug: str = "") -> None:
        self.what = printable_text(what)
        self.why = printable_text(why)
        self.hint = printable_text(hint)
        self.slug = slug or type(self).slug
        self.others: tuple[IpexctlError, ...] = ()  # more of them, found in the same pass
        # a typed word, or a part of it, and the right one; ("", option): the option is missing
        self.meant = ("", "")
        self.meant_at = ("", 0, 0)  # file, line and column of that word, if a file has it
        self.surplus: tuple[str, ...] = ()  # typed words, one after the other, to leave out
        self.instead: tuple[str, ...] = ()  # words to type in their place
        self.folder = ""  # where the command has to be typed
        self.fewer = (0, 0)  # with too many ranks: how many fit, and on each host (0: not a limit)
        super().__init__(self.what)

    def with_meant(self: E, wrong: str, right: str, at: tuple[str, int, int] = ("", 0, 0)) -> E:
        """Add what was probably meant instead of a word that was typed, or that a file has `at`
        file, line and column; nothing if `right` is empty. The command line shows the corrected
        command, or the one that corrects the file."""
        self.meant, self.meant_at = ((wrong, right), at) if right else (("", ""), ("", 0, 0))
        return self

    def with_surplus(
        self: E, words: Iterable[str], folder: str = "", *, instead: Iterable[str] = ()
    ) -> E:
        """Add typed words without which, or with others instead, the command is accepted, in this
        folder if one is given. The command line shows that."""
        self.surplus, self.folder, self.instead = tuple(words), folder, tuple(instead)
        return self

    def with_fewer(self: E, ranks: int, per_host: int = 0) -> E:
        """Add how many ranks fit, and on each host. `run` shows the command with these numbers."""
        self.fewer = (ranks, per_host)
        return self

    def document(self) -> dict[str, object]:
        """Return the document for `--json`: programs identify the error by its slug."""
        parts = {"what": self.what, "why": self.why, "hint": self.hint}
        return {"slug": self.slug, "exit_code": self.exit_code, **parts}

    def _render_traceback_(self) -> list[str]:
        """Return what Jupyter and IPython show instead of a traceback."""
        parts = (("why: ", self.why), ("try: ", self.hint))
        more = (f"  {label}{line}" for label, text in parts for line in text.splitlines())
        return [f"{type(self).__name__}: {self.what}", *more]


def printable_text(text: str) -> str:
    """Remove what a terminal would interpret: hosts put their own words into our errors."""
    if text.isascii() and text.isprintable():
        return text
    lines = text.replace("\t", " ").splitlines()
    return "\n".join("".join(filter(is_shown, line)) for line in lines)


def is_shown(letter: str) -> bool:
    """Decide whether a character is shown: not a control character, not another invisible one that
    a terminal interprets, and not an end of line, of which YAML has two more than terminals."""
    category = unicodedata.category(letter)
    return category[0] != "C" and category not in _LINE_ENDS


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, with what it means for the hosts."""


class InputError(IpexctlError):
    slug = "input"
    exit_code = EXIT_INPUT


class NotHere(IpexctlError):
    slug = "not-here"
    exit_code = EXIT_INPUT


def unknown_value(option: str, value: str, supported: Iterable[str], meant: str = "") -> InputError:
    """Return the error for an option that takes one of a few words; `meant`: the one that another
    word says."""
    import difflib  # not for the commands that show no such error

    words = list(supported)
    error = InputError(
        f"{option} {value}: unknown value",
        hint=f"supported values: {', '.join(words)}",
        slug="unknown-value",
    )
    similar = difflib.get_close_matches(value[:64], words, 1)
    return error.with_meant(value, meant or next(iter(similar), ""))


class MissingPackages(InputError):
    """The script imports packages that no host has, and the user can be asked about them. `line`
    installs them; `known`: their names are those of the packages, not guesses."""

    slug = "packages-missing"

    def __init__(self, what: str, *, line: str, known: bool) -> None:
        super().__init__(what, hint=line)
        self.line, self.known = line, known


class NothingFits(IpexctlError):
    slug = "nothing-fits"
    exit_code = EXIT_NOTHING_FITS


class Unreachable(IpexctlError):
    slug = "unreachable"
    exit_code = EXIT_UNREACHABLE


class HostKeyUnknown(Unreachable):
    slug = "host-key-unknown"


class HostKeyChanged(Unreachable):
    slug = "host-key-changed"


# Slugs of failures that say nothing about the host: a bug of the agent, a file that is retried.
NOT_THE_HOST = frozenset(("agent-bug", "damaged"))


class HostFailed(IpexctlError):
    slug = "host-failed"
    exit_code = EXIT_FAILED


class RunFailed(IpexctlError):
    slug = "run-failed"

    def __init__(
        self, what: str, *, why: str = "", hint: str = "", slug: str = "", exit_code: int = 120
    ) -> None:
        super().__init__(what, why=why, hint=hint, slug=slug)
        self.exit_code = exit_code
