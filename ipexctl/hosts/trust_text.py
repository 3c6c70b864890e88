"""Host keys as a table, and the question whether they are right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from ipexctl.base.host_outcome import HostDown
from ipexctl.errors import InputError
from ipexctl.hosts.trust import ShownKey, TrustReport
from ipexctl.terminal.confirm import confirm


def show(report: TrustReport, out: TextIO) -> None:
    """The keys, one line per host."""
    print(table(report.keys), end="", file=out)


def table(keys: Sequence[ShownKey]) -> str:
    names = max((len(key.host) for key in keys), default=0)
    types = max((len(key.key_type) for key in keys), default=0)
    return "".join(
        f"{k.host:{names}}  {k.key_type:{types}}  {k.fingerprint}  {k.state}\n" for k in keys
    )


def show_downs(downs: Sequence[HostDown], err: TextIO) -> None:
    for down in downs:
        print(f"ipexctl: {down.what}", file=err)
        for label, text in (("why", down.why), ("try", down.hint)):
            for i, line in enumerate(text.splitlines()):
                print(f"  {label + ':' if i == 0 else '':5}{line}", file=err)


def document(report: TrustReport) -> dict[str, object]:
    return {
        "schema_version": 1,
        "keys": [vars(key) for key in report.keys],
        "unreachable": [vars(down) for down in report.downs],
    }


def ask(keys: Sequence[ShownKey], asked: TextIO, out: TextIO) -> bool:
    """Shows the new keys and asks for confirmation; without a terminal, raises InputError."""
    print(table(keys), end="", file=out)
    refusal = InputError(
        f"cannot ask about new host keys ({len(keys)}): stdin is not a terminal",
        why="compare with `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` on each host",
        hint="the same command with -y accepts them",
        slug="no-terminal",
    )
    return confirm("Are these the keys of your hosts? [yes/no] ", asked, refusal, out)
