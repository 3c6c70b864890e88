"""What can be done to a host, and undone."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ipexctl.lab.watchdog import Watchdog


def fault(dog: Watchdog, name: str, kind: str) -> None: ...


def heal(dog: Watchdog, name: str) -> None: ...
