"""A check: one id, one function, and a declaration that holds all its documentation.

    @host_check(
        "SHM-002",
        title="/dev/shm is nearly full",
        severity=Severity.WARN,
        seen="/dev/shm has less than 64 MiB free",
        why="Ranks die with a bus error when it is full.",
        fix=do(command("ls -l /dev/shm"), "   and remove what no running process needs"),
    )
    def shared_memory_full(facts: Facts) -> str | None: ...

The function returns what it saw: a text, an Evidence, several of these, or None. An Evidence may
say more exactly than the declaration how bad it is, why, and what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace
from types import ModuleType
from typing import ClassVar

from ipexctl.doctor.report.cluster import CheckedHosts, group_hosts, hosts_by_value
from ipexctl.doctor.report.finding import Finding, Fix, Part, Severity, as_fix
from ipexctl.facts.facts import Facts
from ipexctl.quick_dataclass import dataclass

_ORDER = list(Severity)


@dataclass(frozen=True)
class Evidence:
    """What a check saw. Fields that are not set take the check's declaration.

    `host` is for checks of the cluster that blame one host; checks of one host leave it empty.
    """

    evidence: str
    fix: Fix | Part = ""
    severity: Severity | None = None
    title: str = ""
    why: str = ""
    host: str = ""


Seen = Evidence | str | Iterable[Evidence | str] | None


@dataclass(frozen=True)
class Check:
    """A check: its function and what documents it. `severity`: the usual one first. `fix` "": each
    Evidence has its own. `cluster`: it compares hosts."""

    id: str
    title: str
    severity: Severity | tuple[Severity, ...]
    seen: str
    why: str
    fix: Fix | Part = ""
    look: Callable[[CheckedHosts], list[Evidence]] = lambda cluster: []
    module: str = ""

    cluster: ClassVar[bool] = False

    @property
    def severities(self) -> tuple[Severity, ...]:
        return self.severity if isinstance(self.severity, tuple) else (self.severity,)

    @property
    def family(self) -> str:
        return self.id.partition("-")[0]

    def make_findings(self, cluster: CheckedHosts) -> list[Finding]:
        return [self.make_finding(evidence) for evidence in self.look(cluster)]

    def make_finding(self, evidence: Evidence) -> Finding:
        """Fill what the evidence leaves open from the declaration of the check."""
        severity = evidence.severity or self.severities[0]
        if severity not in self.severities:
            raise AssertionError(f"{self.id} does not declare the severity {severity.value}")
        return Finding(
            id=self.id,
            severity=severity,
            host=evidence.host,
            title=evidence.title or self.title,
            evidence=evidence.evidence,
            why=evidence.why or self.why,
            fix=as_fix(evidence.fix) or as_fix(self.fix),
        )


class host_check(Check):  # noqa: N801 - a decorator
    """Declare a check that sees the facts of one host at a time."""

    def __call__(self, function: Callable[[Facts], Seen]) -> Check:
        def look(cluster: CheckedHosts) -> list[Evidence]:
            return [
                replace(evidence, host=facts.host)
                for facts in cluster.hosts
                if (seen := function(facts))
                for evidence in evidence_list(seen)
            ]

        return replace(self, look=look, module=function.__module__)


class cluster_check(Check):  # noqa: N801 - a decorator
    """Declare a check that compares hosts; its Evidence names the host to blame, or none."""

    cluster: ClassVar[bool] = True

    def __call__(self, function: Callable[[CheckedHosts], Seen]) -> Check:
        return replace(
            self, look=lambda cluster: evidence_list(function(cluster)), module=function.__module__
        )


def find_difference(
    value: Callable[[Facts], Hashable],
    unit: str = "",
    silent: Callable[[CheckedHosts], object] = lambda cluster: False,
    level: Callable[[CheckedHosts], Severity | None] = lambda cluster: None,
) -> Callable[[CheckedHosts], Evidence | None]:
    """Return a check function that reports hosts whose values differ; unknown values ("", None) are
    ignored. `silent`: the difference is harmless, or another check reports its cause.
    """

    def look(cluster: CheckedHosts) -> Evidence | None:
        groups = group_hosts(cluster.hosts, value)
        if len(groups) < 2 or silent(cluster):
            return None
        return Evidence(hosts_by_value(groups, unit), severity=level(cluster))

    look.__module__ = value.__module__
    return look


def declared_checks(modules: Iterable[ModuleType]) -> tuple[Check, ...]:
    """Return the checks that the modules declare, alone or in tables, in the order of the files."""
    return tuple(
        check
        for module in modules
        for value in vars(module).values()
        for check in (value if isinstance(value, tuple) else (value,))
        if isinstance(check, Check) and check.module == module.__name__
    )


def run_checks(checks: Iterable[Check], cluster: CheckedHosts) -> tuple[Finding, ...]:
    """Return all findings by severity, worst first; then in the order of checks, then of hosts."""
    findings = [finding for check in checks for finding in check.make_findings(cluster)]
    return tuple(sorted(findings, key=lambda finding: _ORDER.index(finding.severity)))


def evidence_list(seen: Seen) -> list[Evidence]:
    if not seen:
        return []
    if isinstance(seen, (Evidence, str)):
        seen = [seen]
    return [item if isinstance(item, Evidence) else Evidence(item) for item in seen]
