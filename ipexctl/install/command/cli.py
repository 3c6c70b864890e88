"""The options of `install`, `stacks` and `bundle`."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from ipexctl.base import quoting
from ipexctl.base.option import options_of
from ipexctl.cli.declared_command import command
from ipexctl.cli.help_layout import output_option
from ipexctl.cli.options import (
    Json,
    Root,
    Yes,
    end_command,
    on_hosts,
    print_json,
    print_note,
    project_lock_folder,
)
from ipexctl.install.install_options import (
    InstallOptions,
    PackageOptions,
    RowOptions,
    stack_option,
)
from ipexctl.quick_dataclass import dataclass

if TYPE_CHECKING:
    from ipexctl.install.bundle import Bundled


@dataclass(frozen=True)
class DescribedHost:
    """What a user says of hosts that are not asked."""

    python: str = stack_option(
        "--python VERSION", "Python version on the hosts, for example 3.11.", ""
    )
    isa: str = stack_option(
        "--isa ISA", "Instruction set: x86-64-v2, avx2, avx512, avx512-bf16 or amx.", ""
    )
    glibc: str = stack_option(
        "--glibc VERSION", "glibc version on the hosts, for example 2.28.", ""
    )
    arch: str = stack_option("--arch ARCH", "CPU architecture: x86_64 or aarch64.", "")


def bare_ipex(args: list[str]) -> list[str]:
    """Rewrite `--ipex` without a version to a form that Click accepts."""
    out = []
    for word, following in zip(args, [*args[1:], "-"], strict=True):
        bare = word == "--ipex" and not following[:1].isdigit() and following != "newest"
        out.append("--ipex=newest" if bare else word)
    return out


@command(
    "Start here",
    30,
    habits="upgrade=--upgrade update=--upgrade",
    interrupted="the hosts keep the environment they had; run the same command again",
    spelled=bare_ipex,
)
@on_hosts()
def install(
    *,
    target: Any,
    root: Root = "~/.ipexctl",
    options: InstallOptions,
    rollback: Annotated[
        bool, typer.Option("--rollback", help="Return to the previous environment.")
    ] = False,
    check: Annotated[bool, typer.Option("--check", help="Show the plan; change nothing.")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Show which packages change.")] = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Install PyTorch and MPI on every host.

    Every host gets the same locked, hash-checked files. A new environment is tested on each host
    before it becomes the current one.

    Examples:
      ipexctl install -f hosts
      ipexctl install -f hosts --torch 2.13 --mpi openmpi --check
      ipexctl install -f hosts -r requirements.txt
      ipexctl install -f hosts --rollback      # return to the previous environment
    """
    from ipexctl.errors import InputError
    from ipexctl.install.command.install_forecast import show_forecast
    from ipexctl.install.command.install_text import (
        chosen_text,
        install_document,
        install_question,
        show_difference,
        show_install,
    )
    from ipexctl.install.install import install as verb
    from ipexctl.install.install_plan import Plan
    from ipexctl.local.project_lock import choice_here
    from ipexctl.terminal.confirm import confirm
    from ipexctl.terminal.console import stderr_console
    from ipexctl.terminal.live_lines import without_live_lines
    from ipexctl.terminal.progress_view import ProgressView

    if rollback and options.selects_packages:
        raise InputError(
            "--rollback cannot be combined with options that select a stack",
            why="it returns to the hosts' previous environment",
            slug="options-conflict",
        )
    if options.use_env and (
        options.selects_packages or options.bundle or rollback or options.rebuild
    ):
        raise InputError(
            "--use-env cannot be combined with options that select packages",
            why="nothing is installed: the environment is used as it is",
            slug="options-conflict",
        )
    silent = yes or check or json
    view = ProgressView(quiet=json)

    def chosen(plan: Plan) -> None:
        view.hosts = plan.hosts
        view.say(chosen_text(plan))

    @without_live_lines()
    def agreed(plan: Plan) -> bool:
        if diff and not json:
            show_difference(plan)
        if yes or check:
            return True
        show_forecast(plan, stderr_console())
        return confirm(install_question(plan), sys.stdin)

    request = replace(
        options,
        root=root,
        folder=project_lock_folder(),
        dry_run=check,
        may_ask=not silent and sys.stdin.isatty(),
        used=choice_here().key,
    )
    if rollback:
        _rollback(target, root, check=check, json=json)
    if options.use_env:
        system = options.mpi == "system"
        _use_env(target, options.use_env, root, system=system, check=check, json=json)
    with view as progress:
        report = verb(target, request, replace(progress, chosen=chosen, agreed=agreed))
    if not target.hostfile and any(map(_may_be_package, report.recaps)):
        print_note(
            "to install a Python package: ipexctl install -r FILE   # FILE lists the packages"
        )
    end_command(report, install_document, show_install, json=json)


def _may_be_package(recap: Any) -> bool:
    """Recognise `ipexctl install einops`, where no host has that name."""
    unknown = "cannot be resolved" in recap.detail
    return unknown and re.fullmatch("[A-Za-z_-]+", recap.host) is not None


def _rollback(target: Any, root: str, *, check: bool, json: bool) -> NoReturn:
    from ipexctl.install.command.install_text import back_document, show_back
    from ipexctl.install.rollback import rollback

    back = rollback(target, root, check=check)
    end_command(back, back_document, show_back, json=json)


def _use_env(
    target: Any, folder: str, root: str, *, system: bool, check: bool, json: bool
) -> NoReturn:
    from ipexctl.install.command.install_text import show_used_env, used_env_document
    from ipexctl.install.use_env import use_env as verb
    from ipexctl.terminal.progress_view import ProgressView

    with ProgressView(quiet=json) as progress:
        report = verb(target, folder, root, progress, system_mpi=system, check=check)
    end_command(report, used_env_document, show_used_env, json=json)


@command("Stack", 10, asks=False, spelled=bare_ipex)
@on_hosts()
def stacks(
    *,
    host: DescribedHost,
    row: RowOptions,
    json: Json = False,
    verbose: Annotated[
        bool,
        output_option("-v", "--verbose", help="Also show what has not been tested in each row."),
    ] = False,
) -> None:
    """Show the supported versions: which fit, and why others do not.

    Options describe the hosts, and what to install on them.

    Examples:
      ipexctl stacks
      ipexctl stacks --python 3.9 --isa avx2   # what fits such hosts
    """
    from ipexctl.errors import EXIT_NOTHING_FITS
    from ipexctl.install.command.stacks_text import stack_table_text, stacks_document
    from ipexctl.local.corrected_command import corrected_command
    from ipexctl.local.shipped_tables import stack_rows
    from ipexctl.stack import table_view
    from ipexctl.stack.selection import check_request
    from ipexctl.stack.version_table import Request

    request = check_request(
        Request(torch=row.torch, ipex=row.ipex, backend=row.backend, stack=row.stack)
    )
    described = table_view.as_host(host.python, host.isa, host.glibc, host.arch)
    offers = table_view.stack_offers(stack_rows(), described, request)
    fits = any(not offer.reasons for offer in offers)
    if json:
        print_json(stacks_document(offers))
    else:
        near = table_view.nearest_fitting_torch(stack_rows(), described, request)
        instead = corrected_command(sys.argv[1:], request.torch, near) if near else ""
        print(stack_table_text(offers, verbose=verbose, instead=instead), end="")
    raise typer.Exit(0 if fits else EXIT_NOTHING_FITS)


@command("Stack", 20, asks=False, spelled=bare_ipex)
@on_hosts(only={DescribedHost: ("python", "glibc", "arch")})
def bundle(
    out: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="FILE", help="Output file (default: ipexctl-KEY.tar)."
        ),
    ] = None,
    *,
    host: DescribedHost,
    options: PackageOptions,
    json: Json = False,
) -> None:
    """Pack everything in ipexctl.lock into one file for offline hosts.

    Examples:
      ipexctl bundle -o stack.tar
      ipexctl bundle --python 3.11 --glibc 2.28 --torch 2.13
      ipexctl install -f hosts --bundle stack.tar
    """
    from ipexctl.install.bundle import bundle as verb
    from ipexctl.terminal.progress_view import ProgressView

    values = {name: getattr(options, name) for name in options_of(PackageOptions)}
    request = InstallOptions(**values, python=host.python, folder=project_lock_folder())
    with ProgressView(quiet=json) as progress:
        bundled = verb(request, host.glibc, host.arch, out, progress)
    if json:
        print_json(bundle_document(bundled))
    else:
        print(bundle_text(bundled), end="")


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


def bundle_document(bundled: Bundled) -> dict[str, Any]:
    """Return the document that --json prints."""
    lock = bundled.lock
    return {
        "bundle": str(bundled.path),
        "bytes": bundled.size,
        "files": len(lock.files),
        "environment": lock.key,
        "row": lock.row,
        "torch": lock.version("torch"),
        "python": lock.python,
        "platform": lock.platform,
        "lock_sha256": bundled.lock_sha256,
        "new_lock": bundled.new_lock,
        "bytes_fetched": bundled.fetched,
    }
