"""How an environment differs from what was built, and hosts from each other; as hosts say it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from ipexctl.env.choice.env_list import is_key, read_count
from ipexctl.env.choice.package_changes import Change, read_changes, rows
from ipexctl.quick_dataclass import dataclass


@dataclass(frozen=True)
class Drift:
    """A host's current environment, "" if it has none, beside what was built there.

    `files`: (path, what is wrong), of which the host left `more` out; of `looked` files it `read`
    some, and compared the others by size and time.
    """

    host: str
    root: str
    current: str
    packages: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    changed: tuple[Change, ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    more: int = 0
    looked: int = 0
    read: int = 0

    @property
    def by_hand(self) -> bool:
        return bool(self.changed or self.files)


def read_drift(host: str, raw: Mapping[str, Any]) -> Drift:
    """Raises ValueError."""
    packages = raw.get("packages")
    pairs = [list(pair) for pair in packages.items()] if isinstance(packages, Mapping) else None
    root, current = raw.get("root"), raw.get("current")
    if not isinstance(root, str) or not root.isprintable():
        raise ValueError("no path of its root")
    if not isinstance(current, str) or (current and not is_key(current)):
        raise ValueError("no key of an environment")
    more, looked, read = (read_count(raw, name) for name in ("more", "looked", "read"))
    return Drift(
        host,
        root,
        current,
        packages=tuple((name, version) for name, version in sorted(rows(pairs, 2))),
        changed=read_changes(raw.get("changed")),
        files=tuple((path, what) for path, what in rows(raw.get("files"), 2)),
        more=more,
        looked=looked,
        read=read,
    )


def most_common_env(drifts: Sequence[Drift]) -> str:
    """The environment that most hosts have, the first of several; "" if none has one."""
    keys = [d.current for d in drifts if d.current]
    return max(keys, key=keys.count, default="")
