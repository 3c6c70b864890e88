"""Whether this machine can hold a lab; if not, one sentence that says what to do."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from ipexctl.errors import NotHere
from ipexctl.lab.spec import LabSpec
from ipexctl.lab.text import PATH

_PACKAGES = {
    "sshd": "openssh-server",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "mount": "mount",
}


def check(spec: LabSpec, *, platform: str = sys.platform, path: str = PATH) -> None:
    """NotHere unless a lab like `spec` can start on this machine."""
    if not platform.startswith("linux"):
        raise NotHere("a lab needs Linux", hint="run ipexctl lab in a Linux machine or VM")
    if os.geteuid() != 0:
        raise NotHere("a lab needs root", why="it makes network namespaces", hint="use sudo")
    _check_tools(spec, path)
    kinds = Path("/proc/filesystems")
    if not kinds.exists():
        raise NotHere("a lab needs /proc", hint="mount -t proc proc /proc")
    if "overlay" not in kinds.read_text().split():
        raise NotHere("a lab needs the overlay file system", hint="modprobe overlay")


def _check_tools(spec: LabSpec, path: str) -> None:
    wanted = dict(_PACKAGES)
    if spec.uplink or any(h.rate for h in spec.hosts):
        wanted["tc"] = "iproute2"
    if any(h.disk for h in spec.hosts):
        wanted["mkfs.ext4"] = "e2fsprogs"
    missing = [tool for tool in wanted if not shutil.which(tool, path=path)]
    if missing:
        packages = " ".join(sorted({wanted[tool] for tool in missing}))
        raise NotHere(f"a lab needs {', '.join(missing)}", hint=f"apt-get install -y {packages}")
