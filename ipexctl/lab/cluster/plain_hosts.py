"""Hosts of the flat rung: an sshd each on a loopback address, with a home of its own.

Without namespaces nothing ends with its host: a keeper, the parent of the watchdog, adopts what the
hosts leave running and ends it when the watchdog has ended.
"""

from __future__ import annotations

import os
import pwd
import signal
import socket
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ipexctl.common.processes import environ_of, find_descendants, process_times
from ipexctl.common.waiting import wait_until
from ipexctl.errors import HostFailed
from ipexctl.lab.cluster import config_text, folders, lab_plan, linux
from ipexctl.lab.cluster.lab_plan import LabHostPlan, LabPlan
from ipexctl.lab.cluster.lab_spec import LabSpec
from ipexctl.lab.cluster.processes import ENV, sshd_path


def login_user() -> str:
    """Return the login user: that of this process, since sshd may accept no other user."""
    return pwd.getpwuid(os.geteuid()).pw_name


def claim_loopback_plan(spec: LabSpec, folder: Path) -> LabPlan:
    """Return a plan with the first block of loopback addresses where a port is free on all."""
    for block in lab_plan.find_free_blocks(spec.name, ()):
        plan = lab_plan.plan_loopback(spec, block, folder, login_user())
        with suppress(OSError):
            return replace(plan, port=_free_port([host.address for host in plan.hosts]))
    raise HostFailed(
        "no free loopback addresses", hint="ipexctl lab down --all", slug="no-free-addresses"
    )


def _free_port(addresses: list[str]) -> int:
    sockets = [socket.socket() for _ in addresses]
    try:
        port = 0
        for sock, address in zip(sockets, addresses, strict=True):
            sock.bind((address, port))
            port = sock.getsockname()[1]
        return port
    finally:
        for sock in sockets:
            sock.close()


def start_host_sshd(folder: Path, plan: LabPlan, host: LabHostPlan) -> int:
    """Start the host's sshd; returns its pid once it listens."""
    base = folder / "hosts" / host.name
    for name in ("home", "root", "tmp"):
        (base / name).mkdir(mode=0o700, exist_ok=True)
    login = base / "login"
    login.write_text(config_text.LOGIN)
    login.chmod(0o700)
    config = config_text.loopback_sshd_config(plan, host, folder)
    (base / "sshd_config").write_text(config)
    (base / "sshd.pid").unlink(missing_ok=True)
    if not os.geteuid():
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # root's sshd requires it, empty
    argv = [sshd_path(), "-D", "-f", str(base / "sshd_config"), "-E", str(base / "sshd.log")]
    pid = subprocess.Popen(argv, env=ENV, stdin=subprocess.DEVNULL, start_new_session=True).pid
    listens = (base / "sshd.pid").exists
    wait_until(lambda: listens() or os.waitpid(pid, os.WNOHANG)[0])
    if not listens():
        tail = (base / "sshd.log").read_text().strip().splitlines()[-1:] or ["sshd ended"]
        raise HostFailed(f"{host.name} did not come up", why=tail[0], slug="lab-host-failed")
    return pid


def find_host_processes(host: LabHostPlan, sshd: int) -> set[int]:
    """Return the host's processes: the descendants of its sshd, and those with its home."""
    home, processes = f"HOME={host.home}".encode(), process_times()
    at_home = {pid for pid in processes if home in environ_of(pid)}
    return find_descendants(sshd, processes) | {sshd} | at_home


def kill_processes(find: Callable[[], set[int]]) -> None:
    """Kill all that `find` finds, until it finds nothing: processes may fork meanwhile."""

    def none_left() -> bool:
        pids = find()
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
        _reap()
        return not pids

    wait_until(none_left)


def fork_watchdog(folder: Path) -> None:
    """Fork the watchdog and return in it; the parent outlives it, ends what is left, and exits."""
    linux.adopt_orphans()
    parent = os.getpid()
    watchdog = os.fork()
    if not watchdog:
        linux.die_with_parent(signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)
        return
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda received, _: os.kill(watchdog, received))
    code = 1
    with suppress(ChildProcessError):
        while True:
            pid, status = os.wait()
            if pid == watchdog:
                code = os.waitstatus_to_exitcode(status)
                break
    kill_processes(lambda: find_descendants(parent, process_times()))
    folders.clear_lab_folder(folder)
    os._exit(abs(code))


def _reap() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
