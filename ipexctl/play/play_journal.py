"""What cannot be looked up on the hosts: `sh` steps that were done, for --resume; and handlers that
were notified and have not run, as the play was stopped before its end."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Collection
from dataclasses import field
from pathlib import Path
from typing import Any

from ipexctl.common.files import write_atomic
from ipexctl.local.memory import Memory
from ipexctl.local.user_dirs import make_private
from ipexctl.quick_dataclass import dataclass

_MOST = 16 << 20


@dataclass
class PlayJournal:
    """Two files for each play, by its path: a line for each step that a host has done, and one with
    a minus for each that begins again; and a memory of handlers."""

    memory: Memory
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
        with self._lock, _steps(self.memory).open("a") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())

    def notified(self, host: str, handler: str) -> None:
        with self._lock:
            hosts = self.pending.setdefault(handler, [])
            if host not in hosts:
                hosts.append(host)
                self.memory.write(self.pending)

    def handled(self, hosts: Collection[str], handler: str) -> None:
        with self._lock:
            left = [host for host in self.pending.pop(handler, []) if host not in hosts]
            if left:
                self.pending[handler] = left
            self.memory.write(self.pending)


def open_journal(source: str, *, resume: bool) -> PlayJournal:
    """What other hosts and steps have done stays known, whatever this run is narrowed to."""
    memory = _memory(source)
    path = _steps(memory)
    make_private(path.parent)
    known: set[str] = set()
    for line in (path.read_text()[:_MOST] if path.exists() else "").splitlines():
        (known.discard if line.startswith("-") else known.add)(line.removeprefix("-"))
    write_atomic(path, "".join(f"{key}\n" for key in sorted(known)).encode())
    return PlayJournal(memory, known, resume, memory.load())


def pending_handlers(source: str) -> dict[str, Any]:
    """Handler -> hosts on which it was notified by a run that was stopped before it ran."""
    return _memory(source).load()


def _memory(source: str) -> Memory:
    name = hashlib.sha256(str(Path(source).resolve()).encode()).hexdigest()[:24]
    return Memory(f"plays/{name}")


def _steps(memory: Memory) -> Path:
    return memory.path.with_suffix(".done")


def _key(host: str, what: str) -> str:
    return hashlib.sha256(f"{host}\0{what}".encode()).hexdigest()
