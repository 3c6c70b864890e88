"""Choose the checkpoint from which an attempt begins. Pure."""

from ipexctl.common.checkpoint_names import kinds_of
from ipexctl.common.keeper_messages import CheckpointLayout, KeptCheckpoint

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Sequence

    Version = tuple[int, ...]  # attempt, and number in that


def newest_complete_checkpoint(
    kept: "dict[str, list[KeptCheckpoint]]",
    version: "Version | None" = None,
    skips: "SkippedCheckpoints | None" = None,
) -> "CheckpointLayout | None":
    """Return the newest checkpoint, or the one of that version, of which each part is on a host in
    `kept`, or None. The CheckpointLayout has hosts in place of URLs. `kept`: by host; `skips`: the
    SkippedCheckpoints, which are not used.

    It has the newest of plain names and of those with a step, none newer than the one that is
    chosen.
    """
    skips = skips or SkippedCheckpoints()
    complete = [row for row in list_complete(kept) if not skips.has(row.version)]
    chosen = next((row for row in complete if version in (None, row.version)), None)
    if chosen is None:
        return None
    earlier = complete[complete.index(chosen) + 1 :]
    used, covered = [chosen], kinds_of(chosen.members)
    for row in earlier:
        if kinds_of(row.members) - covered:
            used.append(row)
            covered |= kinds_of(row.members)
    others = [row for row in earlier if skips.origin(row.version) != skips.origin(chosen.version)]
    return chosen.replace(
        parts=[part for row in used for part in row.parts],
        members=list(dict.fromkeys(member for row in used for member in row.members)),
        gap=max(row.gap for row in complete),
        needed=min(row.version[0] for row in used + others[:1]),
    )


def list_complete(kept: "dict[str, list[KeptCheckpoint]]") -> "list[CheckpointLayout]":
    """Return a CheckpointLayout of each checkpoint of which all parts are there, newest first."""
    checkpoints = {}  # type: dict[tuple[int, int], KeptCheckpoint]
    for copy in (copy for copies in kept.values() for copy in copies):
        attempt, number = copy.version
        checkpoints.setdefault((attempt, number), copy)
    shas = {host: {sha for copy in copies for sha in copy.held} for host, copies in kept.items()}
    layouts = []
    for version in sorted(checkpoints, reverse=True):
        row, parts = checkpoints[version], []
        for writer, part in sorted(row.parts.items()):
            hosts = [host for host, held in shas.items() if part.sha in held]
            parts.append((writer, part.sha, part.list, hosts))
        if all(part[3] for part in parts):
            members = list(row.members or [row.name])
            layouts.append(
                CheckpointLayout(row.name, version, row.age, parts, row.key, members, row.gap)
            )
    return layouts


class SkippedCheckpoints:
    """Checkpoints that are not used any more, as an attempt failed at once that began from them."""

    def __init__(self) -> None:
        self.reasons = {}  # type: dict[Version, str]  # version -> what failed
        self.same = {}  # type: dict[Version, Version]  # of a laid-out copy

    def origin(self, version: "Sequence[int]") -> "Version":
        """Return the version of the checkpoint of which this one is a copy."""
        return self.same.get(tuple(version), tuple(version))

    def has(self, version: "Sequence[int]") -> bool:
        return self.origin(version) in self.reasons
