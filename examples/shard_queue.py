"""Shards of any work that ranks take one by one, without collectives: embed_shards.py uses it.

Rank 0 keeps the counts, in a TCPStore. At the end, ranks without work take what another rank has
taken and not finished. Each finished shard is a file on the host that computed it.
"""

import os
import random
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

ENV = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29400"}
ENV.update(os.environ)
RANK, WORLD = int(ENV["RANK"]), int(ENV["WORLD_SIZE"])


def store_of_all_ranks():
    from torch.distributed import TCPStore  # here: in_order() needs no torch

    address, port = ENV["MASTER_ADDR"], int(ENV["MASTER_PORT"])
    return TCPStore(address, port, is_master=RANK == 0, wait_for_workers=False)


class Shards:
    """The shards that this rank has to compute. `keep`: a folder of the host that has what earlier
    runs have finished. `out`: this run's part of the result, for `ipexctl fetch`."""

    def __init__(self, store, count: int, keep: Path, out: Path = Path("out")) -> None:
        self.store, self.count, self.keep, self.out = store, count, keep, out
        self.kept = self.finished = 0
        keep.mkdir(parents=True, exist_ok=True)
        out.mkdir(exist_ok=True)
        for path in sorted(keep.glob("*.npy")):
            self.kept += self.claim(int(path.name[:6]))

    def __iter__(self) -> Iterator[int]:
        while (shard := self.store.add("next", 1) - 1) < self.count:
            if not self.done(shard):
                yield shard
        for shard in random.sample(range(self.count), self.count):  # what others have not finished
            if not self.done(shard):
                yield shard

    def done(self, shard: int) -> bool:
        return self.store.check([f"done {shard}"])

    def finish(self, shard: int, save: Callable[[BinaryIO], None]) -> None:
        """On the disk first, under its name only when it is complete, then announced."""
        path = self.path(shard)
        part = path.with_suffix(f".part{RANK}-{os.getpid()}")
        with part.open("wb") as file:
            save(file)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        if self.claim(shard):
            self.finished += 1
            self.store.add("computed", 1)

    def leave(self) -> None:
        """The store ends with rank 0, so that one is the last."""
        self.store.add("left", 1)
        while RANK == 0 and self.store.add("left", 0) < WORLD:
            time.sleep(0.05)

    def claim(self, shard: int) -> bool:
        """One rank is the first to have the shard: its file is a part of the result."""
        first = self.store.add(f"done {shard}", 1) == 1
        if first:
            link = self.out / self.path(shard).name
            link.unlink(missing_ok=True)  # of an earlier attempt
            try:
                os.link(self.path(shard), link)
            except OSError:  # on another disk
                shutil.copyfile(self.path(shard), link)
        return first

    def path(self, shard: int) -> Path:
        return self.keep / f"{shard:06}-of-{self.count:06}.npy"


def in_order(folder: Path) -> list[Path]:
    """Every shard once; what a host lost earlier brought again is in @HOST and left out."""
    paths = sorted(folder.glob("*-of-*.npy"))
    count = int(paths[0].stem[-6:]) if paths else 0
    missing = sorted(set(range(count)) - {int(path.name[:6]) for path in paths})
    if missing or len(paths) != count or not paths:
        sys.exit(f"{folder}: shards {missing} of {count} are missing: start the run again")
    return paths
