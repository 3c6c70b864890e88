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


def predict_state(looked: StepPrediction, pending: Iterable[str]) -> State:
    """Predict the state. `pending`: what earlier steps would write, or may. A change that is due
    stays due; what is unchanged or fails now may be different by then."""
    pending = set(pending)
    later = any(_paths_overlap(mine, theirs) for mine in looked.reads for theirs in pending)
    if looked.failed and not later and PACKAGES not in pending:
        return State.FAILED
    if looked.changed and not _decided_by_earlier(looked.reads, pending):
        return State.WOULD_CHANGE
    unknown = looked.changed is None or looked.failed or looked.changed or later
    return State.UNKNOWN if unknown else State.OK


def _decided_by_earlier(reads: Iterable[str], pending: Iterable[str]) -> bool:
    """Decide whether an earlier step determines if this one acts at all."""
    deciding = [mine for mine in reads if mine == ANY or mine.startswith(_EXISTS)]
    return any(_paths_overlap(mine, theirs) for mine in deciding for theirs in pending)


_EXISTS = "exists:"


def _paths_overlap(mine: str, theirs: str) -> bool:
    mine = f"path:{mine.removeprefix(_EXISTS)}" if mine.startswith(_EXISTS) else mine
    if ANY in (mine, theirs) or mine == theirs:
        return True
    if not (mine.startswith("path:") and theirs.startswith("path:")):
        return False
    return mine.startswith(theirs.rstrip("/") + "/") or theirs.startswith(mine.rstrip("/") + "/")
