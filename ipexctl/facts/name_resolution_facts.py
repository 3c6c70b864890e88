"""The name servers of a host."""

from __future__ import annotations

from dataclasses import field

from ipexctl.base.values import by, command_safe_name
from ipexctl.quick_dataclass import dataclass


@dataclass(frozen=True)
class NameServer:
    """`said`: why it did not respond, or its error."""

    address: str = field(metadata=by(command_safe_name, needed=True))
    configured: bool  # False: the local one, which is used if none is named
    responds: bool
    said: str = ""
