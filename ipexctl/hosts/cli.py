"""The options of `hosts`, `init`, `config` and `trust`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ipexctl.cli.declared_command import command
from ipexctl.cli.options import HostOptions, Json, declare_option, on_hosts, print_json, print_note
from ipexctl.cli.streams import print_error
from ipexctl.errors import unknown_value


@command("Hosts", 10)
@on_hosts("ssh_config", "ask_pass", "transport", "forks")
def hosts(
    *,
    target: Any,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="FORMAT",
            help="Print the hosts in this format: hostfile or ansible.",
        ),
    ] = "",
    list_: Annotated[
        bool, typer.Option("--list", help="Print only the names, one per line.")
    ] = False,
    json: Json = False,
) -> None:
    """List the hosts in a hostfile, or convert it to another format.

    Examples:
      ipexctl hosts -f hosts
      ipexctl hosts -f hosts --to ansible
    """
    from ipexctl.hosts.hosts_text import hosts_document, hosts_table
    from ipexctl.inventory.hostfile_formats import FORMS, render_inventory
    from ipexctl.machines.target import read_inventory

    if to and to not in FORMS:
        raise unknown_value("--to", to, FORMS)
    found = read_inventory(target)
    if to:
        rendered = render_inventory(found, to)
        for text in rendered.notes:
            print_note(text)
        print(rendered.text, end="")
        return
    if json:
        print_json(hosts_document(found))
    else:
        print("".join(f"{h.name}\n" for h in found.hosts) if list_ else hosts_table(found), end="")


@command("Start here", 10, asks=False)
def init(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="HOSTS", help="Host names, unless the folder has a hostfile or -y is given."
        ),
    ] = None,
    ssh_config: Annotated[Path | None, declare_option(HostOptions, "ssh_config")] = None,
    forks: Annotated[int, declare_option(HostOptions, "forks")] = 64,
    probe: Annotated[bool, typer.Option(help="Log in to each host first.")] = True,
    yes: Annotated[
        bool,
        typer.Option(
            "-y",
            "--yes",
            help="Use the hostfile in this folder, or else all hosts in the SSH configuration.",
        ),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
    user: Annotated[
        bool,
        typer.Option("--user", help="Write your own settings instead: hosts for all projects."),
    ] = False,
) -> None:
    """Write a hostfile and ipexctl.toml in this folder.

    Examples:
      ipexctl init node1 node2
      ipexctl init --yes -F lab/ssh_config     # all hosts in this file
      ipexctl init --user node1 node2          # for all your projects
    """
    from ipexctl.hosts.hosts_text import ask_overwrite, show_started
    from ipexctl.hosts.init import InitOptions
    from ipexctl.hosts.init import init as verb
    from ipexctl.local.accepted_settings import accept_proposal, find_proposal
    from ipexctl.local.settings import load_settings
    from ipexctl.local.user_dirs import config_dir
    from ipexctl.machines.target import Target

    interactive = sys.stdin.isatty()
    folder = config_dir() if user else Path()
    report = verb(
        Target(None, tuple(names or ()), ssh_config, forks, note=print_note),
        InitOptions(folder, probe=probe, yes=yes, force=force, user=user),
        (lambda paths: ask_overwrite(paths, sys.stdin, sys.stderr)) if interactive else None,
    )
    if not user and report.written and (proposed := find_proposal(load_settings())):
        accept_proposal(proposed)
    show_started(report)
    raise typer.Exit(report.exit_code)


@command("More", 40, asks=False)
def config(
    show_origin: Annotated[
        bool, typer.Option("--show-origin", help="Show where each setting comes from.")
    ] = False,
    accept: Annotated[
        bool, typer.Option("--accept", help="Accept the hosts and SSH settings of this project.")
    ] = False,
    json: Json = False,
) -> None:
    """Show the settings and where each one comes from.

    They are set in ipexctl.toml, your config.toml and the environment.

    Examples:
      ipexctl config --show-origin
      ipexctl config --accept
    """
    from ipexctl.hosts.hosts_text import settings_text
    from ipexctl.local import accepted_settings
    from ipexctl.local.settings import load_settings, settings_document

    settings = load_settings()
    proposed = accepted_settings.find_proposal(settings)
    if accept and proposed:
        accepted_settings.accept_proposal(proposed)
        print_note(f"accepted: {', '.join(s.key for s in proposed.settings)} of {proposed.project}")
    elif proposed and not accepted_settings.is_accepted(proposed):
        print_note(accepted_settings.refusal_error(proposed).what)
    if json:
        print_json(settings_document(settings))
    else:
        print(settings_text(settings, show_origin=show_origin), end="")


@command("Hosts", 20)
@on_hosts("transport")
def trust(
    *,
    target: Any,
    yes: Annotated[
        bool, typer.Option("-y", "--yes", help="Accept new keys without asking.")
    ] = False,
    json: Json = False,
) -> None:
    """Show the hosts' SSH keys and remember the ones you accept.

    Examples:
      ipexctl trust -f hosts
      ipexctl trust -H node1,node2 --yes       # accept new keys without asking
    """
    from ipexctl.hosts.hosts_text import ask_keys, key_table, trust_document
    from ipexctl.hosts.trust import trust as verb

    report = verb(target, lambda keys: yes or ask_keys(keys, sys.stdin, sys.stderr))
    if json:
        print_json(trust_document(report))
    else:
        print(key_table(report.keys), end="")
        if not report.keys and not report.downs:
            print_note(
                "no hosts to trust: this machine alone needs no host key; name hosts with -f or -H"
            )
    for down in report.downs:
        print_error(down.what, down.why, down.hint)
    raise typer.Exit(report.exit_code)
