"""The environment variables of the ranks, with the reason for each."""

from __future__ import annotations

from typing import Any

from ipexctl.inventory.nodeset import fold
from ipexctl.report.material.report_material import Material

TITLE = "Variables of the ranks"
HEADS = ("Variable", "Value", "Why", "Hosts")
MONO = (0, 1)
EMPTY = "The hosts did not keep the variables of this run."


def section_document(material: Material) -> dict[str, Any]:
    """Return rows of name, value, reason and hosts; hosts with other values than the first have
    rows of their own."""
    hosts: dict[tuple[str, str, str], list[str]] = {}
    for record, inputs in ((item, item.inputs) for item in material.last.records if item.inputs):
        values, why = inputs.variables, inputs.reasons
        for name, value in values.items():
            key = (name, value, why.get(name) or "set with --env or run.env")
            hosts.setdefault(key, []).append(record.host)
    total = len(material.last.records)
    rows = [
        [*key, "all hosts" if len(names) == total else fold(names)]
        for key, names in sorted(hosts.items())
    ]
    return {"variables": rows}
