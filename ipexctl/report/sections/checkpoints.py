"""The checkpoints that the hosts keep of a run."""

from __future__ import annotations

from typing import Any

from ipexctl.base.sizes import format_bytes
from ipexctl.inventory.nodeset import fold
from ipexctl.report.material.report_material import Material
from ipexctl.run.checkpoints.listed_checkpoints import ListedCheckpoint

TITLE = "Checkpoints"
HEADS = ("Checkpoint", "Step", "Size", "State", "Hosts")
MONO = (0,)
EMPTY = "The hosts keep no copies of checkpoints of this run (--checkpoints GLOB)."


def section_document(of: Material) -> dict[str, Any]:
    return {"checkpoints": [_checkpoint_row(one) for one in of.checkpoints]}


def _checkpoint_row(one: ListedCheckpoint) -> list[str]:
    state = "complete" if one.complete else one.why
    step = "" if one.step is None else str(one.step)
    return [one.name, step, format_bytes(one.bytes), state, fold(one.hosts)]
