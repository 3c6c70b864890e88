"""Whether the clocks of the hosts agree."""

from __future__ import annotations

from ipexctl.doctor.checks.registry import Sight, cluster_check
from ipexctl.doctor.report.cluster import Cluster
from ipexctl.doctor.report.finding import Severity
from ipexctl.doctor.report.suggested_fix import do, scripted
from ipexctl.facts.measurements import median

SKEW = 2.0


@cluster_check(
    "CLOCK-001",
    title="the clock is off",
    severity=Severity.WARN,
    seen="the clock is off by more than 2 s, after allowing for measurement error",
    why="Certificates look expired or not yet valid, logs of different hosts do not line up, "
    "and tools that compare file times rebuild too much or too little.",
    fix=do(scripted("timedatectl set-ntp true"), "   (or start chronyd)"),
)
def clocks(cluster: Cluster) -> list[Sight]:
    """Against the other hosts; two hosts or fewer are compared with this machine."""
    known = [(f.host, f.clock) for f in cluster.hosts if f.clock]
    if not known:
        return []
    alone = len(known) < 3
    reference = 0.0 if alone else median(c.offset for _, c in known)
    doubt = 0.0 if alone else median(c.uncertainty for _, c in known)
    than = "this machine" if alone else "the other hosts"
    found = []
    for host, clock in known:
        skew = clock.offset - reference
        if abs(skew) - clock.uncertainty - doubt > SKEW:
            side = "ahead of" if skew > 0 else "behind"
            doubtful = max(clock.uncertainty, 0.001)
            found.append(Sight(f"{_seconds(skew)} {side} {than} (±{doubtful:.3f} s)", host=host))
    return found


def _seconds(skew: float) -> str:
    skew = abs(skew)
    if skew < 120:
        return f"{skew:.1f} s"
    return f"{skew / 60:.0f} min" if skew < 7200 else f"{skew / 3600:.1f} h"
