"""Choose the checkpoint from which an attempt begins. Pure."""

from ipexctl.common.keeper_messages import CheckpointLayout, KeptCheckpoint


def newest_complete_checkpoint(told: "dict[str, list[KeptCheckpoint]]", name=""):
    """The newest checkpoint, or the one of that name, of which every part is on a host that is
    there; None: there is none. `told`: by host. The CheckpointLayout has hosts in place of URLs."""
    known = {}  # type: dict[tuple, KeptCheckpoint]
    for one in (one for each in told.values() for one in each):
        if not name or one.name == name:
            known.setdefault(tuple(one.order), one)
    for order in sorted(known, reverse=True):
        one, parts = known[order], []
        for writer, part in sorted(one.parts.items()):
            hosts = [h for h, each in told.items() if any(part.sha in o.held for o in each)]
            parts.append((writer, part.sha, part.list, hosts))
        if all(part[3] for part in parts):
            return CheckpointLayout(one.name, one.order, one.age, parts)
    return None
