"""The options of `env ls`, `env diff`, `env exec` and `env rm`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ipexctl.cli.declared_command import command_group
from ipexctl.cli.options import Check, Json, Root, Yes, end_command, on_hosts


@command_group("Stack", 30)
def env() -> None:
    """Manage the environments on the hosts.

    Examples:
      ipexctl env ls
      ipexctl env exec -- python -c 'import torch; print(torch.__version__)'
    """


@env.command()
@on_hosts()
def ls(
    *,
    target: Any,
    root: Root = "~/.ipexctl",
    json: Json = False,
) -> None:
    """List the environments on each host, with sizes and projects.

    Examples:
      ipexctl env ls -f hosts
    """
    from ipexctl.env.env import list_envs
    from ipexctl.env.env_text import kept_document, show_kept

    listing = list_envs(target, root)
    end_command(listing, kept_document, show_kept, json=json)


@env.command()
@on_hosts()
def diff(
    full: Annotated[
        bool,
        typer.Option(
            "--full", help="Check every file, not only those with a new modification time."
        ),
    ] = False,
    *,
    target: Any,
    root: Root = "~/.ipexctl",
    json: Json = False,
) -> None:
    """Show manual changes since `install`, and differences between hosts.

    Examples:
      ipexctl env diff
      ipexctl env diff --full -l node1
    """
    from ipexctl.env.env import compare_environments
    from ipexctl.env.env_text import compared_document, show_compared

    compared = compare_environments(target, root, full=full)
    end_command(compared, compared_document, show_compared, json=json)


@env.command("exec", keeps_rest=True)
@on_hosts(names=False)
def exec_(
    command: Annotated[
        list[str], typer.Argument(metavar="COMMAND", help="Command to run, after --.")
    ],
    *,
    target: Any,
    root: Root = "~/.ipexctl",
    json: Json = False,
) -> None:
    """Run a command in the environment of every host.

    The command runs without a shell. For shell syntax, use: -- sh -c '...'

    Examples:
      ipexctl env exec -- python -c 'import torch; print(torch.__version__)'
      ipexctl env exec -l node1 -- sh -c 'env | sort'
    """
    from ipexctl.env.env_exec import run_in_env
    from ipexctl.env.env_text import CollectedLines, host_line_printer, ran_document, show_ran

    collected = CollectedLines()
    ran = run_in_env(target, command, collected if json else host_line_printer(), root)
    end_command(ran, lambda ran: ran_document(ran, collected), show_ran, json=json)


@env.command(
    interrupted="environments that are not removed yet are intact; run the same command again"
)
@on_hosts(names=False)
def rm(
    keys: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEYS", help="Environment keys, as shown by `ipexctl env ls`."),
    ] = None,
    unused: Annotated[
        bool, typer.Option("--unused", help="Remove every environment that no project needs.")
    ] = False,
    *,
    target: Any,
    root: Root = "~/.ipexctl",
    check: Check = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Remove environments, and wheels that no environment needs.

    The current and the previous environment are always kept.

    Examples:
      ipexctl env rm --unused --check
      ipexctl env rm 3f2a91c04d5e --yes
    """
    from ipexctl.env.env import remove_environments
    from ipexctl.env.env_text import removed_document, show_going, show_removed
    from ipexctl.errors import InputError
    from ipexctl.terminal.confirm import removal_agreed

    if bool(keys) == unused:
        raise InputError(
            "no environments given; name them, or use --unused",
            hint="ipexctl env ls",
            slug="env-missing",
        )

    agreed = removal_agreed(show_going, yes=yes)
    report = remove_environments(target, keys or (), None if check else agreed, root)
    end_command(report, removed_document, show_removed, json=json)
