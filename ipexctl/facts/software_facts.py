"""What is installed on a host and what its environment says.

Read by remote/facts/installed_software.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ipexctl.base.values import count_or_none, listed, plain, record, texts
from ipexctl.env.choice.env_choice import EnvUsed, read_used
from ipexctl.env.choice.package_changes import Change
from ipexctl.quick_dataclass import dataclass


@dataclass(frozen=True)
class Layout:
    """The files of an Intel MPI that came as a wheel."""

    libmpi: bool
    libfabric: str  # its folder, "" if there is none
    providers: tuple[str, ...]
    absent: tuple[str, ...]  # programs that should be there


@dataclass(frozen=True)
class Prefix:
    """A Python environment. `kind`: "ipexctl" is the one that `run` uses, "active" the one that a
    command over SSH finds, "other" any further one."""

    path: str
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
class Mpi:
    flavour: str  # intel, openmpi, mpich, unknown
    version: str
    bin: str
    path: int | None  # its place in PATH
    not_run: tuple[str, ...] = ()  # programs without the x bit

    def __str__(self) -> str:
        name = _NAMES.get(self.flavour, "an unknown MPI")
        return f"{name} {self.version}".strip()


_NAMES = {"intel": "Intel MPI", "openmpi": "Open MPI", "mpich": "MPICH"}


@dataclass(frozen=True)
class Current:
    """What <root>/current points at; "" if nothing is installed but something was begun."""

    prefix: str
    exists: bool
    whole: bool | None  # None: not one of ipexctl's own
    left: int  # builds that were broken off
    changed: tuple[Change, ...] = ()  # packages, by hand, since it was built
    wanted: str = ""  # the key of ipexctl.lock, where the host has no such environment
    environment: EnvUsed | None = None


@dataclass(frozen=True)
class SoftwareFacts:
    prefixes: tuple[Prefix, ...] = ()
    mpis: tuple[Mpi, ...] = ()
    env: tuple[tuple[str, str | None], ...] = ()  # None: set, its value is not told
    missing: tuple[tuple[str, str], ...] = ()  # (variable, path) that does not exist
    shadows: tuple[tuple[str, str], ...] = ()  # (variable, path) that hides an environment's own
    startup: tuple[tuple[str, str], ...] = ()  # (file, line) that uses Intel's scripts
    accelerate: tuple[str, ...] = ()  # keys of its configuration, outer.inner
    accelerate_path: str = ""
    stale: int = 0  # files of dead MPI processes in /dev/shm
    stale_bytes: int = 0
    fabrics: tuple[str, ...] = ()
    current: Current | None = None

    @property
    def variables(self) -> dict[str, str]:
        """Those that are set to something we know."""
        return {name: value for name, value in self.env if value}

    @property
    def used(self) -> Prefix | None:
        """What `ipexctl run` would use."""
        return next((p for p in self.prefixes if p.kind == "ipexctl"), None)


def parse(raw: Any) -> SoftwareFacts | None:
    """None when the host did not look; odd parts are left out."""
    if not isinstance(raw, Mapping):
        return None
    env = raw.get("env")
    accelerate = raw.get("accelerate")
    accelerate = accelerate if isinstance(accelerate, Mapping) else {}
    stale = [count_or_none(n) or 0 for n in listed(raw.get("stale"))] + [0, 0]
    return record(
        SoftwareFacts,
        raw,
        prefixes=tuple(p for p in map(_prefix, listed(raw.get("prefixes"))) if p),
        mpis=tuple(m for m in map(_mpi, listed(raw.get("mpis"))) if m),
        env=_env(env) if isinstance(env, Mapping) else (),
        missing=_pairs(raw.get("missing")),
        shadows=_pairs(raw.get("shadows")),
        startup=_pairs(raw.get("startup")),
        accelerate=texts(accelerate.get("keys")),
        accelerate_path=plain(accelerate.get("path")),
        stale=stale[0],
        stale_bytes=stale[1],
        current=_current(raw.get("current")),
    )


def _prefix(raw: Any) -> Prefix | None:
    if not isinstance(raw, Mapping) or not plain(raw.get("path")):
        return None
    packages = raw.get("packages")
    packages = packages if isinstance(packages, Mapping) else {}
    pairs = ((plain(name), plain(version)) for name, version in packages.items())
    mpi = raw.get("mpi")
    return record(
        Prefix,
        raw,
        packages=tuple(sorted((n, v) for n, v in pairs if n and v)),
        mpi=_layout(mpi) if isinstance(mpi, Mapping) else None,
    )


def _layout(raw: Mapping[str, Any]) -> Layout:
    return record(Layout, raw, libfabric=next(iter(texts(raw.get("libfabric"))), ""))


def _mpi(raw: Any) -> Mpi | None:
    if not isinstance(raw, Mapping) or not plain(raw.get("bin")):
        return None
    return record(Mpi, raw)


def _current(raw: Any) -> Current | None:
    if not isinstance(raw, Mapping):
        return None
    return record(
        Current,
        raw,
        prefix=plain(raw.get("link")),
        left=count_or_none(raw.get("left")) or 0,
        changed=_changes(raw.get("changed")),
        environment=_environment(raw.get("environment")),
    )


def _environment(raw: Any) -> EnvUsed | None:
    try:
        return read_used(raw)
    except ValueError:
        return None


def _changes(raw: Any) -> tuple[Change, ...]:
    words = [[plain(w) for w in listed(row)] for row in listed(raw)]
    return tuple(Change(*row) for row in words if len(row) == 3 and row[0])


def _env(raw: Mapping[str, Any]) -> tuple[tuple[str, str | None], ...]:
    pairs = ((plain(n), None if v is None else plain(v)) for n, v in raw.items())
    return tuple(sorted((n, v) for n, v in pairs if n))


def _pairs(raw: Any) -> tuple[tuple[str, str], ...]:
    rows = (texts(row) for row in listed(raw))
    return tuple((row[0], row[1]) for row in rows if len(row) == 2)
