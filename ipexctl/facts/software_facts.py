"""What is installed on a host, and which proxies its account names.

Read by remote/facts/installed_software.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from ipexctl.base.values import listed, plain
from ipexctl.env.choice.env_choice import EnvUsed, read_used
from ipexctl.env.choice.package_changes import Change
from ipexctl.facts.reader import by
from ipexctl.quick_dataclass import dataclass


@dataclass(frozen=True)
class Layout:
    """The files of an Intel MPI that came as a wheel."""

    libmpi: bool
    libfabric: str  # its folder, "" if there is none
    providers: tuple[str, ...]
    absent: tuple[str, ...]  # programs that should be there


def _packages(value: Any) -> tuple[tuple[str, str], ...]:
    known = value if isinstance(value, Mapping) else {}
    pairs = ((plain(name), plain(version)) for name, version in known.items())
    return tuple(sorted((n, v) for n, v in pairs if n and v))


@dataclass(frozen=True)
class Prefix:
    """A Python environment. `kind`: "ipexctl" is the one that `run` uses, "active" the one that a
    command over SSH finds."""

    path: str = field(metadata=by(plain, needed=True))
    kind: str
    python: str  # "3.11", "" unknown
    packages: tuple[tuple[str, str], ...] = field(metadata=by(_packages))
    cuda: bool = False  # torch is a CUDA build
    omp: tuple[str, ...] = ()  # OpenMP libraries
    mpi: Layout | None = None  # None: no impi-rt in it
    ccl: bool | None = None  # libccl is there; None: no bindings

    def version(self, package: str) -> str:
        return next((v for name, v in self.packages if name == package), "")


@dataclass(frozen=True)
class MpiFolder:
    """A folder with an mpirun."""

    bin: str = field(metadata=by(plain, needed=True))
    not_run: tuple[str, ...] = ()  # programs without the x bit


@dataclass(frozen=True)
class Mpi:
    flavour: str  # intel, openmpi, mpich
    version: str
    bin: str

    def __str__(self) -> str:
        name = _NAMES.get(self.flavour, "an unknown MPI")
        return f"{name} {self.version}".strip()


_NAMES = {"intel": "Intel MPI", "openmpi": "Open MPI", "mpich": "MPICH"}


def _changes(value: Any) -> tuple[Change, ...]:
    words = [[plain(w) for w in listed(row)] for row in listed(value)]
    return tuple(Change(*row) for row in words if len(row) == 3 and row[0])


def _environment(value: Any) -> EnvUsed | None:
    try:
        return read_used(value)
    except ValueError:
        return None


@dataclass(frozen=True)
class Current:
    """What <root>/current points at; "" if nothing is installed but something was begun."""

    prefix: str
    exists: bool
    whole: bool | None  # None: not one of ipexctl's own
    # packages, by hand, since it was built
    changed: tuple[Change, ...] = field(default=(), metadata=by(_changes))
    wanted: str = ""  # the key of ipexctl.lock, where the host has no such environment
    environment: EnvUsed | None = field(default=None, metadata=by(_environment))


def _env(value: Any) -> tuple[tuple[str, str | None], ...]:
    known = value if isinstance(value, Mapping) else {}
    pairs = ((plain(n), None if v is None else plain(v)) for n, v in known.items())
    return tuple(sorted((n, v) for n, v in pairs if n))


@dataclass(frozen=True)
class SoftwareFacts:
    prefixes: tuple[Prefix, ...] = ()
    mpis: tuple[MpiFolder, ...] = ()
    # of proxies; None: set, its value is not told
    env: tuple[tuple[str, str | None], ...] = field(default=(), metadata=by(_env))
    stale: int = 0  # files of dead MPI processes in /dev/shm
    stale_bytes: int = 0
    current: Current | None = None

    @property
    def used(self) -> Prefix | None:
        """What `ipexctl run` would use."""
        return next((p for p in self.prefixes if p.kind == "ipexctl"), None)
