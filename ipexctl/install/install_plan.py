"""The values of one install: its request, its progress and its outcome."""

from __future__ import annotations

import time
from dataclasses import field
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ipexctl.base.blob import Blob
from ipexctl.base.host_outcome import HostDown, HostResult, PerHost
from ipexctl.common.install_answers import EnvState
from ipexctl.facts.package_changes import PackageChange, describe_changes, read_changes
from ipexctl.install.install_options import InstallOptions
from ipexctl.inventory.inventory import Host
from ipexctl.packages.resolver import Resolved
from ipexctl.quick_dataclass import dataclass
from ipexctl.stack.lock_file import Lock
from ipexctl.stack.selection import stack_requirements
from ipexctl.terminal.progress import HostProgress, ProgressStep


def is_complete(state: EnvState, key: str, *, rebuild: bool = False) -> bool:
    """Decide if nothing is to do; `current` may be another project's if ours uses `key` too."""
    in_use = state.current == key or (state.asked and state.before == key)
    return state.built and state.proved and in_use and not (state.changed or rebuild)


@dataclass(frozen=True)
class HostInstall:
    """The part of a plan for one host. `address`: where other hosts reach it; "" if unknown.

    `changes`: from the packages of `state.before` to those of the lock. `lacking`: the
    files that are sent to it. `free`: on its disk. `rebuild`: even if it is intact.
    """

    host: Host
    state: EnvState
    complete: bool
    changes: tuple[PackageChange, ...] = ()
    address: str = ""
    lacking: tuple[Blob, ...] = ()
    free: int | None = field(default=None, compare=False)
    rebuild: bool = False

    @property
    def needs_build(self) -> bool:
        return not self.state.built or self.needs_rebuild

    @property
    def needs_rebuild(self) -> bool:
        return self.state.built and bool(self.state.changed or self.rebuild)

    @property
    def notes(self) -> tuple[str, ...]:
        """The reason for a rebuild that the user has not asked for."""
        if not self.state.changed:
            return ()
        return (f"changed by hand: {describe_changes(read_changes(self.state.changed))}",)

    @property
    def to_send(self) -> int:
        """The bytes to send, of files whose size is known."""
        return sum(blob.size for blob in self.lacking)


@dataclass(frozen=True)
class Plan:
    """What an install will do. Making it changes nothing; --check ends with it.

    `folder`: where ipexctl.lock is; `new_lock`: it is made or replaced. `lacking`: files not on the
    controller yet. `bundled`: they are in a bundle. `left_out`: hosts that failed before.
    """

    found: Resolved
    parts: tuple[HostInstall, ...]
    folder: Path
    new_lock: bool
    lacking: tuple[Blob, ...] = ()
    bundled: bool = False
    relay: bool = True
    left_out: tuple[HostDown, ...] = ()

    @property
    def lock(self) -> Lock:
        return self.found.lock

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(part.host.name for part in self.parts)

    @property
    def requested_packages(self) -> tuple[str, ...]:
        """The packages that the stack and -r name; all others are their dependencies."""
        requirements = ("torch", *stack_requirements(self.found.stack), *self.lock.requirements)
        names = dict.fromkeys(canonicalize_name(Requirement(text).name) for text in requirements)
        return tuple(name for name in names if self.lock.version(name))

    @property
    def to_fetch(self) -> int:
        """The bytes to fetch, of files whose size is known."""
        return sum(blob.size for blob in self.lacking)

    @property
    def todo(self) -> tuple[HostInstall, ...]:
        return tuple(part for part in self.parts if not part.complete)

    @property
    def to_send(self) -> int:
        """The bytes to send to all hosts, of files whose size is known."""
        return sum(part.to_send for part in self.todo)


@dataclass(frozen=True)
class InstallReport(PerHost):
    recaps: tuple[HostResult, ...] = ()
    fetched: int = 0  # bytes from package indexes
    sent: int = 0  # bytes to hosts
    seconds: float = 0.0
    check: bool = False
    passed: int = 0  # bytes from host to host
    plan: Plan | None = None
    declined: bool = False  # the user answered no
    without_downs: str = ""  # the same command for the other hosts; "" if they are done
    run: str = ""  # what to type next; "" if a host failed


@dataclass(frozen=True)
class Work:
    """The request of one install and its progress callbacks.

    `waited`: seconds of waiting for the user. `switched`: hosts that have the new environment.
    """

    asked: InstallOptions
    progress: HostProgress
    waited: list[float] = field(default_factory=lambda: [0.0])
    switched: list[str] = field(default_factory=list)

    def confirm_plan(self, plan: Plan) -> bool:
        began = time.monotonic()
        try:
            return self.progress.agreed(plan)
        finally:
            self.waited[0] += time.monotonic() - began

    def step(self, host: str, text: str, done: int = 0, total: int = 0) -> None:
        """Report progress; thread-safe if the callback is. `host` "" means the controller."""
        self.progress.step(ProgressStep(host, text, done, total))
