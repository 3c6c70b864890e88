"""What a check found on a host."""

from __future__ import annotations

from enum import Enum

from ipexctl.doctor.report.suggested_fix import Fix
from ipexctl.quick_dataclass import dataclass


class Severity(str, Enum):
    FAIL = "fail"  # training on these hosts would break
    WARN = "warn"  # it would be slow or fragile
    NOTE = "note"  # good to know


@dataclass(frozen=True)
class Finding:
    """One thing a check saw on one host (host "" = about the cluster)."""

    id: str
    severity: Severity
    host: str
    title: str
    evidence: str
    why: str
    fix: Fix
