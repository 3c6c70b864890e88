"""An Accelerate config of a run step; the step's own arguments take precedence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path

from ipexctl.errors import InputError
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.script_files.accelerate_file import read_accelerate_file
from ipexctl.user_code.launchers.line_request import TypedOptions, merge_requests


@dataclass(frozen=True)
class ConfigOptions:
    """The values that the config adds."""

    n: int | None = None
    ppn: int | None = None
    env: Mapping[str, str] = field(default_factory=dict)


def config_options(
    path: Path, env: Mapping[str, str], counts: str, note: Callable[[str], None]
) -> ConfigOptions:
    """Read a config. `counts`: the step's own numbers of ranks, or "". The hosts are the play's."""
    step_options = TypedOptions(env=frozenset(env), hosts="the hosts of the play", counts=counts)
    merged = merge_requests((read_accelerate_file(path),), step_options)
    for text in merged.describe_conflicts():
        note(f"{path}: {text}")
    numbers: dict[str, int | None] = {"-n": None, "-ppn": None}
    added = {}
    for name, value in zip(merged.options[::2], merged.options[1::2], strict=True):
        if name == "--env":
            key, _, added[key] = value.partition("=")
        elif name in numbers and value.isdigit():
            numbers[name] = int(value)
        else:
            raise InputError(
                f"{path}: {name} {value} cannot be written into a play",
                slug="accelerate-option-unsupported",
            )
    return ConfigOptions(numbers["-n"], numbers["-ppn"], added)
