"""Merge reports of a run's hosts about checkpoints: which are complete, and where they are."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace

from ipexctl.base.host_answer import Answer
from ipexctl.base.quoting import quote
from ipexctl.base.sizes import duration, format_bytes
from ipexctl.common import run_events
from ipexctl.common.checkpoint_reports import Manifest, ShelfReport
from ipexctl.errors import InputError
from ipexctl.inventory.hostfile_text import fold
from ipexctl.quick_dataclass import dataclass

LAST = "last"
EXAMPLE = "--resume-arg '--resume_from_checkpoint {checkpoint}'"


@dataclass(frozen=True)
class Holder:
    """A host that has a part. `shelf`: its name in the run."""

    target: str
    shelf: str


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
    def complete(self) -> bool:
        return not self.why

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(sorted({h.target for part in self.parts for h in part.holders}))

    @property
    def told(self) -> str:
        """The name, as in `out/checkpoint-200 (step 200)`."""
        return self.name + (f" (step {self.step})" if self.step is not None else "")


@dataclass(frozen=True)
class CheckpointsOnHost:
    """What one host reports. `published`: complete ones, without the holders of their parts."""

    holder: Holder
    published: tuple[ListedCheckpoint, ...]
    held: frozenset[str]  # sha256 of the parts that are intact there
    pending: tuple[ListedCheckpoint, ...]  # what is not published


def read_on_host(target: str, said: Answer) -> list[CheckpointsOnHost]:
    """Read the reports of a host: several if hosts share a home. Raise HostFailed."""
    return [
        CheckpointsOnHost(
            Holder(target, shelf.host),
            tuple(map(_complete_checkpoint, shelf.manifests)),
            frozenset(shelf.held),
            tuple(ListedCheckpoint(p.name, p.why, p.bytes, p.age, p.step) for p in shelf.pending),
        )
        for shelf in said.value("shelves", tuple[ShelfReport, ...])
    ]


def _complete_checkpoint(found: Manifest) -> ListedCheckpoint:
    parts = tuple(
        CheckpointPart(h, one.sha, one.bytes, ()) for h, one in sorted(found.parts.items())
    )
    size = sum(part.bytes for part in parts)
    return ListedCheckpoint(found.name, "", size, found.age, found.step, found.number, parts)


def merge_checkpoints(
    reports: Sequence[CheckpointsOnHost], *, alive: bool
) -> tuple[ListedCheckpoint, ...]:
    """Merge reports: incomplete checkpoints, then the others, newest first. `alive`: the run is."""
    found: dict[int, ListedCheckpoint] = {}
    for report in reports:
        for one in report.published:
            found.setdefault(one.number, one)
    done = [_with_holders(found[n], reports) for n in sorted(found, reverse=True)]
    ended = "the attempt ended before it was copied"
    open_ = [replace(c, why=c.why if alive else ended) for r in reports for c in r.pending]
    return (*sorted(open_, key=lambda c: c.age or 0.0), *done)


def _with_holders(
    found: ListedCheckpoint, reports: Sequence[CheckpointsOnHost]
) -> ListedCheckpoint:
    parts = tuple(
        replace(part, holders=tuple(r.holder for r in reports if part.sha256 in r.held))
        for part in found.parts
    )
    gone = [part.host for part in parts if not part.holders]
    why = f"no host here has the part of {fold(gone)}" if gone else ""
    return replace(found, why=why, parts=parts)


def choose_checkpoint(found: Sequence[ListedCheckpoint], name: str, run: str) -> ListedCheckpoint:
    """Return the last complete checkpoint, or the last one with that name. Raise InputError."""
    complete = [c for c in found if c.complete]
    named = [c for c in complete if name in (LAST, c.name, c.name.rpartition("/")[2], str(c.step))]
    if named:
        return named[0]
    why = "; ".join(f"{c.told}: {c.why}" for c in found if not c.complete)
    what = "has no complete checkpoint" if name == LAST else f"has no complete checkpoint {name}"
    has = ", ".join(c.name for c in complete)
    raise InputError(
        f"{run} {what} on these hosts",
        why=why
        or (f"it has {has}" if has else "it ran without --checkpoints, or none was finished"),
        hint=f"ipexctl checkpoints {run}",
        slug="checkpoint-not-found",
    )


def left_behind(found: Sequence[ListedCheckpoint], used: ListedCheckpoint) -> tuple[str, ...]:
    """Return checkpoints that are newer than `used` and not complete."""
    newer = found[: found.index(used)]
    return tuple(f"{c.told}: {c.why}" for c in newer if not c.complete)


def patterns_of(text: str) -> tuple[str, ...]:
    """Parse --checkpoints. Raise InputError."""
    patterns = tuple(part for part in (p.strip() for p in text.split(",")) if part)
    for pattern in patterns:
        if pattern.startswith(("/", "~")) or ".." in pattern.split("/"):
            raise InputError(
                f"--checkpoints {quote((pattern,))}: not below the folder where ranks start",
                hint="--checkpoints 'out/checkpoint-*'",
                slug="checkpoint-pattern-outside",
            )
    return patterns


def run_and_name(text: str) -> tuple[str, str]:
    """Split RUN[:NAME]."""
    run, _, name = text.partition(":")
    return run, name or LAST


def resume_words(text: str, path: str) -> tuple[str, ...]:
    """Return the script's additional arguments; none without a checkpoint. Raise InputError."""
    try:
        words = shlex.split(text)
    except ValueError as e:
        raise InputError(
            f"--resume-arg {quote((text,))}: {e}",
            hint=EXAMPLE,
            slug="resume-arg-invalid",
        ) from None
    if words and "{checkpoint}" not in text:
        raise InputError(
            f"--resume-arg {quote((text,))}: {{checkpoint}} is missing",
            why="it stands for the path of the checkpoint",
            hint=EXAMPLE,
            slug="resume-arg-invalid",
        )
    return tuple(word.replace("{checkpoint}", path) for word in words) if path else ()


def checkpoint_note(event: run_events.Checkpoint) -> str:
    """Return the note about a checkpoint that is complete."""
    if event.withdrawn:
        return f"checkpoint {event.name} was not complete: another host wrote to it later"
    how = f"complete on {fold(event.hosts)} after {duration(event.seconds)}"
    return f"checkpoint {event.name} ({format_bytes(event.bytes)}): {how}"
