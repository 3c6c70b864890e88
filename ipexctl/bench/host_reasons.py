"""Why a host is slow: what the doctor's checks say of it, and what its ranks noticed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ipexctl.base.values import count_or_none
from ipexctl.doctor.checks import catalogue
from ipexctl.doctor.checks.registry import Check
from ipexctl.doctor.report.finding import Finding
from ipexctl.facts.reader import positive
from ipexctl.quick_dataclass import dataclass

LONGEST = 4096  # characters of a line
PAUSED = 0.05  # of the time, by the quota of the control group
STOLEN = 0.05  # of the CPU time, by the hypervisor
OF_HOST = {
    "LOAD-001": "busy", "LOAD-002": "busy", "LOAD-003": "busy", "LOAD-004": "busy",
    "CORE-001": "few-cpus", "CORE-002": "few-cpus", "CPU-008": "few-cpus", "CORE-003": "cpu-quota",
    "PWR-001": "frequency", "PWR-002": "frequency", "PWR-004": "frequency", "PWR-005": "frequency",
    "PWR-003": "throttled",
}  # fmt: skip


@dataclass(frozen=True)
class Reason:
    """Why something is slow, in the words of the doctor's check (or of the known failure)."""

    slug: str
    check: str
    title: str
    evidence: str
    fix: str


def reason_of(finding: Finding, slugs: Mapping[str, str] = OF_HOST) -> Reason:
    f = finding
    return Reason(slugs[f.id], f.id, f.title, f.evidence, str(f.fix))


def known_checks() -> dict[str, Check]:
    return {check.id: check for check in catalogue()}


@dataclass(frozen=True)
class Pressure:
    """What a rank noticed while it was measured: a line of in_ranks/allreduce_bench.py."""

    cpus: float | None = None  # that it had, on average
    paused: float = 0.0  # share of the time, by its control group's quota
    heat: int = 0  # times that cores were throttled meanwhile
    stolen: float = 0.0  # share of the machine's CPU time


def line_of(text: str, mark: str) -> Mapping[str, Any] | None:
    """What follows the mark of one of our scripts; None: the line is not of it."""
    if not text.startswith(mark):
        return None
    try:
        found = json.loads(text[len(mark) : LONGEST])
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def pressure_of(line: Mapping[str, Any]) -> Pressure:
    throttled, seconds = positive(line.get("throttled")), positive(line.get("seconds"))
    return Pressure(
        positive(line.get("cpus")),
        min(1.0, throttled / seconds) if throttled and seconds else 0.0,
        count_or_none(line.get("heat")) or 0,
        min(1.0, positive(line.get("stolen")) or 0.0),
    )


def noticed(seen: Sequence[Pressure]) -> Iterator[tuple[str, str, str]]:
    """(slug, check, evidence) of what the ranks of a host noticed."""
    if paused := max((p.paused for p in seen if p.paused > PAUSED), default=0.0):
        yield "cpu-quota", "CORE-003", f"paused for {paused:.0%} of the time"
    if stolen := max((p.stolen for p in seen if p.stolen > STOLEN), default=0.0):
        yield "stolen", "LOAD-001", f"the hypervisor took {stolen:.0%} of the CPU time"
    if hot := max((p.heat for p in seen), default=0):
        yield "throttled", "PWR-003", f"throttled {hot} times while it computed"
