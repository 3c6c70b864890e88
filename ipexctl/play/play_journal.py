"""Progress that cannot be read from the hosts: `sh` steps that are done, for --resume; and handlers
that were notified and did not run because the play was stopped."""

from __future__ import annotations

import hashlib
import os
import threading
from dataclasses import field
from pathlib import Path

from ipexctl.common.files import write_atomic
from ipexctl.local.user_dirs import make_private, state_dir
from ipexctl.quick_dataclass import dataclass

_MOST_BYTES = 16 << 20


@dataclass
class PlayJournal:
    """One file for each play, by its path: a line for each note about a host, and one with a minus
    for a note that is withdrawn. `check`: the file is not changed."""

    path: Path
    known: set[str] = field(default_factory=set)
    resume: bool = False
    check: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def has_entry(self, host: str, entry: str) -> bool:
        return _journal_key(host, entry) in self.known

    def note(self, host: str, entry: str, *, sync: bool = True) -> None:
        """Add a note. `sync`: write it to the disk before the next step begins."""
        if not self.check:
            self.known.add(_journal_key(host, entry))
            self._append_line(_journal_key(host, entry), sync)

    def forget_entry(self, host: str, entry: str, *, sync: bool = True) -> None:
        if not self.check and self.has_entry(host, entry):
            self.known.discard(_journal_key(host, entry))
            self._append_line(f"-{_journal_key(host, entry)}", sync)

    def is_done(self, host: str, entry: str) -> bool:
        """Return whether the step can be skipped; without `resume` forget it: it runs again."""
        if not self.resume:
            self.forget_entry(host, entry)
        return self.resume and self.has_entry(host, entry)

    def _append_line(self, line: str, sync: bool) -> None:
        with self._lock, self.path.open("a") as file:
            file.write(line + "\n")
            file.flush()
            if sync:
                os.fsync(file.fileno())


def open_journal(source: str, *, resume: bool, check: bool) -> PlayJournal:
    """Open the journal. Notes of other hosts and steps are kept, whatever limits this run."""
    name = hashlib.sha256(str(Path(source).resolve()).encode()).hexdigest()[:24]
    path = state_dir() / "plays" / f"{name}.done"
    keys: set[str] = set()
    for line in (path.read_text()[:_MOST_BYTES] if path.exists() else "").splitlines():
        (keys.discard if line.startswith("-") else keys.add)(line.removeprefix("-"))
    if not check:
        make_private(path.parent)
        write_atomic(path, "".join(f"{key}\n" for key in sorted(keys)).encode())
    return PlayJournal(path, keys, resume, check)


def of_handler(name: str) -> str:
    """Return the note for a handler that was notified."""
    return f"handler {name}"


def _journal_key(host: str, entry: str) -> str:
    return hashlib.sha256(f"{host}\0{entry}".encode()).hexdigest()
