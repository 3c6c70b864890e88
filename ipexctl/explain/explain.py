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
    check = next((c for c in all_checks() if c.id == what.upper()), None)
    if check:
        related = (c for c in known_failures() if check.id in c.checks)
        return Explanation(check=check, related=tuple(related))
    cause = next((c for c in known_failures() if c.slug == what), None)
    if cause:
        return Explanation(cause=cause)
    if " " in what and not os.path.lexists(what):  # a pasted message
        found = causes.find_causes(what.splitlines(), known_failures())
        if found or not _similar_names(what):
            return Explanation(source="this text", matches=found)
    try:
        with Path(what).open("rb") as file:
            return Explanation(
                source=what, matches=causes.find_causes(read_log_lines(file), known_failures())
            )
    except OSError as e:
        raise _unknown_name_error(what, e) from None


def explainable_items() -> tuple[tuple[str, str], ...]:
    """Return all that can be explained: id or name, and title."""
    checks = ((c.id, c.title) for c in all_checks())
    return (*checks, *((c.slug, c.title) for c in known_failures()))


def _unknown_name_error(what: str, error: OSError) -> InputError:
    near = [f"ipexctl explain {name}   # {title}" for name, title in _similar_names(what)]
    hint = "\n".join([*near, "ipexctl explain   # lists all checks and known failures"])
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
    known = dict(explainable_items())
    word = what.upper() if _ID.fullmatch(what) else what
    like = difflib.get_close_matches(word, known, _MOST_NEAR, _LIKE)
    words = what.lower().split()
    named = [n for n in known if words and all(w in n.lower() for w in words)]
    titled = [n for n, title in known.items() if words and all(w in title.lower() for w in words)]
    found = dict.fromkeys([*like, *named, *titled] if "/" not in what else like)
    return [(name, known[name]) for name in found][:_MOST_NEAR]


def read_log_lines(stream: IO[bytes]) -> Iterator[str]:
    """Yield lines of any bytes, truncated, without colours; of a progress bar the last state."""
    while raw := stream.readline(_LONGEST):
        text = raw.decode("utf-8", "replace").rstrip("\r\n").rpartition("\r")[2]
        yield _ESCAPE.sub("", text) if "\x1b" in text else text


# --- as one JSON document ------------------------------------------------------------------------


def explanation_document(found: Explanation) -> dict[str, Any]:
    return {
        "command": "explain",
        "check": _check_document(found.check) if found.check else None,
        "cause": asdict(found.cause) if found.cause else None,
        "source": found.source,
        "matches": [
            {
                "cause": asdict(m.cause),
                "line": m.number,
                "text": plain(m.line, causes.MAX_LINE),
                "again": m.again,
            }
            for m in found.matches
        ],
        "exit_code": found.exit_code,
    }


def _check_document(check: Check) -> dict[str, Any]:
    return {
        "id": check.id,
        "title": check.title,
        "severities": [s.value for s in check.severities],
        "seen": check.seen,
        "why": check.why,
        "fix": str(check.fix),
    }
