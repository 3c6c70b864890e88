"""Clocks: whether those of the hosts differ."""

from __future__ import annotations

from ipexctl.doctor.checks.registry import Evidence, cluster_check
from ipexctl.doctor.report.cluster import CheckedHosts
from ipexctl.doctor.report.finding import Severity, do, scripted_sudo
from ipexctl.facts.speed_facts import median

SKEW = 2.0


@cluster_check(
    "CLOCK-001",
    title="the clock is off",
    severity=Severity.WARN,
    seen="the clock is off by more than 2 s, after allowing for measurement error",
    why="Certificates look expired or not yet valid, logs of different hosts do not line up, "
    "and tools that compare file times rebuild too much or too little.",
    fix=do(scripted_sudo("timedatectl set-ntp true"), "   (or start chronyd)"),
)
def clocks(cluster: CheckedHosts) -> list[Evidence]:
    """Compare each clock with the other hosts' clocks; one or two hosts with the controller's."""
    readings = [(facts.host, facts.clock) for facts in cluster.hosts if facts.clock]
    if not readings:
        return []
    few = len(readings) < 3
    reference = 0.0 if few else median(c.offset for _, c in readings)
    doubt = 0.0 if few else median(c.uncertainty for _, c in readings)
    peers = "this machine" if few else "the other hosts"
    evidence = []
    for host, clock in readings:
        skew = clock.offset - reference
        if abs(skew) - clock.uncertainty - doubt > SKEW:
            side = "ahead of" if skew > 0 else "behind"
            doubtful = max(clock.uncertainty, 0.001)
            evidence.append(
                Evidence(f"{_format_skew(skew)} {side} {peers} (±{doubtful:.3f} s)", host=host)
            )
    return evidence


def _format_skew(skew: float) -> str:
    skew = abs(skew)
    if skew < 120:
        return f"{skew:.1f} s"
    return f"{skew / 60:.0f} min" if skew < 7200 else f"{skew / 3600:.1f} h"
