"""The two kinds of steps: those that a host runs on its own, and those that need all hosts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, ClassVar

from ipexctl.base.host_outcome import HostDown
from ipexctl.common.files import hash_of
from ipexctl.machines.fleet import Fleet
from ipexctl.play.text.check_prediction import ANY
from ipexctl.play.text.interpolation import Scope
from ipexctl.play.text.play_outcome import State
from ipexctl.play.text.step_schema import Step, shell_variables
from ipexctl.quick_dataclass import dataclass


@dataclass
class LocalFiles:
    """Local files that steps put on hosts, by their SHA-256."""

    paths: dict[str, Path] = field(default_factory=dict)

    def add(self, path: Path) -> str:
        with path.open("rb") as file:
            sha256 = hash_of(file).hexdigest()
        self.paths[sha256] = path
        return sha256


class HostStep(Step):
    """A step run by `apply` of remote/play/apply_*.py; consecutive ones are one request."""

    def validate_files(self, scope: Scope) -> None:
        """Raise Bad or InputError if the content of a local file cannot be used."""

    def request(self, files: LocalFiles, scope: Scope) -> dict[str, Any]:
        """Return the arguments of `apply`. Raises Bad for a missing local file."""
        arguments: dict[str, Any] = dataclasses.asdict(self)  # type: ignore[call-overload]
        return {**arguments, "variables": shell_variables(*vars(self).values())}


@dataclass(frozen=True)
class Result:
    """The result of a step on a host."""

    state: State
    detail: str = ""
    why: str = ""
    hint: str = ""
    slug: str = ""

    @classmethod
    def of_down(cls, down: HostDown) -> Result:
        return cls(State(down.state.value), down.brief, down.why, down.hint, down.slug)


@dataclass(frozen=True)
class Acting:
    """What a FleetStep acts on: the hosts of `fleet` named in `hosts`, in hostfile order."""

    fleet: Fleet
    hosts: tuple[str, ...]
    check: bool
    say: Callable[[str, str], None]  # host ("" all), a line of output
    password: str = field(default="", repr=False)  # for sudo


class FleetStep(Step):
    """A step that runs on the controller for all hosts. `reads`, `writes`: see check_prediction."""

    reads: ClassVar[tuple[str, ...]] = (ANY,)
    writes: ClassVar[tuple[str, ...]] = (ANY,)

    def act(self, on: Acting) -> Mapping[str, Result]:
        """Return the outcome of each host by its name; with --check nothing is changed.

        What --check cannot know is UNKNOWN. An IpexctlError fails the step on all its hosts.
        """
        raise NotImplementedError
