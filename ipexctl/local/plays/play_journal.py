"""What cannot be looked up on the hosts: `sh` steps that were done, for --resume; and handlers that
were notified and have not run, as the play was stopped before its end."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from ipexctl.local.atomic_file import write_atomic
from ipexctl.local.user_dirs import make_private, state_dir

_MOST = 16 << 20


@dataclass
class PlayJournal:
    """One file for each play, by its path; a line for each step that a host has done."""

    path: Path
    known: frozenset[str] = frozenset()
    pending: dict[str, list[str]] = field(default_factory=dict)  # handler -> hosts
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def is_done(self, host: str, what: str) -> bool:
        return _key(host, what) in self.known

    def record(self, host: str, what: str) -> None:
        """On the disk before the next step begins."""
        with self._lock, self.path.open("a") as file:
            file.write(_key(host, what) + "\n")
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
    """Without `resume` a new one, which forgets what was done before."""
    folder = state_dir() / "plays"
    make_private(folder)
    name = hashlib.sha256(str(Path(source).resolve()).encode()).hexdigest()[:24]
    path = folder / f"{name}.done"
    pending = _pending(path.with_suffix(".pending"))
    if not resume:
        path.write_text("")
        return PlayJournal(path, pending=pending)
    text = path.read_text()[:_MOST] if path.exists() else ""
    return PlayJournal(path, frozenset(text.splitlines()), pending)


def _pending(path: Path) -> dict[str, list[str]]:
    try:
        found = json.loads(path.read_text()[:_MOST])
        return {str(name): list(map(str, hosts)) for name, hosts in found.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def _key(host: str, what: str) -> str:
    return hashlib.sha256(f"{host}\0{what}".encode()).hexdigest()
