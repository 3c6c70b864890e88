"""explain: describe a check or a known failure, or find known failures in a log."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from ipexctl.base.values import plain
from ipexctl.doctor.checks import all_checks
from ipexctl.doctor.checks.registry import Check
from ipexctl.errors import EXIT_FAILED, EXIT_OK, InputError
from ipexctl.explain.causes import causes
from ipexctl.explain.causes.causes import Cause, Match
from ipexctl.explain.known_failures import known_failures
from ipexctl.quick_dataclass import dataclass

_ID = re.compile(r"[A-Za-z]{2,8}-\d{1,4}")
_ESCAPE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_LONGEST = 1 << 16
_MOST_NEAR = 3
_LIKE = 0.7  # minimum similarity of a name


@dataclass(frozen=True)
class Explanation:
    """A check, a known failure, or what was found in a log (`source` is its name)."""

    check: Check | None = None
    related: tuple[Cause, ...] = ()  # failures that the check detects before a run
    cause: Cause | None = None
    source: str = ""
    matches: tuple[Match, ...] = ()

    @property
    def exit_code(self) -> int:
        """The exit code; a log without any known failure counts as an error, as with grep."""
        return EXIT_OK if self.check or self.cause or self.matches else EXIT_FAILED


def explain(what: str, stdin: IO[bytes]) -> Explanation:
    """Explain `what`: a check's id, a failure's slug, a file, - for `stdin`, or a message. Raises
    InputError."""
    if what == "-":
        return Explanation(
            source="stdin", matches=causes.find_causes(read_log_lines(stdin), known_failures())
        )
    check = next((entry for entry in all_checks() if entry.id == what.upper()), None)
    if check:
        related = (entry for entry in known_failures() if check.id in entry.checks)
        return Explanation(check=check, related=tuple(related))
    cause = next((entry for entry in known_failures() if entry.slug == what), None)
    if cause:
        return Explanation(cause=cause)
    if " " in what and not os.path.lexists(what):  # a pasted message
        matches = causes.find_causes(what.splitlines(), known_failures())
        if matches or not _similar_names(what):
            return Explanation(source="this text", matches=matches)
    try:
        with Path(what).open("rb") as file:
            return Explanation(
                source=what, matches=causes.find_causes(read_log_lines(file), known_failures())
            )
    except OSError as e:
        raise _unknown_name_error(what, e) from None


def explainable_items() -> tuple[tuple[str, str], ...]:
    """Return all that can be explained: id or name, and title."""
    checks = ((entry.id, entry.title) for entry in all_checks())
    return (*checks, *((entry.slug, entry.title) for entry in known_failures()))


def _unknown_name_error(what: str, error: OSError) -> InputError:
    suggestions = [f"ipexctl explain {name}   # {title}" for name, title in _similar_names(what)]
    hint = "\n".join([*suggestions, "ipexctl explain   # lists all checks and known failures"])
    if _ID.fullmatch(what):
        return InputError(f"there is no check {what}", hint=hint, slug="check-unknown")
    if "/" in what or os.path.lexists(what):
        return InputError(
            f"cannot read {what}",
            why=error.strerror or str(error),
            hint=hint,
            slug="file-unreadable",
        )
    return InputError(
        f"{what} is not a check, a known failure, or an existing file",
        hint=hint,
        slug="nothing-to-explain",
    )


def _similar_names(what: str) -> list[tuple[str, str]]:
    """Return similarly spelled names, then those with all its words in name or title."""
    titles = dict(explainable_items())
    word = what.upper() if _ID.fullmatch(what) else what
    similar = difflib.get_close_matches(word, titles, _MOST_NEAR, _LIKE)
    words = what.lower().split()
    with_words = [n for n in titles if words and all(w in n.lower() for w in words)]
    titled = [n for n, title in titles.items() if words and all(w in title.lower() for w in words)]
    names = dict.fromkeys([*similar, *with_words, *titled] if "/" not in what else similar)
    return [(name, titles[name]) for name in names][:_MOST_NEAR]


def read_log_lines(stream: IO[bytes]) -> Iterator[str]:
    """Yield lines of any bytes, truncated, without colours; of a progress bar the last state."""
    while raw := stream.readline(_LONGEST):
        text = raw.decode("utf-8", "replace").rstrip("\r\n").rpartition("\r")[2]
        yield _ESCAPE.sub("", text) if "\x1b" in text else text


# --- as one JSON document ------------------------------------------------------------------------


def explanation_document(explanation: Explanation) -> dict[str, Any]:
    return {
        "command": "explain",
        "check": _check_document(explanation.check) if explanation.check else None,
        "cause": asdict(explanation.cause) if explanation.cause else None,
        "source": explanation.source,
        "matches": [
            {
                "cause": asdict(match.cause),
                "line": match.number,
                "text": plain(match.line, causes.MAX_LINE),
                "again": match.again,
            }
            for match in explanation.matches
        ],
        "exit_code": explanation.exit_code,
    }


def _check_document(check: Check) -> dict[str, Any]:
    return {
        "id": check.id,
        "title": check.title,
        "severities": [severity.value for severity in check.severities],
        "seen": check.seen,
        "why": check.why,
        "fix": str(check.fix),
    }
