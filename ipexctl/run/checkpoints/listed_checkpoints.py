"""Merge reports of a run's hosts about checkpoints: which are complete, and where they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ipexctl.base.host_answer import Answer
from ipexctl.common.checkpoint_reports import CopiesReport, Manifest
from ipexctl.errors import InputError
from ipexctl.inventory.hostfile_text import fold
from ipexctl.quick_dataclass import dataclass

LAST = "last"


@dataclass(frozen=True)
class Holder:
    """A host that has a part. `name`: its name in the run."""

    target: str
    name: str


@dataclass(frozen=True)
class CheckpointPart:
    """The part of a checkpoint that one host wrote. `sha256`: of the list of its files."""

    host: str
    sha256: str
    bytes: int
    holders: tuple[Holder, ...]


@dataclass(frozen=True)
class ListedCheckpoint:
    """A checkpoint. `why`: why it is not complete, or "". `number`: order among complete ones."""

    name: str
    why: str
    bytes: int
    age: float | None  # seconds; None: unknown
    step: int | None = None
    number: int = 0
    parts: tuple[CheckpointPart, ...] = ()

    @property
    def is_complete(self) -> bool:
        return not self.why

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(sorted({holder.target for part in self.parts for holder in part.holders}))

    @property
    def title(self) -> str:
        """The name, as in `out/checkpoint-200 (step 200)`."""
        return self.name + (f" (step {self.step})" if self.step is not None else "")


@dataclass(frozen=True)
class CheckpointsOnHost:
    """What one host reports. `published`: complete ones, without the holders of their parts."""

    holder: Holder
    published: tuple[ListedCheckpoint, ...]
    held: frozenset[str]  # sha256 of the parts that are intact there
    pending: tuple[ListedCheckpoint, ...]  # what is not published


def read_on_host(target: str, answer: Answer) -> list[CheckpointsOnHost]:
    """Read the reports of a host: several if hosts share a home. Raise HostFailed."""
    return [
        CheckpointsOnHost(
            Holder(target, report.host),
            tuple(map(_read_published, report.manifests)),
            frozenset(report.held),
            tuple(ListedCheckpoint(p.name, p.why, p.bytes, p.age, p.step) for p in report.pending),
        )
        for report in answer.value("shelves", tuple[CopiesReport, ...])
    ]


def _read_published(report: Manifest) -> ListedCheckpoint:
    parts = tuple(
        CheckpointPart(h, piece.sha, piece.bytes, ()) for h, piece in sorted(report.parts.items())
    )
    size = sum(part.bytes for part in parts)
    return ListedCheckpoint(report.name, "", size, report.age, report.step, report.number, parts)


def merge_checkpoints(
    reports: Sequence[CheckpointsOnHost], *, alive: bool
) -> tuple[ListedCheckpoint, ...]:
    """Merge reports: incomplete checkpoints, then the others, newest first. `alive`: the run is."""
    by_number: dict[int, ListedCheckpoint] = {}
    for report in reports:
        for checkpoint in report.published:
            by_number.setdefault(checkpoint.number, checkpoint)
    complete = [_add_holders(by_number[n], reports) for n in sorted(by_number, reverse=True)]
    ended = "the attempt ended before it was copied"
    pending = [replace(c, why=c.why if alive else ended) for r in reports for c in r.pending]
    return (*sorted(pending, key=lambda c: c.age or 0.0), *complete)


def _add_holders(
    checkpoint: ListedCheckpoint, reports: Sequence[CheckpointsOnHost]
) -> ListedCheckpoint:
    """Add the hosts that hold each part; without one, the checkpoint is incomplete."""
    parts = tuple(
        replace(part, holders=tuple(r.holder for r in reports if part.sha256 in r.held))
        for part in checkpoint.parts
    )
    lost = [part.host for part in parts if not part.holders]
    why = f"no host here has the part of {fold(lost)}" if lost else ""
    return replace(checkpoint, why=why, parts=parts)


def choose_checkpoint(listed: Sequence[ListedCheckpoint], name: str, run: str) -> ListedCheckpoint:
    """Return the last complete checkpoint, or the last one with that name. Raise InputError."""
    complete = [c for c in listed if c.is_complete]
    named = [c for c in complete if name in (LAST, c.name, c.name.rpartition("/")[2], str(c.step))]
    if named:
        return named[0]
    why = "; ".join(f"{c.title}: {c.why}" for c in listed if not c.is_complete)
    problem = "has no complete checkpoint" if name == LAST else f"has no complete checkpoint {name}"
    names = ", ".join(c.name for c in complete)
    raise InputError(
        f"{run} {problem} on these hosts",
        why=why
        or (f"it has {names}" if names else "it ran without --checkpoints, or none was finished"),
        hint=f"ipexctl checkpoints {run}",
        slug="checkpoint-not-found",
    )


def list_unused_checkpoints(
    listed: Sequence[ListedCheckpoint], used: ListedCheckpoint
) -> tuple[str, ...]:
    """Return checkpoints that are newer than `used` and not complete."""
    newer = listed[: listed.index(used)]
    return tuple(f"{c.title}: {c.why}" for c in newer if not c.is_complete)


def split_checkpoint_name(text: str) -> tuple[str, str]:
    """Split RUN[:NAME]."""
    run, _, name = text.partition(":")
    return run, name or LAST
