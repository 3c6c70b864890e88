"""What a check is: one id, one function, and in its declaration all that documents it.

    @host_check(
        "SHM-002",
        title="/dev/shm is nearly full",
        severity=Severity.WARN,
        seen="/dev/shm has less than 64 MiB free",
        why="Ranks die with a bus error when it is full.",
        fix=do(command("ls -l /dev/shm"), "   and remove what no running process needs"),
    )
    def shared_memory_full(facts: Facts) -> str | None: ...

The function returns what it saw: a text, a Sight, several of these, or None. A Sight may say more
exactly than the declaration how bad it is, why, and what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from types import ModuleType

from ipexctl.doctor.report.cluster import Cluster
from ipexctl.doctor.report.finding import Finding, Fix, Part, Severity, as_fix
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


Seen = Sight | str | Iterable[Sight | str] | None


@dataclass(frozen=True)
class Check:
    """`severities` has the usual one first. `cluster`: it compares hosts."""

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


@dataclass(frozen=True)
class Declaration:
    """What documents a check. `severity`: the usual one first. `fix` "": each Sight has one."""

    id: str
    title: str
    severity: Severity | tuple[Severity, ...]
    seen: str
    why: str
    fix: Fix | Part = ""

    @property
    def severities(self) -> tuple[Severity, ...]:
        return self.severity if isinstance(self.severity, tuple) else (self.severity,)

    def check(self, look: Callable[[Cluster], list[Sight]], module: str, *, cluster: bool) -> Check:
        return Check(
            id=self.id,
            title=self.title,
            severities=self.severities,
            seen=self.seen,
            why=self.why,
            fix=as_fix(self.fix),
            cluster=cluster,
            look=look,
            module=module,
        )


class host_check(Declaration):  # noqa: N801 - a decorator
    """Declares a check that sees the facts of one host at a time."""

    def __call__(self, function: Callable[[Facts], Seen]) -> Check:
        def look(cluster: Cluster) -> list[Sight]:
            return [
                replace(sight, host=facts.host)
                for facts in cluster.hosts
                if (seen := function(facts))
                for sight in listed(seen)
            ]

        return self.check(look, function.__module__, cluster=False)


class cluster_check(Declaration):  # noqa: N801 - a decorator
    """Declares a check that compares hosts; its Sights name the host they blame, or none."""

    def __call__(self, function: Callable[[Cluster], Seen]) -> Check:
        def look(cluster: Cluster) -> list[Sight]:
            return listed(function(cluster))

        return self.check(look, function.__module__, cluster=True)


def declared(modules: Iterable[ModuleType]) -> tuple[Check, ...]:
    """The checks that these modules declare, alone or in tables, in the order of the files."""
    return tuple(
        check
        for module in modules
        for value in vars(module).values()
        for check in (value if isinstance(value, tuple) else (value,))
        if isinstance(check, Check) and check.module == module.__name__
    )


def run(checks: Iterable[Check], cluster: Cluster) -> tuple[Finding, ...]:
    """All findings, the worst first; within that in the order of checks, then of hosts."""
    found = [f for check in checks for f in check.findings(cluster)]
    return tuple(sorted(found, key=lambda f: _ORDER.index(f.severity)))


def listed(seen: Seen) -> list[Sight]:
    if not seen:
        return []
    if isinstance(seen, (Sight, str)):
        seen = [seen]
    return [sight if isinstance(sight, Sight) else Sight(sight) for sight in seen]
