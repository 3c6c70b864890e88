"""Python and the clock."""

from __future__ import annotations

from ipexctl.core.checks.cluster import Cluster, install_command
from ipexctl.core.checks.registry import Sight, cluster_check, host_check
from ipexctl.core.model import Facts, Severity

OLDEST_PYTHON = (3, 9)  # the oldest one the version table has a stack for
SKEW = 2.0


@host_check(
    "PY-001",
    title="no Python 3",
    severity=Severity.FAIL,
    seen="no Python 3 found",
    why="The stack is installed into an environment of a Python that is already on the host.",
)
def no_python(facts: Facts) -> Sight | None:
    if facts.pythons:
        return None
    return Sight(
        "not in PATH, /usr/bin, /usr/local/bin, /opt/*/bin, ~/.pyenv or conda",
        fix=install_command(facts, debian="python3 python3-venv", rhel="python3", suse="python3"),
    )


@host_check(
    "PY-002",
    title="Python is too old",
    severity=Severity.FAIL,
    seen="no Python of 3.9 or newer",
    why="The stack is installed into an environment of a Python that it has packages for.",
)
def old_python(facts: Facts) -> Sight | None:
    if not facts.pythons or any(p.version[:2] >= OLDEST_PYTHON for p in facts.pythons):
        return None
    newest = max(facts.pythons, key=lambda p: p.version)
    return Sight(
        f"the newest is {newest.path}, {'.'.join(map(str, newest.version))}",
        fix=install_command(
            facts, debian="python3 python3-venv", rhel="python3.11", suse="python311"
        ),
    )


@cluster_check(
    "CLOCK-001",
    title="the clock is off",
    severity=Severity.WARN,
    seen="the clock differs by more than 2 s, beyond what the measurement may be wrong",
    why="Certificates look expired or not yet valid, logs of hosts do not line up, and tools that "
    "compare file times rebuild too much or too little.",
    fix="sudo timedatectl set-ntp true   (or start chronyd)",
)
def clocks(cluster: Cluster) -> list[Sight]:
    """Against the other hosts; two hosts or fewer are compared with this machine."""
    known = [(f.host, f.clock) for f in cluster.hosts if f.clock]
    if not known:
        return []
    alone = len(known) < 3
    reference = 0.0 if alone else _middle([c.offset for _, c in known])
    doubt = 0.0 if alone else _middle([c.uncertainty for _, c in known])
    than = "this machine" if alone else "the other hosts"
    found = []
    for host, clock in known:
        skew = clock.offset - reference
        if abs(skew) - clock.uncertainty - doubt > SKEW:
            side = "ahead of" if skew > 0 else "behind"
            doubtful = max(clock.uncertainty, 0.001)
            found.append(Sight(f"{_seconds(skew)} {side} {than} (±{doubtful:.3f} s)", host=host))
    return found


def _middle(numbers: list[float]) -> float:
    return sorted(numbers)[len(numbers) // 2]


def _seconds(skew: float) -> str:
    skew = abs(skew)
    if skew < 120:
        return f"{skew:.1f} s"
    return f"{skew / 60:.0f} min" if skew < 7200 else f"{skew / 3600:.1f} h"
