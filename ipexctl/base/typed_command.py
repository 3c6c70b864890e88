"""The command line that the user typed, for the commands that are suggested."""

from __future__ import annotations

from ipexctl.quick_dataclass import dataclass


@dataclass(frozen=True)
class Typed:
    """Words of the command line; those of the script are its own. Empty: called from a program."""

    options: tuple[str, ...] = ()
    script: tuple[str, ...] = ()
