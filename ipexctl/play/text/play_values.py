"""A play as it was written, and the selection of its steps. All frozen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ipexctl.base.located_errors import ask_if_meant, nearest_word
from ipexctl.base.place import Place
from ipexctl.base.yaml_nodes import Mapping as MappingNode
from ipexctl.base.yaml_nodes import Node, Scalar
from ipexctl.errors import InputError, printable_text
from ipexctl.play.text.play_options import PlayOptions
from ipexctl.play.text.step_schema import Count, HostPattern, Seconds, Title, arg
from ipexctl.quick_dataclass import dataclass

_LONGEST = 40  # of an item in a title


@dataclass(frozen=True)
class PlayStep:
    """One step: `kind` is its keyword, `node` its arguments as the file has them.

    Fields made by `arg` are keys that may accompany the keyword.
    """

    number: int  # from 1, in the order of the file; handlers follow the steps
    kind: str
    node: Node
    place: Place
    name: Title = arg("Name of the step, for the output and --from.", Title())
    tags: frozenset[str] = arg(
        "For --tags and --skip-tags; always and never as in Ansible.", frozenset()
    )
    when: Node | None = arg("Facts and variables that must have these values.", None)
    on: HostPattern = arg("Host pattern: only these of the play's hosts.", HostPattern())
    loop: Node | None = arg(
        "Do the step once for each value, as ${item}, or mapping, as ${item.NAME}.", None
    )
    sudo: bool = arg("Run as root.", False)
    notify: tuple[str, ...] = arg("Handlers to run at the end if the step changes something.", ())
    ignore_errors: bool = arg("A failure does not stop the host.", False)
    retries: Count = arg("Number of retries after a failure.", Count())
    delay: Seconds = arg("Time between retries. Default: 5 s.", Seconds(5.0))
    handler: str = ""  # the handler to which it belongs
    item: Node | None = None  # the item of its loop: a value, or a mapping of values
    ready: Any = None  # a step with its values, from a program using the API; `node` is not read

    @property
    def title(self) -> str:
        title = self.name or self.kind
        title = f"{title} ({self.item_text})" if self.item else title
        return f"{self.handler}: {title}" if self.handler else title

    @property
    def item_text(self) -> str:
        """The item as the file has it, on one line."""
        if isinstance(self.item, MappingNode):
            pairs = [f"{k.text}={v.text}" for k, v in self.item.items if isinstance(v, Scalar)]
            return _shorten_text(", ".join(pairs))
        return _shorten_text(self.item.text) if isinstance(self.item, Scalar) else ""


def _shorten_text(text: str) -> str:
    line = " ".join(printable_text(text).split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 3] + "..."


@dataclass(frozen=True)
class Play:
    """A play. Fields made by `arg` are keys of the file."""

    source: str
    steps: tuple[PlayStep, ...] = arg("What to do, in this order.")
    name: Title = arg("A title for outputs.", Title())
    hosts: HostPattern = arg(
        "Host pattern over the hosts of -f, -H or the settings. Default: all.", HostPattern()
    )
    vars: Mapping[str, tuple[str, Place]] = arg(
        "Default values of variables. -e and the variables of hosts and groups override them.", {}
    )
    handlers: Mapping[str, tuple[PlayStep, ...]] = arg(
        "NAME: steps. They run once at the end, on hosts where a step that notifies them changed "
        "something.",
        {},
    )
    sudo: bool = arg("Run all steps as root, except those with sudo: false.", False)
    any_errors_fatal: bool = arg("If a step fails on one host, stop on all hosts.", False)
    serial: Count = arg("Number of hosts to process at a time. Default: all.", Count())
    hosts_place: Place | None = None

    @property
    def all_steps(self) -> tuple[PlayStep, ...]:
        return (*self.steps, *(step for steps in self.handlers.values() for step in steps))


ALWAYS, NEVER = "always", "never"


def chosen_steps(play: Play, options: PlayOptions) -> tuple[PlayStep, ...]:
    """Return the steps to run. Raises InputError for tags and steps that are not in the play."""
    all_tags = {tag for step in play.all_steps for tag in step.tags} | {ALWAYS, NEVER}
    for option, tags in (("--tags", options.tags), ("--skip-tags", options.skip_tags)):
        for tag in tags:
            if tag not in all_tags and tag != "all":
                what = f"{option} {tag}: no step of {play.source} has this tag"
                names = ", ".join(sorted(all_tags - {ALWAYS, NEVER})) or "none"
                near = nearest_word(tag, sorted(all_tags))
                raise InputError(
                    what + ask_if_meant(near), hint=f"tags: {names}", slug="unknown-tag"
                ).with_meant(tag, near)
    steps = _steps_from(play, options.first) if options.first else play.steps
    return tuple(step for step in steps if _has_wanted_tags(step, options))


def _has_wanted_tags(step: PlayStep, options: PlayOptions) -> bool:
    """Decide by tags as Ansible does: `never` runs if named, `always` unless it is skipped."""
    if step.tags & set(options.skip_tags):
        return False
    named = step.tags & set(options.tags)
    if NEVER in step.tags:
        return bool(named)
    return not options.tags or bool(named) or ALWAYS in step.tags or "all" in options.tags


def _steps_from(play: Play, first: str) -> tuple[PlayStep, ...]:
    for i, step in enumerate(play.steps):
        if first in (step.name, str(step.number)):
            return play.steps[i:]
    names = [step.name for step in play.steps if step.name]
    near = nearest_word(first, names)
    what = f"--from {first}: {play.source} has no such step{ask_if_meant(near)}"
    error = InputError(what, hint="--list-steps   # names and numbers", slug="unknown-step")
    raise error.with_meant(first, near)
