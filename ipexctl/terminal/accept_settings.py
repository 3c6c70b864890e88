"""What a project proposes, and the question whether to use it."""

from __future__ import annotations

import sys
from typing import TextIO

from ipexctl.errors import printable
from ipexctl.local.accepted_settings import Proposal, refusal
from ipexctl.terminal.confirm import confirm

_WHAT = {
    "hostfile": "these hosts receive your code and the secrets that you pass",
    "ssh_config": "ssh runs the programs that it names",
    "root": "folder on the hosts",
}


def ask(proposed: Proposal, stdin: TextIO) -> bool:
    """On stderr: stdout may be a JSON document."""
    print(f"{printable(proposed.project)} sets", file=sys.stderr)
    for setting in proposed.settings:
        print(f"  {setting.key:<11} {printable(setting.value)}", file=sys.stderr)
        print(f"  {'':<11} {_WHAT[setting.key]}", file=sys.stderr)
    question = (
        "Accept these settings? You will be asked again if they or these files change. [y/N] "
    )
    return confirm(question, stdin, refusal(proposed))
