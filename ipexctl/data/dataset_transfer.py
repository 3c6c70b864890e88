"""Send a dataset to hosts: missing content is cut into blobs, which any host can pass on.

A large file is one blob. Many small files share one blob, a pack. Rounds limit the disk space that
packs take in addition to the files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from ipexctl.base.blob import Blob
from ipexctl.blobs.blob_relay import Carrier, Moved, Tell
from ipexctl.blobs.blob_store import Room, missing_blobs, need_room
from ipexctl.common.folder_answers import DatasetBusy, DatasetMade
from ipexctl.machines.agent import LONG, Agent
from ipexctl.project.folder_transfer import (
    SILENCE,
    Pack,
    TreeContents,
    ask_complete,
    ask_missing,
    checked_kind,
    dropped_on_error,
)
from ipexctl.quick_dataclass import dataclass

MODULE = "data.datasets"
ROUND = 512 << 20  # bytes of packs that a host holds in addition to the files
NAMED = 100_000  # contents that are listed in one request


@dataclass(frozen=True)
class Round:
    """What one host gets in one round."""

    whole: tuple[Blob, ...] = ()
    packs: tuple[Pack, ...] = ()

    @property
    def blobs(self) -> tuple[Blob, ...]:
        return (*self.whole, *(pack.blob for pack in self.packs))


@dataclass
class Transfer:
    """A dataset on its way to one host. `done`: the host's answer if it has everything. `busy`:
    another push to it is running. `moved`: bytes so far, also if the host fails afterwards."""

    bundle: TreeContents
    asked: Mapping[str, Any]
    agent: Agent
    root: str
    done: DatasetMade | None = None
    busy: bool = False
    missing: Sequence[int] = ()
    moved: Moved = Moved()

    def begin(self, *, wait: bool = False) -> Transfer:
        """Ask the host what it lacks."""
        header = {**self._header, "wait": wait}
        with self._dropped_on_error():
            answer, self.missing = ask_missing(self.agent, self.bundle, header, MODULE)
            self.busy = isinstance(answer, DatasetBusy)
            if not (self.busy or self.missing):
                self.done = checked_kind(self.agent, answer, DatasetMade)
        return self

    def rounds(self) -> tuple[Round, ...]:
        """Return what the host has to get, in order; packed once for all hosts that lack it."""
        with self._dropped_on_error():
            large, packs = self.bundle.blobs(self.missing)
            return tuple(_transfer_rounds(large, packs))

    def bring(self, carrier: Carrier, batch: Round, tell: Tell) -> None:
        """Send the blobs of the round to the host."""
        with self._dropped_on_error():
            missing = missing_blobs(self.agent, self.root, batch.blobs)
            need_room(self.agent, self.root, Room(sum(blob.size for blob in missing), len(missing)))
            self.moved += carrier.bring(self.agent, self.root, batch.blobs, tell)

    def take(self, batch: Round) -> None:
        """Have the host put the files of the round's packs in place."""
        if batch.packs:
            header = {**self._header, "packs": [pack.row for pack in batch.packs]}
            with self._dropped_on_error():
                self.agent.call(f"{MODULE}.take", header, timeout=SILENCE, total=LONG)

    def finish(self) -> DatasetMade:
        with self._dropped_on_error():
            return ask_complete(self.agent, self.bundle, self._header, MODULE, DatasetMade)

    def bring_alone(self, carrier: Carrier, tell: Tell) -> DatasetMade:
        """Send everything to the host, once no other push to it is running."""
        if answer := self.begin(wait=True).done:
            return answer
        for batch in self.rounds():
            self.bring(carrier, batch, tell)
            self.take(batch)
        return self.finish()

    @property
    def _header(self) -> dict[str, Any]:
        return {**self.asked, "root": self.root, "key": self.bundle.tree.key}

    def _dropped_on_error(self) -> AbstractContextManager[None]:
        return dropped_on_error(self.agent, MODULE, self._header)


def _transfer_rounds(large: Sequence[Blob], packs: Sequence[Pack]) -> Iterator[Round]:
    """Split into rounds; large files need no additional space: they are in the first one."""
    current, size, named = Round(tuple(large)), 0, 0
    for pack in packs:
        if size and (size + pack.size > ROUND or named + len(pack.files) > NAMED):
            yield current
            current, size, named = Round(), 0, 0
        current = Round(current.whole, (*current.packs, pack))
        size, named = size + pack.size, named + len(pack.files)
    yield current
