"""The few Linux calls that Python 3.10 lacks, as plain functions that raise OSError."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
from pathlib import Path

from ipexctl.common.processes import stat_of

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
_AT_RECURSIVE = 0x8000
_MNT_DETACH = 2
_MOUNT_ATTR_RDONLY = 0x1
_MOUNT_SETATTR = 442
_CLONE = {"x86_64": 56, "aarch64": 220, "riscv64": 220, "ppc64le": 120}


def unshare(flags: int) -> None:
    _call("unshare", flags)


def die_with_parent(number: signal.Signals = signal.SIGKILL) -> None:
    """Have the kernel send this process a signal when its parent ends, however that ends."""
    _call("prctl", _PR_SET_PDEATHSIG, int(number), 0, 0, 0)


def enter_root(root: str) -> None:
    """Make a mount the root of this mount namespace. After chroot() a process could not create the
    user namespace for an account of a host without root."""
    os.chdir(root)
    number = {"x86_64": 155, "ppc64le": 203}.get(os.uname().machine, 41)
    current = ctypes.c_char_p(b".")
    _call("syscall", ctypes.c_long(number), current, current)
    unmount(".")  # the old root, which now covers the new one
    os.chdir("/")


def adopt_orphans() -> None:
    """Become the parent of every descendant that loses its own."""
    _call("prctl", _PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def set_name(name: str) -> None:
    """Set the name and command line that ps, top and pgrep show."""
    _call("prctl", _PR_SET_NAME, ctypes.c_char_p(name.encode()[:15]), 0, 0, 0)
    fields = stat_of("self")[1]
    # The kernel reads the command line from this process's memory, between these addresses.
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


def bind_mount(source: str, target: str, *, recursive: bool = False) -> None:
    mount(source, target, flags=MS_BIND | (MS_REC if recursive else 0))


def unmount(target: str) -> None:
    _call("umount2", ctypes.c_char_p(target.encode()), _MNT_DETACH)


def own_mounts() -> None:
    """Enter a mount namespace whose mounts never propagate to the original one."""
    unshare(CLONE_NEWNS)
    mount("none", "/", flags=MS_REC | MS_PRIVATE)


def own_user() -> None:
    """Enter a user namespace in which this process, and only its user, is root."""
    user, group = os.geteuid(), os.getegid()
    unshare(CLONE_NEWUSER)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {user} 1")
    Path("/proc/self/gid_map").write_text(f"0 {group} 1")


def make_read_only(path: str) -> None:
    """Make a mount and all below it read-only; does nothing on kernels older than 5.12."""
    attributes = (ctypes.c_uint64 * 4)(_MOUNT_ATTR_RDONLY, 0, 0, 0)
    target, size = ctypes.c_char_p(path.encode()), ctypes.c_size_t(ctypes.sizeof(attributes))
    start = ctypes.c_long(-100)  # AT_FDCWD
    try:
        _call(
            "syscall", ctypes.c_long(_MOUNT_SETATTR), start, target, _AT_RECURSIVE, attributes, size
        )
    except OSError as error:
        if error.errno != errno.ENOSYS:
            raise


def fork_into_new_pids() -> int:
    """Fork a child that is process 1 of a new pid namespace; the caller keeps its own.

    It makes the system call itself: after unshare(CLONE_NEWPID) a process of a user namespace could
    not return to the pid namespace that it came from.
    """
    number = ctypes.c_long(_CLONE[os.uname().machine])
    nothing = [ctypes.c_long(0)] * 4
    flags = ctypes.c_long(CLONE_NEWPID | signal.SIGCHLD)
    # PyDLL holds Python's lock: the child has only this thread, which must hold it.
    pid = ctypes.PyDLL(None, use_errno=True).syscall(number, flags, *nothing)
    if pid < 0:
        raise OSError(ctypes.get_errno(), f"clone: {os.strerror(ctypes.get_errno())}")
    return int(pid)


_libc = ctypes.CDLL(None, use_errno=True)


def _call(name: str, *args: object) -> None:
    if getattr(_libc, name)(*args) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
