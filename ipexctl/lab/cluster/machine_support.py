"""How real a lab this machine can run; if none, a sentence that says what to do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from ipexctl.errors import InputError, NotHere
from ipexctl.lab.cluster import rung_limits
from ipexctl.lab.cluster.config_text import PATH
from ipexctl.lab.cluster.lab_spec import LabSpec
from ipexctl.lab.cluster.processes import PYTHON_ENV

_CAP_NET_ADMIN = 12
_CAP_SYS_ADMIN = 21
_PACKAGES = {"sshd": "openssh-server", "ssh": "openssh-client", "ssh-keygen": "openssh-client"}
_FOR_NAMESPACES = {
    "ip": "iproute2",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "mount": "mount",
}
# The first steps of a host of the user rung, in a process of its own: only a trial can tell.
_TRY = """
import os, sys
from ipexctl.lab.cluster import linux
linux.own_user()
linux.unshare(linux.CLONE_NEWNET | linux.CLONE_NEWUTS | linux.CLONE_NEWIPC)
child = linux.fork_into_new_pids()
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
try:
    linux.own_mounts()
    linux.mount("proc", "/proc", "proc")
    linux.mount("sysfs", "/sys", "sysfs")
    linux.mount("tmp", "/tmp", "tmpfs")
    os._exit(os.system("ip link add a type veth peer name b && unshare --user --map-user=5 true"))
except OSError as error:
    print(error, file=sys.stderr, flush=True)
finally:
    os._exit(1)
"""


def choose_rung(
    spec: LabSpec, rung: str = "", *, platform: str = sys.platform, path: str = PATH
) -> str:
    """Return the best rung for a lab like `spec`, or the requested one; NotHere if impossible."""
    rung_limits.check_rung(rung)
    if not platform.startswith("linux"):
        raise NotHere(
            "a lab needs Linux",
            hint="run ipexctl lab on a Linux machine or in a Linux VM",
            slug="not-linux",
        )
    missing, packages = _missing(_PACKAGES, path)
    if missing:
        raise NotHere(
            f"a lab needs {missing}",
            hint=f"apt-get install -y {packages}",
            slug="lab-tools-missing",
        )
    if not os.path.exists("/proc/self"):
        raise NotHere("a lab needs /proc", hint="mount -t proc proc /proc", slug="proc-missing")
    for candidate in [rung] if rung else rung_limits.RUNGS:
        if not (reason := why_not(candidate, spec, path)):
            return candidate
    raise NotHere(
        f"a lab on the {rung} rung cannot start here", why=reason, slug="rung-unavailable"
    )


def why_not(rung: str, spec: LabSpec, path: str = PATH) -> str:
    """Return why the rung is not possible here; "" if it is."""
    if rung == rung_limits.FLAT:
        return ""
    if rung == rung_limits.FULL and os.geteuid():
        return "it needs root"
    if rung == rung_limits.FULL and not _has_rights():
        return "this root lacks CAP_SYS_ADMIN or CAP_NET_ADMIN, as in a container"
    missing, packages = _missing(_tools(spec), path)
    if missing:
        return f"it needs {missing} (apt-get install -y {packages})"
    if rung == rung_limits.USER:
        return _refusal(_TRY)
    if "overlay" not in Path("/proc/filesystems").read_text().split():
        return "the kernel has no overlay file system (modprobe overlay)"
    return _refusal("from ipexctl.lab.cluster import linux\nlinux.own_mounts()")


@lru_cache
def _refusal(script: str) -> str:
    """Return the last line of the error output of a process that tries it; "" if it works."""
    try:
        result = subprocess.run(
            [sys.executable, "-c", script],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=PYTHON_ENV,
            cwd="/",  # Python would import modules of the current folder
        )
    except OSError as error:
        return f"it needs {sys.executable}: {error.strerror}"
    if not result.returncode:
        return ""
    last = result.stderr.strip().splitlines()[-1:] or [f"exit {result.returncode}"]
    return f"the kernel refused: {last[0].rpartition('] ')[2]}"


def open_process_fd(pid: int) -> int:
    """Return a descriptor that signals the process's end. InputError if there is none."""
    try:
        if pid < 1:
            raise ProcessLookupError
        return os.pidfd_open(pid)
    except (OSError, OverflowError):
        raise InputError(
            f"--owner {pid}: there is no such process",
            hint="ipexctl lab up --owner $$",
            slug="no-such-process",
        ) from None


def _has_rights() -> bool:
    lines = Path("/proc/self/status").read_text().splitlines()
    masks = [int(line.split()[1], 16) for line in lines if line.startswith("CapEff:")]
    return all(mask >> bit & 1 for mask in masks for bit in (_CAP_NET_ADMIN, _CAP_SYS_ADMIN))


def _tools(spec: LabSpec) -> dict[str, str]:
    tools = dict(_FOR_NAMESPACES)
    if any(host.rate for host in spec.hosts):
        tools["tc"] = "iproute2"
    if any(host.disk for host in spec.hosts):
        tools["mkfs.ext4"] = "e2fsprogs"
    return tools


def _missing(packages: Mapping[str, str], path: str) -> tuple[str, str]:
    """Return the tools that are missing here, and their packages."""
    tools = [tool for tool in packages if not shutil.which(tool, path=path)]
    return ", ".join(tools), " ".join(sorted({packages[tool] for tool in tools}))
