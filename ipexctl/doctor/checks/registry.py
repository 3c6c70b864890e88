"""What a check is: one id, one function, and in its declaration all that documents it.

    @host_check(
        "SHM-002",
        title="/dev/shm is nearly full",
        severity=Severity.WARN,
        seen="/dev/shm has less than 64 MiB free",
        why="Ranks die with a bus error when it is full.",
        fix=do(command("ls -l /dev/shm"), "   and remove what no running process needs"),
    )
    def shared_memory_full(facts: Facts) -> Sight | None: ...

The function returns None, one Sight or several; a Sight may say more exactly than the declaration
how bad it is, why, and what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import ModuleType

from ipexctl.doctor.report.cluster import Cluster
from ipexctl.doctor.report.finding import Finding, Severity
from ipexctl.doctor.report.suggested_fix import Fix, Part, as_fix
from ipexctl.facts.facts import Facts
from ipexctl.quick_dataclass import dataclass

_ORDER = list(Severity)


@dataclass(frozen=True)
class Sight:
    """What a check saw. What is left out is as the check declares it.

    `host` is for checks of the cluster that blame one host; checks of one host leave it alone.
    """

    evidence: str
    fix: Fix | Part = ""
    severity: Severity | None = None
    title: str = ""
    why: str = ""
    host: str = ""


Seen = Sight | Iterable[Sight] | None


@dataclass(frozen=True)
class Check:
    """`severities` has the usual one first. `of` says where it looks: at a host, or at all."""

    id: str
    title: str
    severities: tuple[Severity, ...]
    seen: str
    why: str
    fix: Fix
    cluster: bool
    look: Callable[[Cluster], list[Sight]]
    module: str

    @property
    def family(self) -> str:
        return self.id.partition("-")[0]

    def findings(self, cluster: Cluster) -> list[Finding]:
        return [self._finding(sight) for sight in self.look(cluster)]

    def _finding(self, sight: Sight) -> Finding:
        severity = sight.severity or self.severities[0]
        if severity not in self.severities:
            raise AssertionError(f"{self.id} does not declare the severity {severity.value}")
        return Finding(
            id=self.id,
            severity=severity,
            host=sight.host,
            title=sight.title or self.title,
            evidence=sight.evidence,
            why=sight.why or self.why,
            fix=as_fix(sight.fix) or self.fix,
        )


def host_check(
    number: str,
    *,
    title: str,
    severity: Severity | tuple[Severity, ...],
    seen: str,
    why: str,
    fix: Fix | Part = "",
) -> Callable[[Callable[[Facts], Seen]], Check]:
    """Declares a check that sees the facts of one host at a time. `fix` "": each Sight has one."""

    def declare(function: Callable[[Facts], Seen]) -> Check:
        def look(cluster: Cluster) -> list[Sight]:
            found = ((facts.host, s) for facts in cluster.hosts for s in listed(function(facts)))
            return [_at(host, sight) for host, sight in found]

        levels, own = _levels(severity), as_fix(fix)
        return Check(number, title, levels, seen, why, own, False, look, function.__module__)

    return declare


def cluster_check(
    number: str,
    *,
    title: str,
    severity: Severity | tuple[Severity, ...],
    seen: str,
    why: str,
    fix: Fix | Part = "",
) -> Callable[[Callable[[Cluster], Seen]], Check]:
    """Declares a check that compares hosts; its Sights name the host they blame, or none."""

    def declare(function: Callable[[Cluster], Seen]) -> Check:
        def look(cluster: Cluster) -> list[Sight]:
            return listed(function(cluster))

        levels, own = _levels(severity), as_fix(fix)
        return Check(number, title, levels, seen, why, own, True, look, function.__module__)

    return declare


def declared(modules: Iterable[ModuleType]) -> tuple[Check, ...]:
    """The checks that these modules declare, in the order of the files."""
    return tuple(
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, Check) and value.module == module.__name__
    )


def run(checks: Iterable[Check], cluster: Cluster) -> tuple[Finding, ...]:
    """All findings, the worst first; within that in the order of checks, then of hosts."""
    found = [f for check in checks for f in check.findings(cluster)]
    return tuple(sorted(found, key=lambda f: _ORDER.index(f.severity)))


def _levels(severity: Severity | tuple[Severity, ...]) -> tuple[Severity, ...]:
    return severity if isinstance(severity, tuple) else (severity,)


def listed(seen: Seen) -> list[Sight]:
    if seen is None:
        return []
    return [seen] if isinstance(seen, Sight) else list(seen)


def _at(host: str, sight: Sight) -> Sight:
    return Sight(sight.evidence, sight.fix, sight.severity, sight.title, sight.why, host)
