"""Merge reports of a run's hosts about checkpoints: which are complete, and where they are."""

from __future__ import annotations

from collections.abc import Sequence

from ipexctl.base.host_answer import Answer
from ipexctl.common.attempt_record import AttemptBegins
from ipexctl.common.checkpoint_names import kinds_of
from ipexctl.common.checkpoint_reports import CopiesReport, CopiesReports, Manifest
from ipexctl.errors import InputError
from ipexctl.inventory.hostfile_text import fold
from ipexctl.quick_dataclass import dataclass

LAST = "last"


@dataclass(frozen=True)
class Holder:
    """A host that has a part. `name`: its name in the run."""

    target: str
    name: str


HeldCopies = tuple[Holder, CopiesReport]


@dataclass(frozen=True)
class CheckpointPart:
    """The part of a checkpoint that one host wrote. `sha256`: of the list of its files."""

    host: str
    sha256: str
    bytes: int
    holders: tuple[Holder, ...]


@dataclass(frozen=True)
class ListedCheckpoint:
    """A checkpoint. `why`: why it is not complete, or ""."""

    name: str
    why: str
    bytes: int
    age: float | None  # seconds; None: unknown
    step: int | None = None
    parts: tuple[CheckpointPart, ...] = ()
    members: tuple[str, ...] = ()  # the names of which it consists

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


def read_on_host(target: str, answer: Answer) -> list[HeldCopies]:
    """Read the reports of a host: several if hosts share a home. Raise HostFailed."""
    reports = answer.read(CopiesReports).reports
    return [(Holder(target, report.host), report) for report in reports]


def merge_checkpoints(
    reports: Sequence[HeldCopies], *, alive: bool
) -> tuple[ListedCheckpoint, ...]:
    """Merge reports: incomplete checkpoints, then the others, newest first. `alive`: the run is."""
    by_number: dict[int, Manifest] = {}
    for _, report in reports:
        for manifest in report.manifests:
            by_number.setdefault(manifest.number, manifest)
    complete = [_find_holders(by_number[n], reports) for n in sorted(by_number, reverse=True)]
    ended = "the attempt ended before it was copied"
    pending = [
        ListedCheckpoint(p.name, p.why if alive else ended, p.bytes, p.age, p.step)
        for _, report in reports
        for p in report.pending
    ]
    return (*sorted(pending, key=lambda c: c.age or 0.0), *complete)


def _find_holders(manifest: Manifest, reports: Sequence[HeldCopies]) -> ListedCheckpoint:
    """Find the hosts that hold each part; if a part has none, the checkpoint is incomplete."""
    parts = tuple(
        CheckpointPart(
            host, part.sha, part.bytes, tuple(h for h, r in reports if part.sha in r.held)
        )
        for host, part in sorted(manifest.parts.items())
    )
    lost = [part.host for part in parts if not part.holders]
    why = f"no host here has the part of {fold(lost)}" if lost else ""
    size = sum(part.bytes for part in parts)
    members = tuple(manifest.members or [manifest.name])
    return ListedCheckpoint(manifest.name, why, size, manifest.age, manifest.step, parts, members)


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


def find_companion(
    listed: Sequence[ListedCheckpoint], chosen: ListedCheckpoint
) -> ListedCheckpoint | None:
    """Return the newest checkpoint of the other kind that is not newer than the chosen one: of
    plain names if that has a step, else one with a step."""
    kinds = kinds_of(chosen.members)
    for other in listed[listed.index(chosen) + 1 :]:
        if other.is_complete and kinds_of(other.members) - kinds:
            return other
    return None


def explain_beginning(line: AttemptBegins) -> str:
    """Explain why an attempt after the first one begins without a checkpoint."""
    if not line.kept:
        return "--checkpoints GLOB was not given"
    if line.skipped:
        return f"no earlier checkpoint is complete{describe_skipped(line)}"
    if line.away:
        return f"no host that is reached has {line.away}{describe_incomplete(line)}"
    return f"no checkpoint is complete{describe_incomplete(line) or '; none was found'}"


def describe_skipped(line: AttemptBegins) -> str:
    """Name the newer checkpoints from which attempts failed at once, and why."""
    return "".join(f"; skipped: {text}" for text in line.skipped)


def describe_incomplete(line: AttemptBegins) -> str:
    rest = [f"and {len(line.open) - 4} more"] if len(line.open) > 4 else []
    return f"; not complete: {', '.join([*line.open[:4], *rest])}" if line.open else ""
