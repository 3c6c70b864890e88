"""A list of hosts as a table and for --json, and the question of `init`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from ipexctl.cli.streams import print_error
from ipexctl.errors import InputError
from ipexctl.hosts.init import InitReport
from ipexctl.hosts.trust import ShownKey, TrustReport
from ipexctl.inventory.hostfile_formats import group_members
from ipexctl.inventory.hostfile_text import fold
from ipexctl.inventory.inventory import Host, Inventory
from ipexctl.local.settings_file import Setting
from ipexctl.terminal.confirm import confirm

_COLUMNS = ("name", "address", "port", "user", "slots", "nic", "python", "root", "groups")


def hosts_table(hosts: Inventory) -> str:
    """Return a table with only the columns that some host has a value for."""
    shown = [c for c in _COLUMNS if c == "name" or any(getattr(h, c) for h in hosts.hosts)]
    rows = [[c.upper() for c in shown], *([_host_cell(h, c) for c in shown] for h in hosts.hosts)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(shown))]
    lines = ("  ".join(f"{cell:{w}}" for cell, w in zip(row, widths, strict=True)) for row in rows)
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _host_cell(host: Host, column: str) -> str:
    value = getattr(host, column)
    return ",".join(value) if isinstance(value, tuple) else str(value or "-")


def settings_text(settings: Mapping[str, Setting], *, show_origin: bool = False) -> str:
    """Return one line for each setting, as ipexctl.toml could have it."""
    lines = []
    for key, setting in settings.items():
        value = [*setting.value] if isinstance(setting.value, tuple) else setting.value
        value = value if isinstance(value, int) else repr(value)
        lines.append(f"{key} = {value}" + (f"   # {setting.origin}" if show_origin else ""))
    return (
        "".join(f"{line}\n" for line in lines)
        or "# no settings; ipexctl init writes ipexctl.toml\n"
    )


def ask_overwrite(paths: Sequence[Path], stdin: TextIO, out: TextIO) -> bool:
    names = " and ".join(str(path) for path in paths)
    return confirm(f"Replace {names}? [y/N] ", stdin, out=out)


def show_started(report: InitReport) -> None:
    for down in report.down:
        print_error(down.what, "", down.hint)
    total = len(report.hosts.hosts)
    answered, noun = total - len(report.down), "host" if total == 1 else "hosts"
    if report.settings:
        subject = f"{report.settings} names {report.adopted} ({total} {noun})"
        print(f"{subject}; nothing was written")
        print("next: ipexctl doctor")
        return
    if not report.written:
        print("no host answered; nothing was written", file=sys.stderr)
        return
    written = " and ".join(str(path) for path in report.written)
    if report.adopted:
        answer = f", {answered} answered" if report.down else ""
        print(f"{written} names {report.adopted} ({total} {noun}{answer})")
    else:
        print(f"{answered} of {total} {noun} written; see {written}")
    if report.untrusted:
        names = fold(down.host for down in report.untrusted)
        print(f"the host keys of {names} are not trusted yet")
    print("next: ipexctl trust" if report.untrusted else "next: ipexctl doctor")


def hosts_document(hosts: Inventory) -> dict[str, Any]:
    """Return a JSON document; values that are not given are "" or 0."""
    return {
        "command": "hosts",
        "source": hosts.source,
        "hosts": [
            {column: getattr(host, column) for column in (*_COLUMNS, "local")}
            | {"place": str(host.place) if host.place else ""}
            for host in hosts.hosts
        ],
        "groups": {group: list(names) for group, names in group_members(hosts).items()},
        "notes": list(hosts.notes),
    }


# --- host keys -----------------------------------------------------------------------------------


def key_table(keys: Sequence[ShownKey]) -> str:
    """Return one line per host."""
    names = max((len(key.host) for key in keys), default=0)
    types = max((len(key.key_type) for key in keys), default=0)
    return "".join(
        f"{k.host:{names}}  {k.key_type:{types}}  {k.fingerprint}  {k.state}\n" for k in keys
    )


def trust_document(report: TrustReport) -> dict[str, object]:
    return {
        "keys": [vars(key) for key in report.keys],
        "unreachable": [vars(down) for down in report.downs],
    }


def ask_keys(keys: Sequence[ShownKey], stdin: TextIO, out: TextIO) -> bool:
    """Show the new keys and ask for confirmation. Raises InputError without a terminal."""
    print(key_table(keys), end="", file=out)
    refusal = InputError(
        f"cannot ask about new host keys ({len(keys)}): stdin is not a terminal",
        why="compare with `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` on each host",
        hint="-y accepts them without asking",
        slug="no-terminal",
    ).with_meant("", "-y")
    return confirm("Are these the keys of your hosts? [yes/no] ", stdin, refusal, out)
