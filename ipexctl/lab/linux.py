"""The few Linux calls that Python 3.10 lacks, as plain functions that raise OSError."""

from __future__ import annotations

import ctypes
import os
import signal

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15


def unshare(flags: int) -> None:
    _call("unshare", flags)


def setns(fd: int, kind: int) -> None:
    _call("setns", fd, kind)


def die_with_parent() -> None:
    """SIGKILL for this process when its parent ends, however that ends."""
    _call("prctl", _PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def set_name(name: str) -> None:
    """The name and command line that ps, top and pgrep show from now on."""
    _call("prctl", _PR_SET_NAME, ctypes.c_char_p(name.encode()[:15]), 0, 0, 0)
    with open("/proc/self/stat", encoding="utf-8", errors="replace") as stat:
        fields = stat.read().rpartition(")")[2].split()
    # The kernel reads the command line from our own memory, between these two addresses.
    start, end = int(fields[45]), int(fields[46])
    room = max(0, end - start - 1)
    ctypes.memset(start, 0, end - start)
    ctypes.memmove(start, name.encode()[:room], min(len(name.encode()), room))


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    _call(
        "mount",
        ctypes.c_char_p(source.encode()),
        ctypes.c_char_p(target.encode()),
        ctypes.c_char_p(kind.encode()),
        ctypes.c_ulong(flags),
        ctypes.c_char_p(data.encode()),
    )


def bind(source: str, target: str, *, recursive: bool = False) -> None:
    mount(source, target, flags=MS_BIND | (MS_REC if recursive else 0))


def own_mounts() -> None:
    """A mount namespace whose mounts never travel to the one we came from.

    In a chroot "/" is often no mount point, so it cannot be made private from there. Joining
    our own namespace moves us to its real root, where it can; then we go back.
    """
    unshare(CLONE_NEWNS)
    here = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    namespace = os.open("/proc/self/ns/mnt", os.O_RDONLY)
    try:
        setns(namespace, CLONE_NEWNS)
        mount("none", "/", flags=MS_REC | MS_PRIVATE)
        os.fchdir(here)
        os.chroot(".")
    finally:
        os.close(namespace)
        os.close(here)


def fork_into_new_pids() -> int:
    """fork() whose child is process 1 of a new pid namespace; the caller stays where it is."""
    own = os.open("/proc/self/ns/pid", os.O_RDONLY)
    try:
        unshare(CLONE_NEWPID)
        try:
            child = os.fork()
        except OSError:
            setns(own, CLONE_NEWPID)
            raise
        if child:
            setns(own, CLONE_NEWPID)
        return child
    finally:
        os.close(own)


_libc = ctypes.CDLL(None, use_errno=True)


def _call(name: str, *args: object) -> None:
    if getattr(_libc, name)(*args) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
