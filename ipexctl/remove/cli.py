"""The options of `remove` and `prune`."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ipexctl.cli.declared_command import command
from ipexctl.cli.options import Check, Json, Root, Yes, end_command, on_hosts

if TYPE_CHECKING:
    from ipexctl.remove.remove import Agreed, RemovalPlan


@command("Files", 30, habits="uninstall")
@on_hosts()
def remove(
    everything: Annotated[
        bool,
        typer.Option(
            "--all", help="Remove environments, runs with their results, datasets and caches."
        ),
    ] = False,
    here: Annotated[
        bool, typer.Option("--here", help="Also remove ipexctl's files on this machine.")
    ] = False,
    also: Annotated[
        list[str] | None,
        typer.Option(
            "--also",
            metavar="KIND",
            help="With --here, also remove keys, settings, labs or logs (repeatable).",
        ),
    ] = None,
    *,
    target: Any,
    root: Root = "~/.ipexctl",
    check: Check = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Remove everything that ipexctl put on the hosts.

    Examples:
      ipexctl remove --all --check
      ipexctl remove --all --here --also keys  # this machine's files as well
    """
    from ipexctl.errors import InputError
    from ipexctl.local.own_files import ASKED
    from ipexctl.remove.remove import Agreed, remove_all
    from ipexctl.remove.remove_text import removed_document, show_plan, show_removed
    from ipexctl.terminal.confirm import NOT_REMOVED, confirm
    from ipexctl.terminal.live_lines import without_live_lines
    from ipexctl.terminal.progress_view import ProgressView

    if not everything:
        raise InputError(
            "remove needs --all: it removes everything that ipexctl put on the hosts",
            hint="for less: ipexctl env rm KEY, ipexctl data rm NAME, or ipexctl prune",
            slug="option-missing",
        )
    kinds = tuple(also or ())
    if unknown := [kind for kind in kinds if kind not in ASKED]:
        raise InputError(
            f"--also {unknown[0]}: not one of {', '.join(ASKED)}", slug="unknown-value"
        )
    if kinds and not here:
        raise InputError(
            "--also needs --here", why="it names files on this machine", slug="option-missing"
        )

    @without_live_lines()
    def agreed(plan: RemovalPlan) -> Agreed:
        if yes:
            return Agreed(True, kinds)
        show_plan(plan)
        ask = partial(confirm, stdin=sys.stdin, interrupted=NOT_REMOVED)
        if not ask("Remove this? [y/N] "):
            return Agreed(False)
        open_kinds = [k for k in plan.here if not k.is_removed and k.kind not in kinds]
        chosen = [k.kind for k in open_kinds if ask(f"Also remove {k.what} here? [y/N] ")]
        return Agreed(True, (*kinds, *chosen))

    with ProgressView(quiet=json) as progress:
        report = remove_all(target, agreed, progress, root, here=here, check=check)
    end_command(report, removed_document, show_removed, json=json)


@command("Files", 20)
@on_hosts()
def prune(
    runs: Annotated[
        int | None,
        typer.Option(
            "--runs",
            metavar="N",
            min=1,
            help="Keep only the newest N runs; remove older ones with their results.",
        ),
    ] = None,
    *,
    target: Any,
    root: Root = "~/.ipexctl",
    check: Check = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Remove old runs, project copies and caches. Only what exceeds the configured limits goes.

    Examples:
      ipexctl prune --check
      ipexctl prune --runs 5 --yes             # keep the newest five runs
    """
    from ipexctl.remove.prune import prune as verb
    from ipexctl.remove.remove_text import pruned_document, show_prune_plan, show_pruned
    from ipexctl.terminal.confirm import removal_agreed
    from ipexctl.terminal.progress_view import ProgressView

    agreed = removal_agreed(show_prune_plan, yes=yes)
    with ProgressView(quiet=json) as progress:
        result = verb(target, agreed, progress, root, runs=runs, check=check)
    end_command(result, pruned_document, show_pruned, json=json)
