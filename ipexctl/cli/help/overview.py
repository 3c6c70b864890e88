"""What `ipexctl` alone shows: the first commands, then where the others are."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping

PURPOSE = "Run PyTorch training on several Linux CPU machines that you reach over SSH."
FIRST = (
    ("init node1 node2", "write a hostfile for your hosts"),
    ("doctor", "check every host, and show how to fix what is wrong"),
    ("install", "install PyTorch and MPI on every host"),
    ("run train.py", "run a PyTorch script on every host"),
)
PRACTICE = "No hosts yet? `ipexctl lab up` starts three practice hosts on this machine."
MORE = "`ipexctl --help` lists all commands, `ipexctl COMMAND --help` explains one."


def overview(groups: Mapping[str, Iterable[str]]) -> str:
    (first, _), *others = groups.items()
    return "\n".join(
        [
            PURPOSE,
            "",
            f"{first}:",
            *(f"  ipexctl {words:<18} {text}" for words, text in FIRST),
            "",
            PRACTICE,
            "",
            "Other commands:",
            *(
                textwrap.fill(f"  {title:<8} {', '.join(names)}", 80, subsequent_indent=" " * 11)
                for title, names in others
            ),
            "",
            MORE,
        ]
    )
