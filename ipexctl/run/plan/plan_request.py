"""The input of a plan: the user's request, and the facts of each host."""

from __future__ import annotations

from ipexctl.facts.facts import Facts
from ipexctl.inventory.inventory import Host
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.plan.launch import Prepared
from ipexctl.run.plan.run_options import Ports
from ipexctl.user_code.frameworks import Frameworks


@dataclass(frozen=True)
class RunRequest:
    argv: tuple[str, ...]  # script and its arguments, or -m module ...
    n: int | None = None
    ppn: int | None = None
    env: tuple[tuple[str, str], ...] = ()
    ports: Ports | None = None  # None: any
    secret: tuple[str, ...] = ()  # names of --secret-env
    frameworks: Frameworks = Frameworks()  # what the script's code uses
    roots: tuple[str, ...] = ()  # where its own packages lie, from where ranks start
    compress: str = "off"  # --compress


@dataclass(frozen=True)
class NicChoice:
    """The interface of a host that was chosen by measurement (run/network)."""

    nic: str
    address: str
    why: str


@dataclass(frozen=True)
class Share:
    """The part of the global batch of each rank of a host (run/shares)."""

    value: float
    why: str


@dataclass(frozen=True)
class Node:
    """A host with all that is known about it."""

    host: Host
    facts: Facts
    prepared: Prepared
    measured: NicChoice | None = None  # None: the one through which the others reach it over SSH
    share: Share | None = None  # None: the script does not ask for it
