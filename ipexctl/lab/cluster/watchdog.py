"""The process that owns a lab. Everything in a lab ends with it, even after kill -9.

It holds nothing that outlives a process: namespaces have no names, hosts and the switch are its
children and get SIGKILL from the kernel when it ends, loop devices free themselves with their
last mount, and the cable to this machine goes with the switch.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ipexctl.common.files import write_atomic
from ipexctl.common.processes import find_descendants, process_times
from ipexctl.errors import HostFailed, IpexctlError
from ipexctl.lab.cluster import (
    faults,
    folders,
    lab_network,
    lab_plan,
    linux,
    machine_support,
    plain_hosts,
    rung_limits,
)
from ipexctl.lab.cluster import host_boot as boots
from ipexctl.lab.cluster.host_boot import Running
from ipexctl.lab.cluster.lab_spec import LabSpec


class Watchdog:
    """One lab: its switch, its hosts, and what has been done to them."""

    breaks, mends = faults.BREAK, faults.MEND

    def __init__(self, folder: Path, spec: LabSpec, rung: str, left_out: Sequence[str]) -> None:
        self.folder, self.rung, self.left_out = folder, rung, left_out
        self.switch = lab_network.start_switch()
        self.plan = self._claim_network(spec)
        self.hosts: dict[str, Running] = {}

    def _claim_network(self, spec: LabSpec) -> lab_plan.LabPlan:
        """Connect the switch under the first address block that is free."""
        for block in lab_plan.find_free_blocks(spec.name, lab_network.list_used_networks()):
            planned = lab_plan.plan_lab(spec, block, self.rung)
            if lab_network.connect_uplink(planned.link, self.switch):
                lab_network.open_switch(planned, self.switch)
                return planned
        raise HostFailed(
            "no free address block in 10.64.0.0/10",
            hint="ipexctl lab down",
            slug="no-free-addresses",
        )

    def open(self) -> None:
        """Make keys and files, boot every host, and write state.json."""
        boots.write_client_files(self.folder, self.plan)
        self.boot([host.name for host in self.plan.hosts])
        self.save()

    def boot(self, names: list[str]) -> None:
        hosts = [host for host in self.plan.hosts if host.name in names]
        for name, running in boots.boot_hosts(self.folder, self.plan, hosts, self.switch).items():
            self.hosts[name] = running

    def save(self) -> None:
        text = json.dumps(boots.state_document(self.plan, self.switch, self.left_out), indent=1)
        write_atomic(self.folder / folders.STATE, text, mode=None)

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Handle one request of the client; errors are returned as what / why / hint."""
        try:
            return {"ok": self._run_request(request)}
        except IpexctlError as error:
            return {"error": _document(error)}
        except Exception as error:
            failure = HostFailed(f"the lab failed: {error}", why=repr(error), slug="lab-failed")
            return {"error": _document(failure)}

    def _run_request(self, request: dict[str, Any]) -> Any:
        if request["op"] == "status":
            return {name: [host.pid, sorted(host.faults)] for name, host in self.hosts.items()}
        if request["op"] == "fault":
            return faults.inject_fault(self, request["host"], request["kind"])
        if request["op"] == "heal":
            return faults.heal_host(self, request["host"])
        if request["op"] == "down":
            return None
        raise HostFailed(f"unknown lab request '{request['op']}'", slug="unknown-lab-request")

    def collect(self) -> bool:
        """Note hosts that ended on their own; False if the switch ended, and so the lab."""
        for host in self.plan.hosts:
            running = self.hosts.get(host.name)
            if running and running.pid and _ended(running.pid):
                self.hosts[host.name] = Running(0, running.faults | {"kill"})
                lab_network.unplug_for_good(host, self.switch)
        return not _ended(self.switch)

    def close(self) -> None:
        """End every host, the switch and the cable, and remove the files."""
        pids = [host.pid for host in self.hosts.values() if host.pid]
        lab_network.remove_uplink(self.plan.link)
        for pid in [*pids, self.switch]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in [*pids, self.switch]:
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)
        boots.unmount_disks(self.folder, self.plan)
        folders.clear_lab_folder(self.folder)


class FlatWatchdog(Watchdog):
    """A lab whose hosts are sshd processes on loopback addresses."""

    breaks, mends = faults.FLAT_BREAK, faults.FLAT_MEND

    def __init__(self, folder: Path, spec: LabSpec, left_out: Sequence[str]) -> None:
        self.folder, self.rung, self.left_out = folder, rung_limits.FLAT, left_out
        self.switch, self.hosts = 0, {}
        self.plan = plain_hosts.claim_loopback_plan(spec, folder)

    def boot(self, names: list[str]) -> None:
        for host in self.plan.hosts:
            if host.name in names:
                self.hosts[host.name] = Running(
                    plain_hosts.start_host_sshd(self.folder, self.plan, host)
                )

    def collect(self) -> bool:
        for name, running in self.hosts.items():
            if running.pid and _ended(running.pid):
                self.hosts[name] = Running(0, running.faults | {"kill"})
        return True

    def close(self) -> None:
        plain_hosts.kill_processes(lambda: find_descendants(os.getpid(), process_times()))


def serve_requests(dog: Watchdog, listener: socket.socket, owner: int) -> None:
    """Answer requests until `down`, a signal, or the end of the owner or the switch."""
    wake, waker = socket.socketpair()
    for sock in (wake, waker):
        sock.setblocking(False)
    signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
    signals: set[int] = set()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda received, _: signals.add(received))
    signal.signal(signal.SIGCHLD, lambda *_: None)
    with selectors.DefaultSelector() as poll:
        poll.register(wake, selectors.EVENT_READ)
        poll.register(listener, selectors.EVENT_READ)
        if owner:
            poll.register(owner, selectors.EVENT_READ)
        while dog.collect() and not signals:
            ready = [key.fileobj for key, _ in poll.select()]
            if owner in ready or (listener in ready and _one_request(dog, listener)):
                return
            with suppress(BlockingIOError):
                wake.recv(4096)


def _one_request(dog: Watchdog, listener: socket.socket) -> bool:
    """Serve one client; True if it asked to end the lab."""
    connection, _ = listener.accept()
    with connection, suppress(OSError, ValueError):
        connection.settimeout(5)
        request = json.loads(connection.makefile("r").readline())
        answer = dog.answer(request)
        connection.sendall(json.dumps(answer).encode() + b"\n")
        return bool(request["op"] == "down")
    return False


def _document(error: IpexctlError) -> dict[str, object]:
    return {**error.document(), "type": type(error).__name__}


def _watchdog(folder: Path, spec: LabSpec, rung: str, left_out: Sequence[str]) -> Watchdog:
    if rung == rung_limits.FLAT:
        return FlatWatchdog(folder, spec, left_out)
    if rung == rung_limits.USER:
        linux.own_user()
        linux.unshare(linux.CLONE_NEWNET)
        linux.own_mounts()  # for the disks of hosts
    return Watchdog(folder, spec, rung, left_out)


def _ended(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def main(folder: Path, ready: int, owner: int) -> int:
    """Start the lab, report to the starter by one JSON line on `ready`, then serve."""
    os.umask(0o022)
    document = json.loads((folder / "spec.json").read_text())
    rung = document.pop("rung")
    if rung == rung_limits.FLAT:
        plain_hosts.fork_watchdog(folder)
    listener = socket.socket(socket.AF_UNIX)
    # Names relative to the folder: a socket's path is limited to 107 characters.
    os.chdir(folder)
    listener.bind("control.sock")
    listener.listen(16)
    spec, left_out = rung_limits.fit_spec_to_rung(LabSpec.from_json(document), rung)
    dog = None
    try:
        owner_fd = machine_support.open_process_fd(owner) if owner else 0
        dog = _watchdog(folder, spec, rung, left_out)
        dog.open()
        os.write(ready, b'{"ok": null}\n')
        os.close(ready)
        serve_requests(dog, listener, owner_fd)
    except IpexctlError as error:
        os.write(ready, json.dumps({"error": _document(error)}).encode() + b"\n")
        return 1
    finally:
        if dog:
            dog.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
