"""Whether this machine can hold a lab; if not, one sentence that says what to do."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from ipexctl.errors import InputError, NotHere
from ipexctl.lab.config_text import PATH
from ipexctl.lab.lab_spec import LabSpec

_CAP_NET_ADMIN = 12
_CAP_SYS_ADMIN = 21
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
    if not _has_rights():
        raise NotHere(
            "a lab needs CAP_SYS_ADMIN and CAP_NET_ADMIN",
            why="this root is a container's, without the right to make namespaces",
            hint="start the container with --privileged",
        )
    _check_tools(spec, path)
    kinds = Path("/proc/filesystems")
    if not kinds.exists():
        raise NotHere("a lab needs /proc", hint="mount -t proc proc /proc")
    if "overlay" not in kinds.read_text().split():
        raise NotHere("a lab needs the overlay file system", hint="modprobe overlay")


def process(pid: int) -> int:
    """A descriptor that tells of the process's end. InputError where there is no such process."""
    try:
        if pid < 1:
            raise ProcessLookupError
        return os.pidfd_open(pid)
    except (OSError, OverflowError):
        raise InputError(
            f"--owner {pid}: there is no such process", hint="ipexctl lab up --owner $$"
        ) from None


def _has_rights() -> bool:
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    held = [int(line.split()[1], 16) for line in lines if line.startswith("CapEff:")]
    return all(mask >> bit & 1 for mask in held for bit in (_CAP_NET_ADMIN, _CAP_SYS_ADMIN))


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
