"""The installed software of a host, and the proxies of its account."""

from __future__ import annotations

from dataclasses import field

from ipexctl.base.values import by, plain
from ipexctl.facts.env_choice import EnvUsed
from ipexctl.facts.mpi_install_facts import Layout, MpiFolder
from ipexctl.facts.package_changes import PackageChange
from ipexctl.quick_dataclass import dataclass


@dataclass(frozen=True)
class Prefix:
    """A Python environment. `kind`: "ipexctl" is the one that `run` uses, "active" the one that a
    command over SSH finds."""

    path: str = field(metadata=by(plain, needed=True))
    kind: str
    python: str  # "3.11", "" unknown
    packages: tuple[tuple[str, str], ...]
    cuda: bool = False  # torch is a CUDA build
    omp: tuple[str, ...] = ()  # OpenMP libraries
    mpi: Layout | None = None  # None: no impi-rt in it
    ccl: bool | None = None  # libccl is there; None: no bindings

    def version(self, package: str) -> str:
        return next((v for name, v in self.packages if name == package), "")


@dataclass(frozen=True)
class Current:
    """The target of <root>/current; "" if nothing is installed but an install was begun."""

    prefix: str
    exists: bool
    whole: bool | None  # None: not one of ipexctl's own
    # packages changed by hand since it was built
    changed: tuple[PackageChange, ...] = ()
    wanted: str = ""  # the key of ipexctl.lock, if the host has no such environment
    environment: EnvUsed | None = None


@dataclass(frozen=True)
class SoftwareFacts:
    prefixes: tuple[Prefix, ...] = ()
    mpis: tuple[MpiFolder, ...] = ()
    # of proxies; None: set, but the value is not reported
    env: tuple[tuple[str, str | None], ...] = ()
    stale: int = 0  # files of dead MPI processes in /dev/shm
    stale_bytes: int = 0
    current: Current | None = None

    @property
    def used(self) -> Prefix | None:
        """The environment that `ipexctl run` would use."""
        return next((prefix for prefix in self.prefixes if prefix.kind == "ipexctl"), None)
