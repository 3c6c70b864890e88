"""`Lab`: start, find, use and end a lab from Python. The command line is based on it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ipexctl.base.located_errors import nearest_word
from ipexctl.base.quoting import quote
from ipexctl.common.locks import is_named, try_lock
from ipexctl.common.waiting import wait_until
from ipexctl.errors import HostFailed, InputError, IpexctlError, NotHere
from ipexctl.inventory.hostfile_text import fold
from ipexctl.lab.cluster import config_text, folders, lab_network, machine_support, rung_limits
from ipexctl.lab.cluster.folders import state_root
from ipexctl.lab.cluster.lab_spec import FAULTS, LabSpec, lab_command
from ipexctl.lab.cluster.processes import PYTHON_ENV
from ipexctl.local.environment import environment
from ipexctl.quick_dataclass import dataclass

_ERRORS: dict[str, type[IpexctlError]] = {"InputError": InputError, "NotHere": NotHere}


@dataclass(frozen=True)
class LabHost:
    """One host. `home` is its path on the host, `files` the same folder on this machine."""

    name: str
    address: str
    home: str
    sshd_log: Path
    _folder: Path
    _own_disk: bool
    _lab: Lab

    @property
    def pid(self) -> int:
        """The pid of the host's process 1 on this machine; 0 while the host is down."""
        return int(self._lab.status()[self.name][0])

    @property
    def files(self) -> Path:
        if self._own_disk:
            return Path(f"/proc/{self.pid}/root{self.home}")
        return self._folder / "home"


@dataclass(frozen=True)
class Lab:
    """A lab that is up."""

    name: str
    folder: Path
    user: str
    watchdog: int
    link: str
    addresses: tuple[str, ...]
    rung: str
    left_out: tuple[str, ...]
    _uid: int
    _switch: int

    @classmethod
    def up(
        cls, spec: LabSpec, *, owner: int | None = None, root: Path | None = None, rung: str = ""
    ) -> Lab:
        """Start a lab, on the best rung unless one is given. With `owner` (a pid) the lab ends
        when that process does."""
        requested = spec.checked()
        rung = machine_support.choose_rung(requested, rung)
        spec, _ = rung_limits.fit_spec_to_rung(requested, rung)
        if owner is not None:
            os.close(machine_support.open_process_fd(owner))
        folder = folders.lab_folder(spec.name, root)
        lock = _take(folder, tries=5)
        if lock is None:
            raise InputError(
                f"lab '{spec.name}' is already up",
                hint=f"{lab_command('status', spec.name)}   # or give another --name\n"
                f"# {lab_command('down', spec.name)} ends it",
                slug="lab-already-up",
            )
        try:
            folders.make_lab_folder(folder, json.dumps({**requested.to_json(), "rung": rung}))
            _start_watchdog(folder, lock, owner or 0)
        finally:
            os.close(lock)
        return cls.open(spec.name, root=root)

    @classmethod
    def open(
        cls, name: str, *, root: Path | None = None, verb: str = "status", words: Sequence[str] = ()
    ) -> Lab:
        """Return the running lab of that name. `verb` and `words`: the command, for the hint that
        names another lab."""
        folder = folders.lab_folder(name, root)
        has_state = (folder / folders.STATE).exists()
        if not has_state and is_up(folder):
            raise InputError(
                f"lab '{name}' is starting, or ending: deleting its hosts' files takes time",
                hint="# the same command in a moment",
                slug="lab-not-ready",
            )
        if not has_state or not is_up(folder):
            why = "its watchdog has ended" if folders.is_lab(folder) and remove_dead(folder) else ""
            hint = lab_command("up", name)
            if others := [other for other in list_lab_names(root) if other != name]:
                guess = "" if name == "lab" else nearest_word(name, others)
                meant = others[0] if len(others) == 1 else guess or "NAME"
                hint = f"{lab_command(verb, meant, *words)}   # up: {', '.join(others)}"
            raise InputError(f"lab '{name}' is not up", why=why, hint=hint, slug="lab-not-up")
        state = json.loads((folder / folders.STATE).read_text())
        return cls(
            name=name,
            folder=folder,
            user=state["user"],
            watchdog=state["watchdog"],
            link=state["link"],
            addresses=tuple(state["addresses"]),
            rung=state["rung"],
            left_out=tuple(state["left_out"]),
            _uid=state["uid"],
            _switch=state["switch"],
        )

    @property
    def hostfile(self) -> Path:
        return self.folder / "hostfile"

    @property
    def ssh_config(self) -> Path:
        return self.folder / "ssh_config"

    @property
    def known_hosts(self) -> Path:
        return self.folder / "known_hosts"

    @property
    def identity(self) -> Path:
        return self.folder / "id_ed25519"

    @property
    def targets(self) -> tuple[str, ...]:
        """The words of the hostfile: host names, or the addresses of a flat lab."""
        return self.addresses or tuple(self.hosts)

    @property
    def hosts(self) -> Mapping[str, LabHost]:
        state = json.loads((self.folder / folders.STATE).read_text())
        return {name: self._host(name, *rest) for name, rest in state["hosts"].items()}

    def _host(self, name: str, address: str, home: str, own_disk: bool) -> LabHost:
        folder = self.folder / "hosts" / name
        return LabHost(
            name=name,
            address=address,
            home=home,
            sshd_log=folder / "sshd.log",
            _folder=folder,
            _own_disk=own_disk,
            _lab=self,
        )

    def status(self) -> dict[str, tuple[int, list[str]]]:
        """Return process 1 (0 if down) and the present faults of each host."""
        return {name: (pid, faults) for name, (pid, faults) in self._ask_watchdog("status").items()}

    def fault(self, host: str, kind: str) -> None:
        self._require_host(host, guess=False)  # the fault would be another host's
        if kind not in FAULTS:
            near = nearest_word(kind, FAULTS)
            command = lab_command("fault", self.name, host, near or "KIND")
            command = command if near else f"# {command}"
            kinds = f"kinds: {', '.join(FAULTS)}"
            raise InputError(
                f"unknown fault '{kind}'", hint=f"{command}   # {kinds}", slug="unknown-fault"
            )
        self._ask_watchdog("fault", host=host, kind=kind)

    def heal(self, host: str) -> None:
        """Undo every fault of the host; one that was killed starts again."""
        self._require_host(host)
        self._ask_watchdog("heal", host=host)

    def is_up(self) -> bool:
        return is_up(self.folder)

    def down(self) -> None:
        """End the lab; returns when it is removed completely."""
        self._ask_watchdog("down")
        _wait_down(self.folder, self.link)

    def shell_argv(self, host: str, argv: Sequence[str] = (), *, user: str = "") -> list[str]:
        """Return a command that enters the host's namespaces without sshd."""
        pid = self.status()[self._require_host(host)][0]
        if not pid:
            raise InputError(
                f"{host} is not running",
                hint=f"{lab_command('heal', self.name, host)}   # starts it again",
                slug="lab-host-down",
            )
        user = self.user if self.rung == rung_limits.FLAT else user or self.user
        is_root = user == "root" and self.rung != rung_limits.FLAT
        home = "/root" if is_root else self.hosts[host].home
        env = ["env", "-i", f"PATH={config_text.PATH}", f"HOME={home}", f"USER={user}"]
        env += [f"LOGNAME={user}", "SHELL=/bin/bash", f"TERM={environment().get('TERM', 'dumb')}"]
        inside = ["sh", "-c", 'cd && exec "$@"', "sh", *(argv or ("bash", "-l"))]
        return [*self._enter_command(pid, 0 if user == "root" else self._uid), *env, *inside]

    def login_argv(self, host: str, argv: Sequence[str] = (), *, root: bool = False) -> list[str]:
        """Return a command that logs in over SSH and runs `argv`, or a shell; with `root`, or if
        this lab's sshd may be unable to allocate a terminal, that of `shell_argv`."""
        if root or self.rung == rung_limits.FLAT:
            return self.shell_argv(host, argv, user="root")
        if host not in self.addresses:
            self._require_host(host)
        target = self.addresses[0] if host in self.hosts and self.addresses else host
        return ["ssh", "-F", str(self.ssh_config), target, *([quote(argv)] if argv else ())]

    def _enter_command(self, pid: int, uid: int) -> list[str]:
        if self.rung == rung_limits.FLAT:
            return []
        if self.rung == rung_limits.FULL:
            return rung_limits.nsenter_command(pid, "-S", str(uid), "-G", str(uid))
        spaces = rung_limits.nsenter_command(pid, "-U", "--preserve-credentials")
        return [*spaces, *(rung_limits.as_user(self.rung, uid) if uid else ())]

    def run_in(
        self, host: str, argv: Sequence[str], *, user: str = "root", timeout: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on the host without sshd, as root unless told otherwise."""
        command = self.shell_argv(host, argv, user=user)
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout
        )

    def _require_host(self, host: str, *, guess: bool = True) -> str:
        if host not in self.hosts:
            hint = f"{lab_command('status', self.name)}   # its hosts: {fold(list(self.hosts))}"
            error = InputError(
                f"no host '{host}' in lab '{self.name}'", hint=hint, slug="unknown-lab-host"
            )
            raise error.with_meant(host, nearest_word(host, self.hosts) if guess else "")
        return host

    def _ask_watchdog(self, op: str, **rest: str) -> Any:
        return _ask(self.folder, {"op": op, **rest})


def list_lab_names(root: Path | None = None) -> list[str]:
    """Return the labs that are up; remains of dead ones in the state folder are removed."""
    base = root or state_root()
    return [name for name in folders.labs_in(base) if not remove_dead(base / name)]


def is_up(folder: Path) -> bool:
    """Decide whether a watchdog holds the lab's lock."""
    lock = _take(folder) if folder.exists() else os.open("/", os.O_RDONLY)
    if lock is not None:
        os.close(lock)
    return lock is None


def remove_dead(folder: Path) -> bool:
    """Remove a lab's files if its watchdog has ended; False if it is alive."""
    lock = _take(folder)
    if lock is None:
        return False
    folders.clear_lab_folder(folder)
    _lock_path(folder).unlink(missing_ok=True)
    os.close(lock)
    return True


def _lock_path(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.lock")


def _take(folder: Path, tries: int = 1) -> int | None:
    """Return the lab's lock as an open file, or None while a watchdog holds it.

    More `tries` outlast another process that only checks whether the lab is up.
    """
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = _lock_path(folder)
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        if not try_lock(lock):
            os.close(lock)
            tries -= 1
            if tries:
                time.sleep(0.05)
                continue
            return None
        # Another starter may have removed the file between our open and our lock.
        if is_named(lock, path):
            return lock
        os.close(lock)


def _start_watchdog(folder: Path, lock: int, owner: int) -> None:
    """Start the watchdog process and wait until the lab is up."""
    ready, out = os.pipe()
    argv = [sys.executable, "-m", "ipexctl.lab.cluster.watchdog", str(folder), str(out), str(owner)]
    with open(folder / "watchdog.log", "wb") as log:
        subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            pass_fds=(out, lock),
            env=PYTHON_ENV,
            cwd="/",  # Python would import modules of the current folder
        )
    os.close(out)
    with open(ready) as pipe:
        line = pipe.readline()
    if not line:
        why = (folder / "watchdog.log").read_text()[-2000:] if folder.exists() else ""
        raise HostFailed("the lab did not start", why=why, slug="lab-failed")
    _unwrap(json.loads(line))


def _ask(folder: Path, request: dict[str, str]) -> Any:
    """Send a request to the lab's watchdog and return its answer."""
    folder_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    line, why = "", "its watchdog has ended"
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(120)
            client.connect(f"/proc/self/fd/{folder_fd}/control.sock")
            client.sendall(json.dumps(request).encode() + b"\n")
            line = client.makefile("r").readline()
    except OSError as error:
        why = str(error)
    finally:
        os.close(folder_fd)
    if not line:
        raise HostFailed("the lab does not answer", why=why, slug="lab-no-answer")
    return _unwrap(json.loads(line))


def _unwrap(answer: dict[str, Any]) -> Any:
    if "error" in answer:
        error = answer["error"]
        kind = _ERRORS.get(error["type"], HostFailed)
        raise kind(error["what"], why=error["why"], hint=error["hint"], slug=error["slug"])
    return answer["ok"]


def _wait_down(folder: Path, link: str, seconds: float = 300) -> None:
    """Wait for the end: removing an environment of gigabytes on each host takes time."""
    if not wait_until(lambda: remove_dead(folder), seconds, 0.02):
        raise HostFailed(
            "the lab did not end", why=f"see {folder}/watchdog.log", slug="lab-not-ended"
        )
    lab_network.wait_gone(link)
