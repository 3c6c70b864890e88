"""What plays have done that cannot be looked up on the hosts: their `sh` steps, for --resume."""

from __future__ import annotations

import hashlib
import os
import threading
from dataclasses import dataclass, field
from pathlib import Path

from ipexctl.local.user_dirs import make_private, state_dir

_MOST = 16 << 20


@dataclass
class PlayJournal:
    """One file for each play, by its path; a line for each step that a host has done."""

    path: Path
    known: frozenset[str] = frozenset()
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def is_done(self, host: str, what: str) -> bool:
        return _key(host, what) in self.known

    def record(self, host: str, what: str) -> None:
        """On the disk before the next step begins."""
        with self._lock, self.path.open("a") as file:
            file.write(_key(host, what) + "\n")
            file.flush()
            os.fsync(file.fileno())


def open_journal(source: str, *, resume: bool) -> PlayJournal:
    """Without `resume` a new one, which forgets what was done before."""
    folder = state_dir() / "plays"
    make_private(folder)
    name = hashlib.sha256(str(Path(source).resolve()).encode()).hexdigest()[:24]
    path = folder / f"{name}.done"
    if not resume:
        path.write_text("")
        return PlayJournal(path)
    text = path.read_text()[:_MOST] if path.exists() else ""
    return PlayJournal(path, frozenset(text.splitlines()))


def _key(host: str, what: str) -> str:
    return hashlib.sha256(f"{host}\0{what}".encode()).hexdigest()
