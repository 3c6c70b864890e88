"""How an environment differs from what was built, and hosts from each other; as hosts say it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from ipexctl.base.host_answer import Answer
from ipexctl.env.choice.env_list import read_key
from ipexctl.env.choice.package_changes import Change, read_changes
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


def read_drift(host: str, done: Answer) -> Drift:
    """Raises HostFailed."""
    return Drift(
        host,
        done.text("root"),
        read_key(done, "current"),
        packages=tuple(sorted(done.names("packages").items())),
        changed=read_changes(done),
        files=tuple((path, what) for path, what in done.rows("files", str, str)),
        more=done.whole("more"),
        looked=done.whole("looked"),
        read=done.whole("read"),
    )


def most_common_env(drifts: Sequence[Drift]) -> str:
    """The environment that most hosts have, the first of several; "" if none has one."""
    keys = [d.current for d in drifts if d.current]
    return max(keys, key=keys.count, default="")
