"""Start hosts: keys, the texts of each host, one forked process 1 per host."""

from __future__ import annotations

import os
import pwd
import select
import shutil
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ipexctl.errors import HostFailed
from ipexctl.lab.cluster import config_text, lab_network, linux, rung_limits
from ipexctl.lab.cluster import host as inner
from ipexctl.lab.cluster.lab_plan import LabHostPlan, LabPlan
from ipexctl.lab.cluster.processes import run_tool
from ipexctl.quick_dataclass import dataclass

_NAMESPACES = linux.CLONE_NEWNET | linux.CLONE_NEWUTS | linux.CLONE_NEWIPC
_FLAT_SESSIONS = 2000
_FIRST_UID = 20001
# When ssh ends, so does the process that reads from the host; SIGHUP may be ignored here.
_CONNECT = 'exec 3<>"/dev/tcp/$0/$1" || exit; { cat >&3; kill $$; } <&0 >/dev/null & exec cat <&3'


@dataclass(frozen=True)
class Running:
    """Process 1 of a host (0: not running) and the faults it has."""

    pid: int
    faults: frozenset[str] = frozenset()


def write_client_files(folder: Path, plan: LabPlan) -> None:
    """Write keys, hostfile, ssh_config and known_hosts: all that plain ssh needs."""
    proxy = _proxy(os.getpid()) if plan.rung == rung_limits.USER else ""
    make_key(folder / "id_ed25519")
    keys = {}
    for host in plan.hosts:
        (folder / "hosts" / host.name).mkdir(parents=True)
        path = folder / "hosts" / host.name / "host_key"
        make_key(path)
        keys[host.name] = " ".join(path.with_suffix(".pub").read_text().split()[:2])
    (folder / "hostfile").write_text(config_text.hostfile_text(plan))
    (folder / "ssh_config").write_text(config_text.ssh_config(plan, folder, proxy))
    (folder / "known_hosts").write_text(config_text.known_hosts(plan, keys))


def _proxy(watchdog: int) -> str:
    """Return the command with which ssh enters the watchdog's network."""
    enter = f"nsenter -t {watchdog} -U -n --preserve-credentials --"
    return f"{enter} bash -c '{_CONNECT}' %h %p"


def make_key(path: Path) -> None:
    argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "lab", "-f", str(path)]
    run_tool(argv)


def state_document(plan: LabPlan, switch: int, left_out: Sequence[str]) -> dict[str, Any]:
    """Return the content of state.json; the client reads nothing else about the plan."""
    return {
        "rung": plan.rung,
        "left_out": left_out,
        "name": plan.name,
        "user": plan.user,
        "link": plan.link,
        "watchdog": os.getpid(),
        "switch": switch,
        "addresses": plan.flat,
        "uid": free_uid(),
        "hosts": {h.name: [h.address, h.home, bool(h.spec.disk)] for h in plan.hosts},
    }


def free_uid() -> int:
    """Return a user ID that no account of this machine has."""
    used = {entry.pw_uid for entry in pwd.getpwall()}
    return next(uid for uid in range(_FIRST_UID, _FIRST_UID + 5000) if uid not in used)


def boot_hosts(
    folder: Path, plan: LabPlan, hosts: list[LabHostPlan], switch: int
) -> dict[str, Running]:
    """Start all `hosts` in parallel; if one fails, the others are stopped again."""
    started = {host.name: _Start(boot_of(folder, plan, host)) for host in hosts}
    try:
        for host in hosts:
            started[host.name].expect("spaces")
            started[host.name].plug_nics(host, switch)
        for host in hosts:
            started[host.name].expect("up")
            lab_network.announce_host(host, switch, started[host.name].pid)
    except BaseException:
        for start in started.values():
            start.kill()
        raise
    return {name: Running(start.pid) for name, start in started.items()}


class _Start:
    """A host that is starting: the child, and a pipe in each direction."""

    def __init__(self, boot: inner.Boot) -> None:
        self.name = boot.host.name
        start_pipe, self._go = os.pipe()
        self._said, report_pipe = os.pipe()
        self.pid = linux.fork_into_new_pids()
        if not self.pid:
            _child(boot, start_pipe, report_pipe)
        os.close(start_pipe)
        os.close(report_pipe)
        self._buffer = b""

    def expect(self, word: str) -> None:
        while b"\n" not in self._buffer:
            data = os.read(self._said, 4096)
            if not data:
                raise HostFailed(
                    f"{self.name} did not come up",
                    why="its first process ended",
                    slug="lab-host-failed",
                )
            self._buffer += data
        line, self._buffer = self._buffer.split(b"\n", 1)
        if line.decode() != word:
            raise HostFailed(
                f"{self.name} did not come up", why=line.decode(), slug="lab-host-failed"
            )
        if word == "up":
            os.close(self._said)

    def plug_nics(self, host: LabHostPlan, switch: int) -> None:
        """Give it its network cards and let it continue; a host that has ended reports why."""
        try:
            lab_network.plug_host_nics(host, switch, self.pid)
        except HostFailed:
            if self._has_reported():
                self.expect("up")
            raise
        os.write(self._go, b"g")
        os.close(self._go)

    def _has_reported(self) -> bool:
        return bool(self._buffer or select.select([self._said], [], [], 0.5)[0])

    def kill(self) -> None:
        os.kill(self.pid, 9)
        os.waitpid(self.pid, 0)


def _child(boot: inner.Boot, start_pipe: int, report: int) -> None:
    """Run process 1 from its first step on; never returns."""
    try:
        linux.die_with_parent()
        os.setsid()
        _keep_only(start_pipe, report)
        linux.unshare(_NAMESPACES)
        os.write(report, b"spaces\n")
        inner.be_host(boot, start_pipe)
        os.write(report, b"up\n")
        os.closerange(3, 1024)
        for fd in (0, 1, 2):
            os.dup2(os.open("/dev/null", os.O_RDWR), fd)
        os.closerange(3, 1024)
        inner.reap_forever()
    except BaseException as error:
        os.write(report, f"{type(error).__name__}: {error}".replace("\n", " ").encode() + b"\n")
    finally:
        os._exit(1)


def _keep_only(*fds: int) -> None:
    """Close the watchdog's lock, sockets and pipes, so that only it holds them."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    for fd in map(int, os.listdir("/proc/self/fd")):
        if fd > 2 and fd not in fds:
            try:
                os.close(fd)
            except OSError:
                continue  # the descriptor of the listing itself


def boot_of(folder: Path, plan: LabPlan, host: LabHostPlan) -> inner.Boot:
    """Return fresh folders for the host and everything its process 1 has to know."""
    home, spec = folder / "hosts" / host.name, host.spec
    uid = free_uid()
    _fresh_folders(home, host, uid if plan.rung == rung_limits.FULL else 0)
    covers = {path: Path(source) for path, source in spec.covers}
    return inner.Boot(plan, host, home, uid, _files(folder, plan, host, uid), covers)


def _fresh_folders(home: Path, host: LabHostPlan, owner: int) -> None:
    """Make the folders; the home outlives a restart, as on a real host, and /tmp does not."""
    shutil.rmtree(home / "tmp", ignore_errors=True)
    for name, mode in (("tmp", 0o1777), ("root", 0o700), ("mnt", 0o755)):
        _folder(home / name, mode, 0)
    _folder(home / "home", 0o700, owner)
    (home / "sshd.log").touch(0o600)
    if host.spec.disk and not owner and not (home / "disk").exists():
        (home / "disk").mkdir()
        limits = f"mode=700,size={host.spec.disk}"
        linux.mount("disk", str(home / "disk"), "tmpfs", linux.MS_NOSUID, limits)
    if host.spec.disk and owner and not (home / "disk.img").exists():
        with open(home / "disk.img", "wb") as image:
            image.truncate(host.spec.disk)
        argv = ["mkfs.ext4", "-q", "-F", "-m", "0", str(home / "disk.img")]
        run_tool(argv)


def unmount_disks(folder: Path, plan: LabPlan) -> None:
    if plan.rung == rung_limits.USER:
        for host in plan.hosts:
            if host.spec.disk:
                with suppress(OSError):
                    linux.unmount(str(folder / "hosts" / host.name / "disk"))


def _folder(path: Path, mode: int, owner: int) -> None:
    path.mkdir(exist_ok=True)
    os.chown(path, owner, owner)
    path.chmod(mode)


def _files(folder: Path, plan: LabPlan, host: LabHostPlan, uid: int) -> dict[str, str]:
    base = folder / "hosts" / host.name
    accounts = config_text.account_files(
        Path("/etc/passwd").read_text(),
        Path("/etc/group").read_text(),
        uid=uid,
        # sshd assigns terminals to this group, which an ordinary user may not
        without="tty" if plan.rung == rung_limits.USER else "",
    )
    return {
        **{f"/etc/{name}": content for name, content in accounts.items()},
        "/etc/hostname": f"{host.name}\n",
        "/etc/hosts": config_text.etc_hosts(host),
        "/etc/resolv.conf": "",
        "/etc/nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n",
        "/etc/ssh/sshd_config": config_text.sshd_config(
            sessions=_FLAT_SESSIONS if plan.flat else 0, penalties=_knows_penalties()
        ),
        "/etc/ssh/ssh_host_ed25519_key": (base / "host_key").read_text(),
        "/etc/ssh/authorized_keys": (folder / "id_ed25519.pub").read_text(),
    }


def _knows_penalties() -> bool:
    """Detect OpenSSH 9.8 or later, which slows down an address that fails often; labs have one."""
    version = subprocess.run(["ssh", "-V"], capture_output=True, text=True).stderr
    numbers = version.partition("OpenSSH_")[2].partition("p")[0].split(".")
    return len(numbers) == 2 and [int(n) for n in numbers if n.isdigit()] >= [9, 8]
