"""The options of bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
    from ipexctl.install.command.bundle_text import document, text
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
        print_json(document(made))
    else:
        print(text(made), end="")
