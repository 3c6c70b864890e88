"""Packages that differ: from what was built to what is installed, or between two environments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ipexctl.quick_dataclass import dataclass

_MOST_CHANGES = 5


@dataclass(frozen=True)
class PackageChange:
    """A package; a version "": there is none. Equal versions: files are replaced, or `gone`."""

    package: str
    was: str
    now: str
    gone: bool = False

    def __str__(self) -> str:
        if not self.was:
            return f"{self.package} {self.now} added"
        if not self.now:
            return f"{self.package} {self.was} removed"
        if self.was == self.now:
            return f"{self.package} {self.now}: its files are {'gone' if self.gone else 'replaced'}"
        return f"{self.package} {self.was} -> {self.now}"


def read_changes(rows: Iterable[tuple[str, str, str, bool]]) -> tuple[PackageChange, ...]:
    """Return what a host reports as changed."""
    return tuple([PackageChange(*row) for row in rows])


def describe_changes(changes: Sequence[PackageChange]) -> str:
    """Return the changes in one line of limited length."""
    rest = [f"{len(changes) - _MOST_CHANGES} more"] if len(changes) > _MOST_CHANGES else []
    return ", ".join([*map(str, changes[:_MOST_CHANGES]), *rest])


def compare_packages(was: Mapping[str, str], now: Mapping[str, str]) -> tuple[PackageChange, ...]:
    """Return the changes that lead from one environment's packages to the other's."""
    names = sorted(was.keys() | now.keys())
    changes = (PackageChange(name, was.get(name, ""), now.get(name, "")) for name in names)
    return tuple(change for change in changes if change.was != change.now)
