"""The name of a dataset, its variable, and the hint to make a folder one."""

from __future__ import annotations

import posixpath
import re

from ipexctl.base import quoting


def data_variable_name(name: str) -> str:
    return "IPEXCTL_DATA_" + re.sub(r"[^A-Z0-9]", "_", name.upper())


def data_name(folder: str) -> str:
    """Return a name for the data of this folder."""
    name = re.sub(r"[^A-Za-z0-9._-]", "-", posixpath.basename(folder.rstrip("/"))).lstrip("._-")
    return name[:64] or "data"


def push_hint(folder: str, name: str) -> str:
    """Return how to give the ranks a folder that is too large to send with each run."""
    push = quoting.quote_for_pasting(("ipexctl", "data", "push", folder, "--as", name))
    return (
        f"{push}, then ipexctl run --data {name} ... with ${data_variable_name(name)} as its path"
    )
