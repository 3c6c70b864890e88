"""The options of `ipexctl install`, `bundle` and `stacks`, and the arguments of the step `install`
of plays."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ipexctl.base.option import option
from ipexctl.quick_dataclass import dataclass

if TYPE_CHECKING:
    from ipexctl.packages.indexes import Indexes
    from ipexctl.stack.version_table import Request

stack_option = partial(option, group="Stack")
packages_option = partial(option, group="Packages")
several_files = list[Path] | None  # the type that lets shells complete it


@dataclass(frozen=True)
class RowOptions:
    """The options that select a row of the version table."""

    torch: str = stack_option(
        "--torch VERSION", "PyTorch version: 2.13 or 2.13.0.", "", in_plays=True
    )
    ipex: str = stack_option(
        "--ipex [VERSION]",
        "Include IPEX, optionally at this version.",
        "",
        in_plays="Version of IPEX, or newest.",
    )
    backend: str = stack_option(
        "--backend NAME",
        "Collective backend: gloo, or ccl (with its bindings).",
        "",
        in_plays=True,
    )
    stack: str = stack_option(
        "--stack NAME", "Stack: stock (PyTorch without IPEX) or ipex.", "", in_plays=True
    )


@dataclass(frozen=True)
class PackageOptions(RowOptions):
    """The options that decide what is locked, and where it comes from."""

    mpi: str = stack_option(
        "--mpi NAME",
        "MPI: intel (the default without a lock file), mpich, openmpi, system (the hosts' own) or "
        "none.",
        "",
        in_plays=True,
    )
    python_from: str = packages_option(
        "--python-from FOLDER",
        "CPython to copy to the hosts, as `uv python install` makes one.",
        "",
        in_plays=True,
    )
    find_links: tuple[str, ...] = packages_option(
        "--find-links PLACE",
        "Folder or web page with wheels (repeatable).",
        (),
        in_plays="Folders or pages with wheels.",
    )
    index_url: str = packages_option(
        "--index-url URL", "Package index to use instead of the default.", "", in_plays=True
    )
    extra_index_url: tuple[str, ...] = packages_option(
        "--extra-index-url URL",
        "Additional package index (repeatable).",
        (),
        in_plays="Additional package indexes.",
    )
    requirements: tuple[str, ...] = packages_option(
        "-r --requirement FILE",
        "Also install the packages in this file or pyproject.toml.",
        (),
        typed=several_files,
        in_plays="Requirements files; an empty string: none.",
    )
    allow_cuda: bool = packages_option(
        "--allow-cuda", "Accept a CUDA build if there is no CPU build.", False, in_plays=True
    )


@dataclass(frozen=True)
class InstallOptions(PackageOptions):
    """The options, within each group in the order of the help."""

    python: str = stack_option(
        "--python PYTHON", "Python on the hosts: version (3.11) or path.", "", in_plays=True
    )
    use_env: str = stack_option(
        "--use-env DIR", "Use an existing venv or conda environment on the hosts, unchanged.", ""
    )
    relay: bool = packages_option(
        "--relay/--no-relay", "Let hosts pass files on to other hosts.", True, in_plays=True
    )
    bundle: str = packages_option(
        "--bundle FILE",
        "Take all files from this bundle; download nothing.",
        "",
        is_path=True,
        in_plays=True,
    )
    lock_sha256: str = packages_option(
        "--lock-sha256 SHA256", "Expected SHA-256 of the bundle's lock.", "", in_plays=True
    )
    upgrade: bool = option(
        "--upgrade", "Resolve again and take the newest versions that fit.", False, in_plays=True
    )
    rebuild: bool = option("--rebuild", "Rebuild the environment even if it is intact.", False)

    root: str = "~/.ipexctl"  # this and what follows are not options: the command sets them
    folder: Path = Path()  # where ipexctl.lock is
    dry_run: bool = False
    may_ask: bool = False  # whether to ask about a CUDA build if there is nothing else
    used: str = ""  # the environment that the project uses so far

    @property
    def selects_packages(self) -> bool:
        """Whether the options change what is installed, not only where it comes from."""
        others = self.python or self.python_from or self.requirements or self.allow_cuda
        return bool(self.request.names_a_stack or others or self.upgrade)

    @property
    def request(self) -> Request:
        from ipexctl.stack.version_table import Request

        return Request(self.torch, self.mpi, self.python, self.ipex, self.backend, self.stack)

    @property
    def indexes(self) -> Indexes:
        from ipexctl.packages.indexes import Indexes

        return Indexes(self.index_url, self.extra_index_url, self.find_links)

    @property
    def needs(self) -> tuple[Path, ...]:
        """The user's own requirements files."""
        return tuple(Path(name) for name in self.requirements if name)
