"""What setvars.sh of the oneCCL bindings sets, laid below our own settings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

Pairs = tuple[tuple[str, str], ...]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_LISTS = ("PATH", "LD_LIBRARY_PATH")


def checked(said: object) -> Mapping[str, str]:
    """Raises ValueError: this comes from a host, and goes into every process there."""
    if not isinstance(said, dict):
        raise ValueError("nothing about setvars.sh")
    for name, value in said.items():
        if not _NAME.match(name) or not isinstance(value, str) or "\0" in value:
            raise ValueError(f"setvars.sh sets {name!r}, which is not a variable")
    return said


def merged(ours: Sequence[tuple[str, str]], found: Mapping[str, str]) -> Pairs:
    """Ours win; of lists of folders ours come first.

    The script points at the MPI that the bindings carry, while mpirun is the environment's own:
    the ranks must load the library that belongs to it. The carried providers are of the carried
    libfabric, so with an Intel MPI of our own they stay out; from 2021.15 on it needs none named.
    """
    own = dict(ours)
    carried = {"FI_PROVIDER_PATH"} if "I_MPI_ROOT" in own else set()
    below = {name: value for name, value in found.items() if name not in carried}
    both = {n: f"{own[n]}:{below[n]}" for n in _LISTS if own.get(n) and below.get(n)}
    return tuple({**below, **own, **both}.items())
