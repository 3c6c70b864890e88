"""Keep the run's folder here, `.ipexctl/runs/<id>`: the output of every rank, the plan, the result.

Output is written here before it is shown. If this folder cannot be written, the run goes on, and
a note says what is missing: the files on the hosts are complete in any case.
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from ipexctl.errors import InputError
from ipexctl.explain.known_failures import known_failures
from ipexctl.inventory.hostfile_text import fold
from ipexctl.local.ownership import untrusted_above, untrusted_here
from ipexctl.local.user_dirs import make_private, state_dir
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.outcome.result_document import full_plan, result_document
from ipexctl.run.outcome.run_result import LocalRunFolder, RunResult
from ipexctl.run.plan.launch import LaunchPlan

FOLDER = Path(".ipexctl")


@dataclass
class RunFolder:
    """The folder of an attempt. `folder` is empty if none could be made; all methods work then."""

    folder: Path | None
    trouble: list[str] = field(default_factory=list)
    _broken: bool = False

    @classmethod
    def make(cls, here: Path, run_id: str) -> RunFolder:
        """Create the folder of an attempt; if that fails, `trouble` says why."""
        try:
            folder = _make_private_parents(here, run_id)
            folder.mkdir(mode=0o700)
            (folder / "logs").mkdir(mode=0o700)
        except OSError as e:
            why = f"{e.strerror or e}: {e.filename or here / FOLDER}"
            return cls(None, [f"nothing is kept here ({why}); the logs stay on the hosts"])
        return cls(folder)

    def append_log(self, host: str, rank: int | None, data: bytes) -> None:
        """Write bytes of a rank, or of MPI's own programs on the host."""
        if self.folder is None or self._broken or not data:
            return
        name = f"mpi.{safe_host_name(host)}.log" if rank is None else log_name(host, rank)
        self._append_bytes(self.folder / "logs" / name, data)

    def keep_document(self, name: str, document: Mapping[str, Any]) -> None:
        if self.folder is not None and not self._broken:
            try:
                _write_file(self.folder / name, json.dumps(document, indent=1) + "\n")
            except OSError as e:
                self._note_failure(e)

    def note_missing_logs(self, hosts: list[str]) -> None:
        """Note hosts whose last output did not come."""
        if hosts and self.folder is not None:
            self.trouble.append(f"the logs of {fold(hosts)} here end at the last contact")

    def describe_folder(self) -> LocalRunFolder:
        return LocalRunFolder(str(self.folder) if self.folder else "", tuple(self.trouble))

    def _append_bytes(self, path: Path, data: bytes) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        try:
            with os.fdopen(os.open(path, flags, 0o600), "ab") as file:
                file.write(data)
        except OSError as e:
            self._note_failure(e)

    def _note_failure(self, e: OSError) -> None:
        self.trouble.append(
            f"{self.folder} is not complete ({e.strerror or e}); the logs on the hosts are"
        )
        self._broken = True


@dataclass
class AttemptFolders:
    """The folders of a run's attempts; without `here`, nothing is kept."""

    here: Path | None = None
    name: str = ""  # of the run
    _made: dict[str, RunFolder] = field(default_factory=dict)

    def make(self, run_id: str, plan: LaunchPlan) -> RunFolder:
        if self.here and run_id not in self._made:
            record = self._made[run_id] = RunFolder.make(self.here, run_id)
            record.keep_document(
                "plan.json", {"run_id": run_id, "name": self.name, **full_plan(plan)}
            )
        return self.find_folder(run_id)

    def find_folder(self, run_id: str) -> RunFolder:
        return self._made.get(run_id, RunFolder(None))

    def keep_result(self, result: RunResult) -> None:
        self.find_folder(result.run_id).keep_document(
            "result.json", result_document(result, known_failures)
        )


def find_run_folder(here: Path, run_id: str) -> Path:
    """Return the folder of a run that may have been started elsewhere. Raise InputError."""
    try:
        folder = _make_private_parents(here, run_id)
        _require_private(folder)
    except OSError as e:
        raise InputError(
            f"{e.filename or here / FOLDER}: no folder for the files ({e.strerror or e})",
            hint="run it in a folder that you can write to",
            slug="run-folder-not-writable",
        ) from None
    return folder


def _make_private_parents(here: Path, run_id: str) -> Path:
    """Return the folder's path; it is not created, but private folders above it are. If others
    could replace `.ipexctl`, it is below the user's state folder."""
    top = here / FOLDER
    if untrusted_here(here) or untrusted_above(here):
        top = state_dir()
        make_private(top)
    _require_private(top)
    _require_private(top / "runs")
    ignore = top / ".gitignore"
    if not ignore.exists():
        _write_file(ignore, "*\n")
    return top / "runs" / run_id


def log_name(host: str, rank: int) -> str:
    return f"rank{rank:05d}.{safe_host_name(host)}.log"


def safe_host_name(host: str) -> str:
    """Return a host's name as part of a file's name."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", host)[:100]


def _require_private(folder: Path) -> None:
    """Check that the folder is the user's, and not a link: output of ranks may be secret."""
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or (why := untrusted_here(folder)):
        raise PermissionError(errno.EPERM, "it is a link" if folder.is_symlink() else why)


def _write_file(path: Path, text: str) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8") as f:
        f.write(text)
