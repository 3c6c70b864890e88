"""Python and the clock."""

from __future__ import annotations

from ipexctl.core.checks.cluster import Cluster, install_command
from ipexctl.core.model import Facts, Finding, Severity

OLDEST_PYTHON = (3, 9)  # the oldest one the version table has a stack for
SKEW = 2.0


def python(facts: Facts) -> list[Finding]:
    if any(p.version[:2] >= OLDEST_PYTHON for p in facts.pythons):
        return []
    wanted = ".".join(map(str, OLDEST_PYTHON))
    newest = max(facts.pythons, key=lambda p: p.version, default=None)
    return [
        Finding(
            id="PY-002" if newest else "PY-001",
            severity=Severity.FAIL,
            host=facts.host,
            title="Python is too old" if newest else "no Python 3",
            evidence=f"the newest is {newest.path}, {'.'.join(map(str, newest.version))}"
            if newest
            else "not in PATH, /usr/bin, /usr/local/bin, /opt/*/bin, ~/.pyenv or conda",
            why=f"The stack is installed into an environment of Python {wanted} or newer.",
            fix=install_command(
                facts,
                debian="python3 python3-venv",
                rhel="python3.11" if newest else "python3",
                suse="python311" if newest else "python3",
            ),
        )
    ]


def clocks(cluster: Cluster) -> list[Finding]:
    """Against the other hosts; two hosts or fewer are compared with this machine."""
    known = [(f.host, f.clock) for f in cluster.hosts if f.clock]
    if not known:
        return []
    alone = len(known) < 3
    reference = 0.0 if alone else _middle([c.offset for _, c in known])
    doubt = 0.0 if alone else _middle([c.uncertainty for _, c in known])
    found = []
    for host, clock in known:
        skew = clock.offset - reference
        if abs(skew) - clock.uncertainty - doubt <= SKEW:
            continue
        than = "this machine" if alone else "the other hosts"
        found.append(
            Finding(
                id="CLOCK-001",
                severity=Severity.WARN,
                host=host,
                title="the clock is off",
                evidence=f"{_seconds(skew)} {'ahead of' if skew > 0 else 'behind'} {than}"
                f" (±{max(clock.uncertainty, 0.001):.3f} s)",
                why="Certificates look expired or not yet valid, logs of hosts do not line up, and "
                "tools that compare file times rebuild too much or too little.",
                fix="sudo timedatectl set-ntp true   (or start chronyd)",
            )
        )
    return found


def _middle(numbers: list[float]) -> float:
    return sorted(numbers)[len(numbers) // 2]


def _seconds(skew: float) -> str:
    skew = abs(skew)
    if skew < 120:
        return f"{skew:.1f} s"
    return f"{skew / 60:.0f} min" if skew < 7200 else f"{skew / 3600:.1f} h"
