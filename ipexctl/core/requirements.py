"""What the user's project needs beside the stack: requirements files and pyproject.toml, as values.

Only what a package index or a folder of wheels can answer is taken: the hosts build nothing, and a
path or repository of this machine would mean nothing to the next one that reads the lock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Extra:
    requirements: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()


NOTHING = Extra()
