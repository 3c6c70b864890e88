"""What --check can report about a step, given what earlier steps would change on that host."""

from __future__ import annotations

from collections.abc import Iterable

from ipexctl.play.text.play_outcome import State
from ipexctl.quick_dataclass import dataclass

ANY, PACKAGES = "any", "packages"


@dataclass(frozen=True)
class StepPrediction:
    """What a host found. `changed` None: it cannot know. `failed`: the step would fail on the host
    in its present state; with `changed`, it would not once an earlier step has made what it reads.
    `reads` and `writes` are `path:/x`, `service:x`, `packages` or `any`. A read `exists:/x` or
    `any` decides whether the step acts at all."""

    changed: bool | None
    failed: bool = False
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()


def predict_state(preview: StepPrediction, pending: Iterable[str]) -> State:
    """Predict the state. `pending`: what earlier steps would write. A step that would change
    something still would then; one that changes nothing or fails now may not."""
    pending = set(pending)
    later = any(_paths_overlap(read, write) for read in preview.reads for write in pending)
    if preview.failed and not later and PACKAGES not in pending:
        return State.FAILED
    if preview.changed and not _decided_by_earlier(preview.reads, pending):
        return State.WOULD_CHANGE
    unknown = preview.changed is None or preview.failed or preview.changed or later
    return State.UNKNOWN if unknown else State.OK


def _decided_by_earlier(reads: Iterable[str], pending: Iterable[str]) -> bool:
    """Decide whether an earlier step determines if this step does anything."""
    deciding = [read for read in reads if read == ANY or read.startswith(_EXISTS)]
    return any(_paths_overlap(read, write) for read in deciding for write in pending)


_EXISTS = "exists:"


def _paths_overlap(read: str, write: str) -> bool:
    read = f"path:{read.removeprefix(_EXISTS)}" if read.startswith(_EXISTS) else read
    if ANY in (read, write) or read == write:
        return True
    if not (read.startswith("path:") and write.startswith("path:")):
        return False
    return read.startswith(write.rstrip("/") + "/") or write.startswith(read.rstrip("/") + "/")
