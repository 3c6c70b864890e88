"""Why no row of the version table fits, in few lines: rows refused for the same reason together."""

from __future__ import annotations

import re

# What a row is, beside what was asked for, without the row's own version.
_OTHER = (
    (re.compile(r"it has IPEX \S+, not stock PyTorch"), "it has IPEX, not stock PyTorch"),
    (re.compile(r"it has IPEX \S+, not (\S+)"), r"IPEX is not \1"),
    (re.compile(r"it has torch \S+, not (\S+)"), r"torch is not \1"),
)

_OF_ROW = ("it ", "IPEX is not ", "torch is not ")


def folded(why: str) -> str:
    """Lines of `row: reason`. What the hosts lack comes first; what nobody asked for, last."""
    groups: dict[str, list[str]] = {}
    for line in why.splitlines():
        row, _, reason = line.partition(": ")
        groups.setdefault(_general(reason), []).append(line if not reason else row)
    ordered = sorted(groups.items(), key=lambda group: group[0].startswith(_OF_ROW))
    return "\n".join(f"{_rows(rows)}: {reason}" if reason else rows[0] for reason, rows in ordered)


def _general(reason: str) -> str:
    for form, text in _OTHER:
        reason = form.sub(text, reason)
    return reason


def _rows(names: list[str]) -> str:
    """Of each kind the newest first, whatever the table prefers."""
    kinds = list(dict.fromkeys(name.partition("-")[0] for name in names))
    names = sorted(names, key=_version, reverse=True)
    names.sort(key=lambda name: kinds.index(name.partition("-")[0]))
    return ", ".join(names) if len(names) < 3 else f"{len(names)} rows, {names[0]} to {names[-1]}"


def _version(name: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", name)]
