"""The options of `play`."""

from __future__ import annotations

from dataclasses import field

from ipexctl.base.option import option
from ipexctl.quick_dataclass import dataclass


@dataclass(frozen=True)
class PlayOptions:
    """The options, in the order of the help."""

    tags: tuple[str, ...] = option("-t --tags TAGS", "Run only steps with these tags.", ())
    skip_tags: tuple[str, ...] = option("--skip-tags TAGS", "Skip steps with these tags.", ())
    extra: dict[str, str] = option("-e --extra NAME=VALUE", "Set a variable (repeatable).", {})
    check: bool = option("-C --check", "Show what would change; change nothing.", False)
    diff: bool = option("-D --diff", "Show the changed lines in files.", False)
    first: str = option("--from --start-at-task STEP", "Start at this step (name or number).", "")
    resume: bool = option("--resume", "Skip `sh` and `run` steps that are already done.", False)
    # set by the command
    root: str = "~/.ipexctl"
    password: str = field(default="", repr=False)  # for sudo
