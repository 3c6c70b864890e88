"""What cannot be looked up on the hosts: `sh` steps that were done, for --resume; and handlers that
were notified and have not run, as the play was stopped before its end."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Collection
from dataclasses import field
from pathlib import Path

from ipexctl.common.files import write_atomic
from ipexctl.local.user_dirs import make_private, state_dir
from ipexctl.quick_dataclass import dataclass

_MOST = 16 << 20


@dataclass
class PlayJournal:
    """One file for each play, by its path; a line for each step that a host has done, and one with
    a minus for each that begins again."""

    path: Path
    known: set[str] = field(default_factory=set)
    resume: bool = False
    pending: dict[str, list[str]] = field(default_factory=dict)  # handler -> hosts
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def is_done(self, host: str, what: str) -> bool:
        """Without `resume` a step that was done is done again: until then it is forgotten."""
        key = _key(host, what)
        if self.resume or key not in self.known:
            return key in self.known
        self.known.discard(key)
        self._append(f"-{key}")
        return False

    def record(self, host: str, what: str) -> None:
        """On the disk before the next step begins."""
        key = _key(host, what)
        self.known.add(key)
        self._append(key)

    def _append(self, line: str) -> None:
        with self._lock, self.path.open("a") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())

    def notified(self, host: str, handler: str) -> None:
        with self._lock:
            hosts = self.pending.setdefault(handler, [])
            if host not in hosts:
                hosts.append(host)
                self._keep_pending()

    def handled(self, hosts: Collection[str], handler: str) -> None:
        with self._lock:
            left = [host for host in self.pending.pop(handler, []) if host not in hosts]
            if left:
                self.pending[handler] = left
            self._keep_pending()

    def _keep_pending(self) -> None:
        write_atomic(self.path.with_suffix(".pending"), json.dumps(self.pending).encode())


def open_journal(source: str, *, resume: bool) -> PlayJournal:
    """What other hosts and steps have done stays known, whatever this run is narrowed to."""
    path = _path(source)
    make_private(path.parent)
    known: set[str] = set()
    for line in (path.read_text()[:_MOST] if path.exists() else "").splitlines():
        (known.discard if line.startswith("-") else known.add)(line.removeprefix("-"))
    write_atomic(path, "".join(f"{key}\n" for key in sorted(known)).encode())
    return PlayJournal(path, known, resume, _pending(path.with_suffix(".pending")))


def pending_handlers(source: str) -> dict[str, list[str]]:
    """Handler -> hosts on which it was notified by a run that was stopped before it ran."""
    return _pending(_path(source).with_suffix(".pending"))


def _path(source: str) -> Path:
    name = hashlib.sha256(str(Path(source).resolve()).encode()).hexdigest()[:24]
    return state_dir() / "plays" / f"{name}.done"


def _pending(path: Path) -> dict[str, list[str]]:
    try:
        found = json.loads(path.read_text()[:_MOST])
        return {str(name): list(map(str, hosts)) for name, hosts in found.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def _key(host: str, what: str) -> str:
    return hashlib.sha256(f"{host}\0{what}".encode()).hexdigest()
