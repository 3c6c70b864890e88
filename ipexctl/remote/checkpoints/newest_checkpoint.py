"""Choose the checkpoint from which an attempt begins. Pure."""

from ipexctl.common.keeper_messages import CheckpointLayout, KeptCheckpoint


def newest_complete_checkpoint(kept: "dict[str, list[KeptCheckpoint]]", name=""):
    """Return the newest checkpoint, or the one of that name, of which each part is on a host in
    `kept`, or None. The CheckpointLayout has hosts in place of URLs. `kept`: by host."""
    checkpoints = {}  # type: dict[tuple, KeptCheckpoint]
    for copy in (copy for copies in kept.values() for copy in copies):
        if not name or copy.name == name:
            checkpoints.setdefault(tuple(copy.order), copy)
    shas = {host: {sha for copy in copies for sha in copy.held} for host, copies in kept.items()}
    for order in sorted(checkpoints, reverse=True):
        newest, parts = checkpoints[order], []
        for writer, part in sorted(newest.parts.items()):
            hosts = [host for host, held in shas.items() if part.sha in held]
            parts.append((writer, part.sha, part.list, hosts))
        if all(part[3] for part in parts):
            return CheckpointLayout(newest.name, newest.order, newest.age, parts)
    return None
