"""A play as it was written, and its report: the outcome of each step on each host. All frozen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import field
from enum import Enum
from typing import Any

from ipexctl.base.place import Place
from ipexctl.base.yaml_nodes import Mapping as MappingNode
from ipexctl.base.yaml_nodes import Node, Scalar
from ipexctl.errors import EXIT_FAILED, EXIT_OK, EXIT_UNREACHABLE, printable
from ipexctl.quick_dataclass import dataclass

EXIT_WOULD_CHANGE = 10
EXIT_UNKNOWN = 11
_LONGEST = 40  # of an item in a title


class State(str, Enum):
    """The outcome of a step on a host."""

    OK = "ok"
    CHANGED = "changed"
    WOULD_CHANGE = "would change"
    UNKNOWN = "unknown"
    SKIPPED = "skipped"
    IGNORED = "ignored"  # it failed, and the play says ignore_errors
    FAILED = "failed"
    UNREACHABLE = "unreachable"

    @property
    def stops(self) -> bool:
        return self in (State.FAILED, State.UNREACHABLE)

    @property
    def exit_code(self) -> int:
        return _CODES.get(self, EXIT_OK)


_CODES = {
    State.FAILED: EXIT_FAILED,
    State.UNREACHABLE: EXIT_UNREACHABLE,
    State.WOULD_CHANGE: EXIT_WOULD_CHANGE,
    State.UNKNOWN: EXIT_UNKNOWN,
}


@dataclass(frozen=True)
class PlayStep:
    """One step: `kind` is its keyword, `node` its arguments as they stand in the file."""

    number: int  # from 1, in the order of the file; handlers follow the steps
    kind: str
    node: Node
    place: Place
    name: str = ""
    tags: frozenset[str] = frozenset()
    when: Node | None = None
    on: str = ""  # a host pattern
    sudo: bool = False
    notify: tuple[str, ...] = ()
    ignore_errors: bool = False
    retries: int = 0
    delay: float = 5.0
    handler: str = ""  # of which it is a step
    item: Node | None = None  # of its loop: a value, or a mapping of values
    ready: Any = None  # a step with its values, of a program that uses the API; `node` is not read

    @property
    def title(self) -> str:
        title = self.name or self.kind
        title = f"{title} ({self.item_text})" if self.item else title
        return f"{self.handler}: {title}" if self.handler else title

    @property
    def item_text(self) -> str:
        """As it stands in the file, on one line."""
        if isinstance(self.item, MappingNode):
            parts = [f"{k.text}={v.text}" for k, v in self.item.items if isinstance(v, Scalar)]
            return _shortened(", ".join(parts))
        return _shortened(self.item.text) if isinstance(self.item, Scalar) else ""


def _shortened(text: str) -> str:
    shown = " ".join(printable(text).split())
    return shown if len(shown) <= _LONGEST else shown[: _LONGEST - 3] + "..."


@dataclass(frozen=True)
class Play:
    source: str
    steps: tuple[PlayStep, ...]
    name: str = ""
    hosts: str = ""  # a host pattern; "": all
    vars: Mapping[str, tuple[str, Place]] = field(default_factory=dict, hash=False)
    handlers: Mapping[str, tuple[PlayStep, ...]] = field(default_factory=dict, hash=False)
    any_errors_fatal: bool = False
    serial: int = 0  # hosts at a time; 0: all
    hosts_place: Place | None = None

    @property
    def all_steps(self) -> tuple[PlayStep, ...]:
        return (*self.steps, *(step for steps in self.handlers.values() for step in steps))


@dataclass(frozen=True)
class StepOutcome:
    """A step on a host. `detail` is one line: what changed, or what failed."""

    step: PlayStep
    host: str
    state: State
    detail: str = ""
    why: str = ""
    hint: str = ""
    diff: str = ""
    seconds: float = 0.0
    slug: str = ""  # of what failed


_WORST = (EXIT_UNREACHABLE, EXIT_FAILED, EXIT_WOULD_CHANGE, EXIT_UNKNOWN)


@dataclass(frozen=True)
class PlayReport:
    play: Play
    hosts: tuple[str, ...]
    outcomes: tuple[StepOutcome, ...]
    check: bool
    seconds: float

    def counts(self, host: str) -> Counter[State]:
        return Counter(o.state for o in self.outcomes if o.host == host)

    @property
    def failures(self) -> tuple[StepOutcome, ...]:
        return tuple(o for o in self.outcomes if o.state.stops)

    @property
    def states(self) -> dict[str, str]:
        """Host -> failed or unreachable, or ok."""
        return dict.fromkeys(self.hosts, "ok") | {o.host: o.state.value for o in self.failures}

    @property
    def exit_code(self) -> int:
        codes = {outcome.state.exit_code for outcome in self.outcomes}
        return next((code for code in _WORST if code in codes), EXIT_OK)
