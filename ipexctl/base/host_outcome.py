"""The outcome of a host in a command, and the exit code that follows from all of them."""

from __future__ import annotations

from dataclasses import field
from enum import Enum

from ipexctl.errors import (
    EXIT_FAILED,
    EXIT_OK,
    EXIT_UNREACHABLE,
    IpexctlError,
    Unreachable,
    worst_exit,
)
from ipexctl.quick_dataclass import dataclass


@dataclass(frozen=True)
class HostDown:
    """The outcome of a host that gave no facts."""

    host: str
    slug: str
    what: str
    why: str = ""
    hint: str = ""
    unreachable: bool = False  # no connection or no login
    meant: tuple[str, str] = ("", "")  # as in IpexctlError
    meant_at: tuple[str, int, int] = ("", 0, 0)

    @classmethod
    def of(cls, host: str, e: IpexctlError) -> HostDown:
        lost = isinstance(e, Unreachable)
        texts = (host, e.slug, e.what, e.why, e.hint)
        return cls(*texts, unreachable=lost, meant=e.meant, meant_at=e.meant_at)

    def document(self) -> dict[str, object]:
        """Return the document for `--json`."""
        texts = {"host": self.host, "slug": self.slug, "what": self.what, "why": self.why}
        return {**texts, "hint": self.hint, "unreachable": self.unreachable}

    @property
    def state(self) -> HostState:
        return HostState.UNREACHABLE if self.unreachable else HostState.FAILED

    @property
    def brief(self) -> str:
        """The message, for a line that already names the host."""
        return without_host(self.host, self.what)


def without_host(host: str, what: str) -> str:
    """Return the message without the host name at its start."""
    return what.removeprefix(f"{host}: ")


class HostState(str, Enum):
    """The outcome of a host: exactly one of these."""

    OK = "ok"
    CHANGED = "changed"
    UNREACHABLE = "unreachable"
    FAILED = "failed"
    SKIPPED = "skipped"

    @property
    def exit_code(self) -> int:
        codes = {HostState.UNREACHABLE: EXIT_UNREACHABLE, HostState.FAILED: EXIT_FAILED}
        return codes.get(self, EXIT_OK)


@dataclass(frozen=True)
class HostResult:
    host: str
    state: HostState
    detail: str = ""
    seconds: float = 0.0
    notes: tuple[str, ...] = field(default=())
    sent: int = 0  # bytes sent to this host, if all arrived
    slug: str = ""  # the slug of the error with which the host failed


class PerHost:
    """Base of outcomes that have one recap per host."""

    recaps: tuple[HostResult, ...]

    @property
    def declined(self) -> bool:
        """Whether the user answered no, so that nothing was changed."""
        return False

    @property
    def exit_code(self) -> int:
        codes = [recap.state.exit_code for recap in self.recaps]
        return worst_exit([*codes, EXIT_FAILED if self.declined else EXIT_OK])
