"""The file tree of a lab host: a view of this machine whose changes are the host's own.

As root it is an overlay of "/" whose changes are in a tmpfs. Without root an overlay would refuse
to change root's files, so every folder of "/" is bound read-only, and /etc is a copy.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ipexctl.facts.system_facts import PRACTICE
from ipexctl.lab.cluster import linux, rung_limits
from ipexctl.lab.cluster.processes import run_tool

if TYPE_CHECKING:
    from ipexctl.lab.cluster.host import Boot

_NOT_OURS = ("/proc", "/sys", "/dev", "/run", "/tmp", "/home", "/root")
_NODES = {
    "null": os.makedev(1, 3),
    "zero": os.makedev(1, 5),
    "full": os.makedev(1, 7),
    "random": os.makedev(1, 8),
    "urandom": os.makedev(1, 9),
    "tty": os.makedev(5, 0),
}
_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
}


def mount_host_tree(boot: Boot) -> str:
    """Mount the file tree of the host and return its path."""
    top = boot.folder / "mnt"
    linux.mount("lab", str(top), "tmpfs", data="mode=755")
    (top / "root").mkdir()
    root = str(top / "root")
    if boot.plan.rung == rung_limits.FULL:
        _overlay(top, "/", 0)
        _bring_disks(top, boot.folder)
    else:
        _bind_machine(root)
    linux.mount("proc", f"{root}/proc", "proc", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)
    linux.mount("sysfs", f"{root}/sys", "sysfs", linux.MS_NOSUID | linux.MS_NODEV)
    if os.path.isdir("/sys/fs/cgroup") and os.path.isdir(f"{root}/sys/fs/cgroup"):
        linux.bind_mount("/sys/fs/cgroup", f"{root}/sys/fs/cgroup", recursive=True)
    _devices(root, boot)
    _own_folders(root, boot)
    return root


def _overlay(top: Path, path: str, number: int) -> None:
    """Lay a private, writable view of this machine's `path` over the same path of the host."""
    os.chdir(top)
    os.mkdir(f"upper{number}")
    os.mkdir(f"work{number}")
    # Relative names: a "," or ":" in the lab's own path would split the option string.
    options = f"lowerdir={path},upperdir=upper{number},workdir=work{number}"
    try:
        linux.mount("lab", f"root{path}", "overlay", data=options)
    finally:
        os.chdir("/")


def _bring_disks(top: Path, folder: Path) -> None:
    """Add other disks of this machine (/usr, /opt...), which are not in the overlay of "/"."""
    for number, target in enumerate(_disks(folder), 1):
        try:
            if os.path.isdir(target):
                _overlay(top, target, number)
            elif not target.startswith("/etc/"):  # in containers /etc/hosts and others are mounts
                linux.bind_mount(target, f"{top}/root{target}")
        except OSError:
            continue  # a name with special characters, or a hidden mount: the host lacks it


def _bind_machine(root: str) -> None:
    """Bind every folder of this machine's "/" read-only; copy what this user can read of /etc."""
    linux.mount("root", root, "tmpfs", data="mode=755")
    for entry in os.scandir("/"):
        target = f"{root}/{entry.name}"
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), target)
        elif entry.is_dir():
            os.mkdir(target)
            if entry.path not in (*_NOT_OURS, "/etc"):
                _bind_read_only(entry.path, target)
    with suppress(shutil.Error):  # it copies all but unreadable files
        shutil.copytree("/etc", f"{root}/etc", symlinks=True, dirs_exist_ok=True)
    os.chmod(f"{root}/etc", 0o755)
    linux.mount("tmp", f"{root}/var/tmp", "tmpfs", linux.MS_NOSUID, "mode=1777")


def _bind_read_only(source: str, target: str) -> None:
    with suppress(PermissionError):  # only root can read it
        linux.bind_mount(source, target, recursive=True)
        linux.make_read_only(target)


def _disks(folder: Path) -> list[str]:
    """Return the mount points of other file systems with files of their own."""
    kinds = {line.split()[1] for line in _lines("/proc/filesystems") if line.startswith("nodev")}
    kinds -= {"zfs", "overlay", "virtiofs", "9p", "nfs", "nfs4"}
    targets = []
    for line in _lines("/proc/self/mountinfo"):
        fields, _, rest = line.partition(" - ")
        target = fields.split()[4]
        is_ours = target in _NOT_OURS or target.startswith(tuple(f"{p}/" for p in _NOT_OURS))
        holds_lab = f"{folder}/".startswith(f"{target}/")
        if not (target == "/" or is_ours or holds_lab or rest.split()[0] in kinds):
            targets.append(target)
    return targets


def _devices(root: str, boot: Boot) -> None:
    dev, is_full = f"{root}/dev", boot.plan.rung == rung_limits.FULL
    linux.mount("dev", dev, "tmpfs", linux.MS_NOSUID, "mode=755")
    for name, device in _NODES.items():
        if is_full:
            _node(f"{dev}/{name}", device)
        else:
            Path(dev, name).touch()
            linux.bind_mount(f"/dev/{name}", f"{dev}/{name}")
    for name, target in _LINKS.items():
        os.symlink(target, f"{dev}/{name}")
    os.mkdir(f"{dev}/pts")
    linux.mount(
        "devpts",
        f"{dev}/pts",
        "devpts",
        data="newinstance,ptmxmode=0666,mode=620" + (",gid=5" if is_full else ""),
    )
    os.mkdir(f"{dev}/shm")
    size = f",size={boot.host.spec.shm}" if boot.host.spec.shm else ""
    linux.mount("shm", f"{dev}/shm", "tmpfs", linux.MS_NOSUID, f"mode=1777{size}")


def _node(path: str, device: int) -> None:
    os.mknod(path, 0o666 | 0o020000, device)
    os.chmod(path, 0o666)


def _own_folders(root: str, boot: Boot) -> None:
    """Create the host's own /run, /tmp, /home, /root and home."""
    linux.mount("run", f"{root}/run", "tmpfs", linux.MS_NOSUID, "mode=755")
    for name in ("run/sshd", "run/lab", "run/lock", "run/systemd"):
        os.mkdir(f"{root}/{name}")
    Path(f"{root}/run/systemd/container").write_text(PRACTICE)  # as container managers do
    Path(f"{root}/run/lab/sshd.log").touch(0o600)
    linux.bind_mount(str(boot.folder / "sshd.log"), f"{root}/run/lab/sshd.log")
    linux.bind_mount(str(boot.folder / "tmp"), f"{root}/tmp")
    linux.bind_mount(str(boot.folder / "root"), f"{root}/root")
    linux.mount("home", f"{root}/home", "tmpfs", linux.MS_NOSUID, "mode=755")
    os.makedirs(root + boot.host.home, exist_ok=True)
    if not boot.host.spec.disk:
        linux.bind_mount(str(boot.folder / "home"), root + boot.host.home)
        return
    if boot.plan.rung == rung_limits.FULL:
        _mount_image(str(boot.folder / "disk.img"), root + boot.host.home)
    else:
        linux.bind_mount(str(boot.folder / "disk"), root + boot.host.home)
    os.chown(root + boot.host.home, boot.owner, boot.owner)
    os.chmod(root + boot.host.home, 0o700)


def _mount_image(image: str, target: str) -> None:
    if not os.path.exists("/dev/loop-control"):
        linux.mount("dev", "/dev", "devtmpfs")  # a chroot's /dev may be bare; this one is the lab's
    # The kernel frees the loop device with its last mount, which ends with this namespace.
    run_tool(["mount", "-n", "-t", "ext4", "-o", "loop,noatime", image, target])
    shutil.rmtree(f"{target}/lost+found", ignore_errors=True)


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines()
