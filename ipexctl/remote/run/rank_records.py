"""Read what the processes of ranks write about their groups (ipexctl/in_ranks/rank_groups.py)."""

import os
import time
from contextlib import suppress

from ipexctl.common.exchange_report import RankProcess
from ipexctl.common.files import read_json

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Container
    from typing import Any

    Record = dict[str, Any]

LARGEST = 1 << 18  # bytes; a larger file is not read


class Records:
    def __init__(self, folder: str, modules: "Container[str]") -> None:
        """Take the `folder` of the records, and the `modules` that ranks import first."""
        self.folder = folder
        self.silent = "" if "rank_groups" in modules else "ranks are not asked (--no-inspect)"
        self.pids = {}  # type: dict[int, int]  # of a rank: what its wrapper has started
        # name of a file -> (when it was written, its size, its record)
        self.known = {}  # type: dict[str, tuple[float, int, Record]]

    def add(self, rank: int, pid: int) -> None:
        self.pids[rank] = pid

    def read(self) -> bool:
        """Read new and changed records. Return whether any record has changed."""
        try:
            names = [name for name in os.listdir(self.folder) if name.endswith(".groups")]
        except OSError:
            return False
        before = dict(self.known)
        for name in names:
            path = os.path.join(self.folder, name)
            try:
                status = os.stat(path)
            except OSError:
                continue
            mark = (status.st_mtime, status.st_size)
            if self.known.get(name, ())[:2] != mark and status.st_size <= LARGEST:
                self.known[name] = mark + (read_json(path) or {},)
        return self.known != before

    def processes(self) -> "tuple[RankProcess, ...]":
        """Return the processes started by the wrapper and those in a group: others that import
        torch, such as data loader workers, say nothing about the rank."""
        rows = {}
        for _, (written, _, record) in sorted(self.known.items()):
            pid, rank = record.get("pid"), record.get("rank")  # type: Any, Any
            is_main = pid is not None and self.pids.get(rank) == pid
            if is_main or (record.get("joined") and rank in self.pids):
                age = round(max(0.0, time.time() - written), 1)
                # the last one, if the process has replaced itself
                with suppress(TypeError, AttributeError):  # a script wrote the file
                    rows[pid] = RankProcess.read(dict(record, main=is_main, age=age))
        return tuple(rows.values())
