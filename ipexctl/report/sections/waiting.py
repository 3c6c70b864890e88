"""The parts that the time of the ranks goes to."""

from __future__ import annotations

from typing import Any

from ipexctl.report.material import curves
from ipexctl.report.material.report_material import Attempt, Material
from ipexctl.run.pace import slow_steps

TITLE = "Where the ranks’ time goes"
EMPTY = "Too few samples: the hosts look at their ranks every 2.5 s of training."
_PARTS = {
    "computing": "Computing",
    "sending": "Exchanging data",
    "slow": "Waiting for the busiest host",
    "cpu": "Waiting for a CPU",
    "asleep": "Sleeping",
    "disk": "Waiting for disks",
    "process": "Waiting for other processes: input, servers",
    "rest": "Other waits: threads, locks",
}
_UNKNOWN = "Other waits: input, disks, sleep"
_CROWDED = "Waits for busy CPUs, and others: input, disks, sleep"


def name_parts(last: Attempt) -> dict[str, str]:
    """Return the words for each part of the ranks' time."""
    if "asleep" in (last.time_shares or {}):
        return _PARTS
    return {**_PARTS, "rest": _CROWDED if is_crowded(last) else _UNKNOWN}


def is_crowded(last: Attempt) -> bool:
    """Return whether other programs may have taken the CPUs of the ranks: those that wait for some,
    where that is known."""
    shares = last.time_shares or {}
    busy = any((pace.cpu or 0.0) >= slow_steps.CROWDED for pace in last.paces)
    return busy and shares.get("cpu", 1.0) >= slow_steps.NO_CPU


def section_document(material: Material) -> dict[str, Any]:
    last = material.last
    slow, shares, names = last.slow, last.time_shares or {}, name_parts(last)
    waiting = {
        "headline": slow.headline if slow else "",
        "parts": [
            {"kind": kind, "name": names[kind], "share": curves.round_value(max(0.0, share))}
            for kind, share in shares.items()
        ],
        "proposals": [[p.text, p.command] for p in slow.proposals] if slow else [],
    }
    return {"waiting": waiting}
