"""The command line that the user typed, for suggested commands."""

from __future__ import annotations

from ipexctl.quick_dataclass import dataclass


@dataclass(frozen=True)
class Typed:
    """Words of the command line; `script` are the script's. Empty if called from a program."""

    options: tuple[str, ...] = ()
    script: tuple[str, ...] = ()
