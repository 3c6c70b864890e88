"""The hosts of a command, as the user named them."""

from __future__ import annotations

from ipexctl.base.place import Place
from ipexctl.quick_dataclass import dataclass


@dataclass(frozen=True)
class Host:
    """One machine as the user named it. `name` is its name in all output.

    `port` 0 and `user` "" mean: not given here, ssh_config decides. `slots` 0 means: not given.
    `address` is what ssh connects to if it isn't the name. `python`, `nic` and `root` are set if
    this host differs from the others. `groups` has the parents of its groups, too.
    """

    name: str
    user: str = ""
    port: int = 0
    slots: int = 0
    local: bool = False
    place: Place | None = None
    address: str = ""
    python: str = ""
    nic: str = ""
    root: str = ""
    groups: tuple[str, ...] = ()
    vars: tuple[tuple[str, str], ...] = ()  # for plays: other commands ignore them


@dataclass(frozen=True)
class Inventory:
    """The hosts; `notes` tell the user what may have been meant differently than it was read."""

    hosts: tuple[Host, ...]
    source: str
    notes: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Host:
        return next(host for host in self.hosts if host.name == name)
