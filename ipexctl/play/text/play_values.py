"""A play as it was written, and which of its steps are done. All frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from ipexctl.base.located_errors import did_you_mean
from ipexctl.base.place import Place
from ipexctl.base.yaml_nodes import Mapping as MappingNode
from ipexctl.base.yaml_nodes import Node, Scalar
from ipexctl.errors import InputError, printable
from ipexctl.quick_dataclass import dataclass

_LONGEST = 40  # of an item in a title


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


ALWAYS, NEVER = "always", "never"


@dataclass(frozen=True)
class StepChoice:
    tags: tuple[str, ...] = ()
    skip_tags: tuple[str, ...] = ()
    first: str = ""  # a step's name or number


def chosen_steps(play: Play, choice: StepChoice) -> tuple[PlayStep, ...]:
    """Raises InputError for tags and steps that are not in the play."""
    known = {tag for step in play.all_steps for tag in step.tags} | {ALWAYS, NEVER}
    for option, tags in (("--tags", choice.tags), ("--skip-tags", choice.skip_tags)):
        for tag in tags:
            if tag not in known and tag != "all":
                what = f"{option} {tag}: no step of {play.source} has this tag"
                own = ", ".join(sorted(known - {ALWAYS, NEVER})) or "none"
                raise InputError(
                    what + did_you_mean(tag, known), hint=f"tags: {own}", slug="unknown-tag"
                )
    steps = _from(play, choice.first) if choice.first else play.steps
    return tuple(step for step in steps if _wanted(step, choice))


def _wanted(step: PlayStep, choice: StepChoice) -> bool:
    """Tags are those of Ansible: `never` runs if named, `always` unless it is skipped."""
    if step.tags & set(choice.skip_tags):
        return False
    named = step.tags & set(choice.tags)
    if NEVER in step.tags:
        return bool(named)
    return not choice.tags or bool(named) or ALWAYS in step.tags or "all" in choice.tags


def _from(play: Play, first: str) -> tuple[PlayStep, ...]:
    for i, step in enumerate(play.steps):
        if first in (step.name, str(step.number)):
            return play.steps[i:]
    names = [step.name for step in play.steps if step.name]
    what = f"--from {first}: {play.source} has no such step{did_you_mean(first, names)}"
    raise InputError(what, hint="--list-steps   # names and numbers", slug="unknown-step")
