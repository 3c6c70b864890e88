"""Made /proc/cpuinfo and /sys/devices/system trees for hosts with another shape."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ipexctl.lab.spec import HostSpec


def covers(spec: HostSpec) -> dict[str, dict[str, str]]:
    """Path on the host -> the texts of a folder ({"": text} for a plain file) to lay over it."""
    return {}


def write(folder: Path, wanted: Mapping[str, Mapping[str, str]]) -> dict[str, Path]:
    return {}
