"""The checkpoints that the hosts keep of a run."""

from __future__ import annotations

from typing import Any

from ipexctl.base.sizes import format_bytes
from ipexctl.inventory.nodeset import fold
from ipexctl.report.material.report_material import Material
from ipexctl.run.outcome.listed_checkpoints import ListedCheckpoint

TITLE = "Checkpoints"
HEADS = ("Checkpoint", "Step", "Size", "State", "Hosts")
MONO = (0,)
EMPTY = "The hosts keep no copies of checkpoints of this run (--checkpoints GLOB)."


def section_document(material: Material) -> dict[str, Any]:
    return {"checkpoints": [_checkpoint_row(checkpoint) for checkpoint in material.checkpoints]}


def _checkpoint_row(checkpoint: ListedCheckpoint) -> list[str]:
    state = "complete" if checkpoint.is_complete else checkpoint.why
    step = "" if checkpoint.step is None else str(checkpoint.step)
    return [checkpoint.name, step, format_bytes(checkpoint.bytes), state, fold(checkpoint.hosts)]
