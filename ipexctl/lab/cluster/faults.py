"""Cause faults on a host and undo them. Runs in the watchdog."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ipexctl.common.processes import process_ids
from ipexctl.common.waiting import wait_until
from ipexctl.errors import HostFailed, InputError, NotHere
from ipexctl.lab.cluster import host_boot, lab_network, plain_hosts, rung_limits
from ipexctl.lab.cluster.host_boot import Running
from ipexctl.lab.cluster.lab_plan import LabHostPlan
from ipexctl.lab.cluster.lab_spec import lab_command
from ipexctl.lab.cluster.processes import run_tool, sshd_path

if TYPE_CHECKING:
    from ipexctl.lab.cluster.watchdog import Watchdog

_HOST_KEY = "etc/ssh/ssh_host_ed25519_key"
_FILL = ".lab-fill"
_NEED_LIFE = ("changed-key", "no-sshd")
_END_SSHD = """p=$(cat /run/sshd.pid) && rm /run/sshd.pid && kill -9 "$p"
while kill -0 "$p"; do sleep 0.01; done"""


def inject_fault(dog: Watchdog, name: str, kind: str) -> None:
    host, running = _find(dog, name)
    heal = lab_command("heal", dog.plan.name, name)
    if not running.pid:
        raise InputError(
            f"{name} is not running", hint=f"{heal}   # starts it again", slug="lab-host-down"
        )
    if kind in running.faults:
        return
    if "freeze" in running.faults and kind in _NEED_LIFE:
        raise InputError(f"{name} is frozen", hint=heal, slug="lab-host-frozen")
    if kind not in dog.breaks:
        raise NotHere(
            f"'{kind}' needs hosts with namespaces",
            why="this lab is on the flat rung",
            slug="fault-needs-namespaces",
        )
    dog.breaks[kind](dog, host, running.pid)
    pid = 0 if kind == "kill" else running.pid
    dog.hosts[name] = Running(pid, running.faults | {kind})


def heal_host(dog: Watchdog, name: str) -> None:
    """Undo every fault; a host that is down starts again as a new one, but with its disk."""
    host, running = _find(dog, name)
    if not running.pid:
        dog.boot([name])
        running = replace(dog.hosts[name], faults=running.faults & {"fill-disk"})
    for kind in ("freeze", "fill-disk", "changed-key", "no-sshd", "unplug"):
        if kind in running.faults:
            dog.mends[kind](dog, host, running.pid)
    dog.hosts[name] = Running(running.pid)


def _find(dog: Watchdog, name: str) -> tuple[LabHostPlan, Running]:
    dog.collect()
    return next(host for host in dog.plan.hosts if host.name == name), dog.hosts[name]


def _kill(dog: Watchdog, host: LabHostPlan, pid: int) -> None:
    # Pull the cable first: the kernel closes the host's connections, and no peer may notice that.
    lab_network.set_cable_state(host, dog.switch, "down")
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    lab_network.unplug_for_good(host, dog.switch)


def _freeze(dog: Watchdog, host: LabHostPlan, pid: int) -> None:
    seen: set[int] = set()
    # A process may fork in the meantime; stop when a round finds no new process.
    while new := set(_members(pid)) - seen:
        seen |= new
        _signal(new, signal.SIGSTOP)


def _thaw(dog: Watchdog, host: LabHostPlan, pid: int) -> None:
    _signal(set(_members(pid)), signal.SIGCONT)


def _unplug(dog: Watchdog, host: LabHostPlan, pid: int) -> None:
    lab_network.set_cable_state(host, dog.switch, "down")


def _replug(dog: Watchdog, host: LabHostPlan, pid: int) -> None:
    lab_network.set_cable_state(host, dog.switch, "up")
    lab_network.announce_host(host, dog.switch, pid)


def _no_sshd(dog: Watchdog, host: LabHostPlan, pid: int) -> None:
    """End only the listener, as a service manager does; open sessions continue."""
    run_tool(
        [*rung_limits.nsenter_command(pid), "sh", "-c", _END_SSHD],
        what=f"sshd of {host.name} does not end",
    )


def _sshd(dog: Watchdog, host: LabHostPlan, pid: int) -> None:
    as_user = rung_limits.as_user(dog.plan.rung, host_boot.free_uid())
    sshd = [sshd_path(), "-E", "/run/lab/sshd.log"]
    run_tool(
        [*rung_limits.nsenter_command(pid), *as_user, *sshd], what=f"sshd failed on {host.name}"
    )
    if not wait_until(Path(f"/proc/{pid}/root/run/sshd.pid").exists):
        raise HostFailed("the host did not respond in time", slug="lab-host-timeout")


def _change_key(dog: Watchdog, host: LabHostPlan, pid: int) -> None:
    key_path = dog.folder / "hosts" / host.name / "other_key"
    if not key_path.exists():
        host_boot.make_key(key_path)
    _use_key(dog, host, pid, key_path)


def _own_key(dog: Watchdog, host: LabHostPlan, pid: int) -> None:
    _use_key(dog, host, pid, dog.folder / "hosts" / host.name / "host_key")


def _use_key(dog: Watchdog, host: LabHostPlan, pid: int, key: Path) -> None:
    Path(f"/proc/{pid}/root/{_HOST_KEY}").write_text(key.read_text())
    if Path(f"/proc/{pid}/root/run/sshd.pid").exists():
        _no_sshd(dog, host, pid)
        _sshd(dog, host, pid)


def _fill(dog: Watchdog, host: LabHostPlan, pid: int) -> None:
    if not host.spec.disk:
        raise InputError(
            f"{host.name} has no disk of its own to fill",
            why="its home is on this machine's disk",
            hint=f"start the lab with --host {host.name}:disk=200m",
            slug="lab-host-without-disk",
        )
    path = f"/proc/{pid}/root{host.home}/{_FILL}"
    with open(path, "wb") as file:
        size, step = 0, host.spec.disk
        # Halve the step at each refusal, down to single blocks: not one byte remains free.
        while step >= 512:
            try:
                os.posix_fallocate(file.fileno(), size, step)
                size += step
            except OSError:
                step //= 2


def _unfill(dog: Watchdog, host: LabHostPlan, pid: int) -> None:
    Path(f"/proc/{pid}/root{host.home}/{_FILL}").unlink(missing_ok=True)


Step = Callable[["Watchdog", LabHostPlan, int], None]
BREAK: dict[str, Step] = {
    "kill": _kill,
    "freeze": _freeze,
    "unplug": _unplug,
    "changed-key": _change_key,
    "fill-disk": _fill,
    "no-sshd": _no_sshd,
}
MEND: dict[str, Step] = {
    "freeze": _thaw,
    "unplug": _replug,
    "changed-key": _own_key,
    "fill-disk": _unfill,
    "no-sshd": _sshd,
}


def _members(pid: int) -> Iterator[int]:
    """Yield every process in the pid namespace of process `pid`."""
    space = os.stat(f"/proc/{pid}/ns/pid").st_ino
    for member in process_ids():
        with suppress(OSError):
            if os.stat(f"/proc/{member}/ns/pid").st_ino == space:
                yield member


def _signal(members: set[int], number: signal.Signals) -> None:
    for pid in members:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _kill_flat(dog: Watchdog, host: LabHostPlan, pid: int) -> None:
    plain_hosts.kill_processes(lambda: plain_hosts.find_host_processes(host, pid) - {os.getpid()})


def _freeze_flat(dog: Watchdog, host: LabHostPlan, pid: int) -> None:
    _signal(plain_hosts.find_host_processes(host, pid), signal.SIGSTOP)


def _thaw_flat(dog: Watchdog, host: LabHostPlan, pid: int) -> None:
    _signal(plain_hosts.find_host_processes(host, pid), signal.SIGCONT)


FLAT_BREAK: dict[str, Step] = {"kill": _kill_flat, "freeze": _freeze_flat}
FLAT_MEND: dict[str, Step] = {"freeze": _thaw_flat}
