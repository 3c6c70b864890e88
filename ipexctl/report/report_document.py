"""The data that a report shows of a run, as one JSON document, from the records of its hosts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ipexctl.base.secret_mask import MASK
from ipexctl.base.values import texts_of
from ipexctl.report.material.host_record import indented_text
from ipexctl.report.material.report_material import Material
from ipexctl.report.sections import SECTIONS
from ipexctl.run.outcome.run_state import Phase
from ipexctl.run.output.rank_lines import without_colour

LONGEST = 400  # characters of a text


def report_document(material: Material) -> dict[str, Any]:
    run = material.last.run
    document: dict[str, Any] = {
        "run": run.id,
        "name": run.about.name,
        "command": run.about.command,
        "state": run.phase.value,
    }
    for section in SECTIONS.values():
        document |= section.section_document(material)
    now = run.queue_text if run.phase is Phase.QUEUED else "the run continues"
    as_of = [] if run.over else [f"As of {material.made}, when this page was made: {now}."]
    warnings = (material.last.result or {}).get("warnings")
    document |= {
        "notes": [*as_of, *material.notes, *texts_of(warnings)],
        "made": material.made,
        "began": material.began,
    }
    plain = _change_texts(document, _plain_text)
    masked = material.mask.mask_document(plain)
    places = [name for name, value in masked.items() if MASK in str(value)]
    if places:
        masked["notes"].append(f"Secrets are masked ({MASK}) in: {', '.join(places)}.")
    cut: dict[str, Any] = _change_texts({**masked, "masked": places}, _cut_text)
    return cut


def _change_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return the document with all its texts changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _change_texts(item, change) for key, item in value.items()}
    return [_change_texts(v, change) for v in value] if isinstance(value, list | tuple) else value


def _plain_text(text: str) -> str:
    """Remove colours and control characters."""
    return "\n".join(indented_text(without_colour(line), 1 << 20) for line in text.split("\n"))


def _cut_text(text: str) -> str:
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"
