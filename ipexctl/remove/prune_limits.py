"""Limits of what is kept although it can be made or sent again, on hosts and the controller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ipexctl.base.sizes import format_bytes
from ipexctl.local.settings_file import Setting
from ipexctl.quick_dataclass import dataclass

MB = 1000 * 1000
SHOWN = 3  # removed runs that are named
# kind -> singular, plural; as hosts report them
WORDS = {
    "runs": ("run with its results", "runs with their results"),
    "copies": ("copy of a project in an old run", "copies of projects in old runs"),
    "blobs": ("file of an old project version", "files of old project versions"),
    "cache": ("cached file", "cached files"),
}


@dataclass(frozen=True)
class PruneLimits:
    """The settings of [prune]. `runs` 0: no run's results are ever removed."""

    copies: int = 1  # newest runs that keep their copy of the project
    runs: int = 20  # newest runs that are kept
    days: int = 14  # older runs are also kept for this many days after their end
    project_mb: int = 2000  # files of projects that hosts keep, so that they are not sent again
    cache_mb: int = 10000  # downloaded files on the controller

    def for_host(self, by: str) -> dict[str, Any]:
        """Return what a host needs. `by`: whose limits these are. The runs that somebody else
        started with the same account have the default limits, if these are more generous."""
        default = PruneLimits()
        runs = max(self.runs, default.runs) if self.runs else 0
        return {
            "copies": self.copies,
            "runs": self.runs,
            "days": self.days,
            "project_mb": self.project_mb,
            "by": by,
            "others": {"runs": runs, "days": max(self.days, default.days)},
        }


def read_limits(settings: Mapping[str, Setting]) -> PruneLimits:
    limits = {key: setting.value for key, setting in settings.items() if key.startswith("prune.")}
    return replace(PruneLimits(), **{key.removeprefix("prune."): n for key, n in limits.items()})


@dataclass(frozen=True)
class Amount:
    kind: str
    count: int
    bytes: int
    runs: tuple[tuple[str, str], ...] = ()  # id and name of those that are removed as a whole


def describe_amounts(amounts: tuple[Amount, ...]) -> str:
    """Return e.g. "2 runs with their results (lr-0.1, lr-0.2: 600.0 MB), 1 cached file (2.0 MB)";
    at most three runs are named."""
    return ", ".join(map(_describe_amount, amounts))


def _describe_amount(amount: Amount) -> str:
    names = [name or run for run, name in amount.runs]
    more = f" and {amount.count - SHOWN} more" if amount.count > SHOWN else ""
    named = f"{', '.join(names[:SHOWN])}{more}: " if names else ""
    what = WORDS[amount.kind][amount.count != 1]
    return f"{amount.count} {what} ({named}{format_bytes(amount.bytes)})"


def add_amounts(several: list[tuple[Amount, ...]]) -> tuple[Amount, ...]:
    """Return the sum by kind. A run that several hosts remove counts once."""
    sums: dict[str, Amount] = {}
    for amount in (a for amounts in several for a in amounts):
        old = sums.get(amount.kind, Amount(amount.kind, 0, 0))
        runs = tuple(dict.fromkeys((*old.runs, *amount.runs)))
        twice = len(old.runs) + len(amount.runs) - len(runs)
        count, size = old.count + amount.count - twice, old.bytes + amount.bytes
        sums[amount.kind] = Amount(amount.kind, count, size, runs)
    return tuple(sums[kind] for kind in WORDS if kind in sums)
