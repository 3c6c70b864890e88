"""What arguments of several steps have in common: paths on hosts, permissions, patterns."""

from __future__ import annotations

import re

from ipexctl.base.located_errors import Bad

_CLAUSE = r"[ugoa]*(?:[=+-](?:[rwxXst]*|[ugo]))+"
_MODE = re.compile(rf"[0-7]{{3,4}}|0[0-7]{{4}}|{_CLAUSE}(?:,{_CLAUSE})*", re.ASCII)


def check_path(name: str, path: str) -> None:
    if not path.startswith(("/", "~")):
        what = f"{name} is empty" if not path else f"{name}: {path[:64]!r} is not an absolute path"
        raise Bad(
            what, hint=f"{name}: /PATH, or ~/PATH for the home folder", slug="path-not-absolute"
        )


def check_mode(name: str, mode: str) -> None:
    if mode and not _MODE.fullmatch(mode):
        raise Bad(
            f"{name}: {mode[:64]!r} is not a file mode",
            hint=f"{name}: '0644', or u=rw,go=r",
            slug="not-a-file-mode",
        )


def check_pattern(name: str, pattern: str) -> None:
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as e:
        raise Bad(
            f"{name}: {pattern[:64]!r} is not a valid regular expression: {e}", slug="not-a-pattern"
        ) from None
