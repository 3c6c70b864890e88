"""The MPI installations of a host."""

from __future__ import annotations

from dataclasses import field

from ipexctl.base.values import by, plain
from ipexctl.quick_dataclass import dataclass


@dataclass(frozen=True)
class Layout:
    """The files of an Intel MPI that was installed as a wheel."""

    libmpi: bool
    libfabric: str  # its folder, "" if there is none
    providers: tuple[str, ...]
    absent: tuple[str, ...]  # programs that should be there


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
