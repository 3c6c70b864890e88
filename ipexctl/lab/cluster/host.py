"""Process 1 of a lab host: makes the host's own file tree, starts sshd, then collects children.

Runs in a child of the watchdog, already in new network, pid, mount, uts and ipc namespaces.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
from collections.abc import Mapping
from pathlib import Path

from ipexctl.common.waiting import wait_until
from ipexctl.lab.cluster import host_tree, lab_network, linux, rung_limits
from ipexctl.lab.cluster.lab_plan import LabHostPlan, LabPlan
from ipexctl.lab.cluster.processes import run_tool, sshd_path
from ipexctl.quick_dataclass import dataclass


@dataclass(frozen=True)
class Boot:
    """What one host needs to start; `files` are texts by absolute path on the host, `covers` files
    of this machine by theirs."""

    plan: LabPlan
    host: LabHostPlan
    folder: Path
    uid: int
    files: Mapping[str, str]
    covers: Mapping[str, Path]

    @property
    def owner(self) -> int:
        """The owner of the account's files in the user namespace of the lab."""
        return self.uid if self.plan.rung == rung_limits.FULL else 0


def be_host(boot: Boot, start_pipe: int) -> None:
    """Set up the host, wait for a byte on `start_pipe` (its cards exist), serve until killed."""
    linux.own_mounts()
    socket.sethostname(boot.host.name)
    linux.set_name("lab-host")
    root = host_tree.mount_host_tree(boot)
    _write_files(root, boot)
    for path, source in boot.covers.items():
        linux.bind_mount(str(source), f"{root}{path}")
    if boot.plan.rung == rung_limits.FULL:
        os.chroot(root)
        os.chdir("/")
    else:
        linux.enter_root(root)
    if os.read(start_pipe, 1) != b"g":
        raise OSError("the lab disappeared")
    run_tool(["ip", "-batch", "-"], lab_network.host_batch_text(boot.host))
    Path("/proc/sys/net/ipv4/conf/all/arp_notify").write_text("1")
    if boot.plan.rung == rung_limits.USER:  # sshd runs as an ordinary user there
        Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").write_text("22")
    start_sshd([*rung_limits.as_user(boot.plan.rung, boot.uid), sshd_path()])


def start_sshd(sshd: list[str]) -> None:
    """Start sshd as a daemon and wait until it listens (it writes its pid file then)."""
    Path("/run/sshd.pid").unlink(missing_ok=True)
    run_tool([*sshd, "-E", "/run/lab/sshd.log"])
    if not wait_until(Path("/run/sshd.pid").exists):
        raise OSError("sshd did not start listening")


def reap_forever() -> None:
    """Collect every child that ends, the duty of process 1."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    while True:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass
        signal.sigwait({signal.SIGCHLD})


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
