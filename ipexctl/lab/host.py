"""Process 1 of a lab host: makes the host's own file tree, starts sshd, then reaps.

Runs in a child of the watchdog, already in new network, pid, mount, uts and ipc namespaces.
The tree is an overlay of this machine's "/" whose changes live in a tmpfs of the host, so even
root on a host cannot change this machine.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ipexctl.lab import config_text, linux

_ENV = {"PATH": config_text.PATH, "LANG": "C.UTF-8"}
_NOT_OURS = ("/proc", "/sys", "/dev", "/run", "/tmp", "/home", "/root")
_PYTHON = re.compile(r"python[0-9.]*")
_NODES = {"null": 3, "zero": 5, "full": 7, "random": 8, "urandom": 9}
_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
}


@dataclass(frozen=True)
class Boot:
    """All that one host needs to come up; `files` are texts by absolute path on the host."""

    name: str
    folder: Path
    home: str
    uid: int
    files: Mapping[str, str]
    covers: Mapping[str, Path]
    network: str
    sshd: str
    shm: int = 0
    disk: int = 0
    python: bool = True


def be_host(boot: Boot, go: int) -> None:
    """Set the host up, wait for a byte on `go` (its cards are there), serve until killed."""
    linux.own_mounts()
    socket.sethostname(boot.name)
    linux.set_name("lab-host")
    root = _tree(boot)
    _write_files(root, boot)
    for path, source in boot.covers.items():
        linux.bind(str(source), f"{root}{path}")
    os.chroot(root)
    os.chdir("/")
    if os.read(go, 1) != b"g":
        raise OSError("the lab went away")
    _quiet(["ip", "-batch", "-"], boot.network)
    start_sshd(boot.sshd)


def start_sshd(sshd: str) -> None:
    """Start sshd as a daemon and wait until it listens (it writes its pid file then)."""
    Path("/run/sshd.pid").unlink(missing_ok=True)
    _quiet([sshd, "-E", "/run/lab/sshd.log"], "")
    deadline = time.monotonic() + 20
    while not Path("/run/sshd.pid").exists():
        if time.monotonic() > deadline:
            raise OSError("sshd did not start listening")
        time.sleep(0.005)


def reap_forever() -> None:
    """What process 1 is for: collect every child that ends."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    while True:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass
        signal.sigwait({signal.SIGCHLD})


def _tree(boot: Boot) -> str:
    """Mount the whole file tree of the host; returns where."""
    top = boot.folder / "mnt"
    linux.mount("lab", str(top), "tmpfs", data="mode=755")
    (top / "root").mkdir()
    _overlay(top, "/", 0)
    root = str(top / "root")
    _bring_disks(top, boot.folder)
    linux.mount("proc", f"{root}/proc", "proc", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)
    linux.mount("sysfs", f"{root}/sys", "sysfs", linux.MS_NOSUID | linux.MS_NODEV)
    if os.path.isdir("/sys/fs/cgroup") and os.path.isdir(f"{root}/sys/fs/cgroup"):
        linux.bind("/sys/fs/cgroup", f"{root}/sys/fs/cgroup", recursive=True)
    _devices(root, boot.shm)
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
    """Other disks of this machine (/usr, /opt...) are not part of the overlay of "/"; add them."""
    for number, target in enumerate(_disks(folder), 1):
        try:
            if os.path.isdir(target):
                _overlay(top, target, number)
            elif not target.startswith("/etc/"):  # in containers /etc/hosts and such are mounts
                linux.bind(target, f"{top}/root{target}")
        except OSError:
            continue  # a name with odd letters, or a mount hidden by another: the host lacks it


def _disks(folder: Path) -> list[str]:
    """Where other file systems with files of their own are mounted."""
    kinds = {line.split()[1] for line in _lines("/proc/filesystems") if line.startswith("nodev")}
    kinds -= {"zfs", "overlay", "virtiofs", "9p", "nfs", "nfs4"}
    found = []
    for line in _lines("/proc/self/mountinfo"):
        fields, _, rest = line.partition(" - ")
        target = fields.split()[4]
        ours = target in _NOT_OURS or target.startswith(tuple(f"{p}/" for p in _NOT_OURS))
        holds_lab = f"{folder}/".startswith(f"{target}/")
        if not (target == "/" or ours or holds_lab or rest.split()[0] in kinds):
            found.append(target)
    return found


def _devices(root: str, shm: int) -> None:
    dev = f"{root}/dev"
    linux.mount("dev", dev, "tmpfs", linux.MS_NOSUID, "mode=755")
    for name, minor in _NODES.items():
        _node(f"{dev}/{name}", os.makedev(1, minor))
    _node(f"{dev}/tty", os.makedev(5, 0))
    for name, target in _LINKS.items():
        os.symlink(target, f"{dev}/{name}")
    os.mkdir(f"{dev}/pts")
    linux.mount("devpts", f"{dev}/pts", "devpts", data="newinstance,ptmxmode=0666,mode=620,gid=5")
    os.mkdir(f"{dev}/shm")
    size = f",size={shm}" if shm else ""
    linux.mount("shm", f"{dev}/shm", "tmpfs", linux.MS_NOSUID, f"mode=1777{size}")


def _node(path: str, device: int) -> None:
    os.mknod(path, 0o666 | 0o020000, device)
    os.chmod(path, 0o666)


def _own_folders(root: str, boot: Boot) -> None:
    """The host's own /run, /tmp, /home, /root and home."""
    linux.mount("run", f"{root}/run", "tmpfs", linux.MS_NOSUID, "mode=755")
    for name in ("run/sshd", "run/lab", "run/lock"):
        os.mkdir(f"{root}/{name}")
    Path(f"{root}/run/lab/sshd.log").touch(0o600)
    linux.bind(str(boot.folder / "sshd.log"), f"{root}/run/lab/sshd.log")
    linux.bind(str(boot.folder / "tmp"), f"{root}/tmp")
    linux.bind(str(boot.folder / "root"), f"{root}/root")
    linux.mount("home", f"{root}/home", "tmpfs", linux.MS_NOSUID, "mode=755")
    if boot.home == "/root" and not boot.disk:
        return
    os.makedirs(root + boot.home, exist_ok=True)
    if not boot.disk:
        linux.bind(str(boot.folder / "home"), root + boot.home)
        return
    if not os.path.exists("/dev/loop-control"):
        linux.mount("dev", "/dev", "devtmpfs")  # a chroot's /dev may be bare; this one is ours
    image = str(boot.folder / "disk.img")
    # The kernel frees the loop device with its last mount, which ends with this namespace.
    _quiet(["mount", "-n", "-t", "ext4", "-o", "loop,noatime", image, root + boot.home], "")
    shutil.rmtree(f"{root}{boot.home}/lost+found", ignore_errors=True)
    owner = 0 if boot.home == "/root" else boot.uid
    os.chown(root + boot.home, owner, owner)
    os.chmod(root + boot.home, 0o700)


def _write_files(root: str, boot: Boot) -> None:
    shutil.rmtree(f"{root}/etc/ssh/sshd_config.d", ignore_errors=True)
    for path in Path(f"{root}/etc/ssh").glob("ssh_host_*"):
        path.unlink()
    for name, content in boot.files.items():
        path = Path(root + name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink() or path.is_file():
            path.unlink()
        path.write_text(content)
        path.chmod(0o600 if name.endswith(("shadow", "_key")) else 0o644)
    if not boot.python:
        _remove_python(root)


def _remove_python(root: str) -> None:
    for folder in config_text.PATH.split(":"):
        if os.path.isdir(root + folder):
            for entry in os.listdir(root + folder):
                if _PYTHON.fullmatch(entry):
                    Path(root, folder[1:], entry).unlink(missing_ok=True)


def _quiet(argv: list[str], given: str) -> None:
    """Run a tool; its own words become the error."""
    done = subprocess.run(
        argv, input=given, env=_ENV, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        raise OSError(f"{argv[0]}: {done.stdout.strip() or f'exit {done.returncode}'}")


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines()
