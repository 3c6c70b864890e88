"""The result of `doctor` for all hosts, and the verdict that follows from it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from ipexctl.base.host_outcome import HostDown
from ipexctl.doctor.report.finding import Finding, Fix, Severity
from ipexctl.doctor.report.recommendations import Recommendation
from ipexctl.errors import EXIT_FAILED, EXIT_OK, worst_exit
from ipexctl.facts.env_choice import EnvChoice
from ipexctl.facts.facts import Facts
from ipexctl.facts.reachability_facts import Peer
from ipexctl.facts.speed_facts import Measurements
from ipexctl.inventory.inventory import Host
from ipexctl.quick_dataclass import dataclass


@dataclass(frozen=True)
class Report:
    """The outcome of all hosts. `named` is how the user named them: -f hosts, or -H a,b; `root` is
    ipexctl's folder on them if it was given, else ""; `script` is in this folder.
    """

    hosts: tuple[Host, ...]
    facts: tuple[Facts, ...]
    down: tuple[HostDown, ...]
    peers: tuple[Peer, ...]
    findings: tuple[Finding, ...]
    seconds: float
    named: str = ""
    root: str = ""
    without_downs: str = ""  # the same command for the other hosts
    level: str = "quick"
    script: str = "SCRIPT"
    measured: Measurements = Measurements()
    recommendations: tuple[Recommendation, ...] = ()
    env: EnvChoice | None = None
    requirements: str = ""  # a requirements file in this folder if there is no lock
    unchecked: str = ""  # a hostfile in this folder if only this machine was examined

    @property
    def trust_command(self) -> str:
        """The command that accepts host keys that are not known yet."""
        return f"ipexctl trust {self.named}".strip()

    @property
    def exit_code(self) -> int:
        codes = [down.state.exit_code for down in self.down]
        failed = any(finding.severity is Severity.FAIL for finding in self.findings)
        return worst_exit([*codes, EXIT_FAILED if failed else EXIT_OK])

    def facts_of(self, host: str) -> Facts | None:
        return self._facts_by_host.get(host)

    def down_of(self, host: str) -> HostDown | None:
        return self._down_by_host.get(host)

    def findings_of(self, host: str) -> tuple[Finding, ...]:
        """Return the findings of one host; those about the cluster for ""."""
        return self._findings_by_host.get(host, ())

    @property
    def all_hosts(self) -> tuple[str, ...]:
        """The hosts that a finding about the cluster covers, without those that are down."""
        return tuple(facts.host for facts in self.facts) if self.down else ("all hosts",)

    @property
    def environments(self) -> dict[str, list[str]]:
        """The environments that `run` would use, in words, and the hosts that have them."""
        by_text: dict[str, list[str]] = {}
        for facts in self.facts:
            current = facts.software.current if facts.software else None
            if current and current.environment:
                text = str(
                    current.environment.with_choice(self.env) if self.env else current.environment
                )
                by_text.setdefault(text, []).append(facts.host)
        return by_text

    @property
    def borrowed_project(self) -> str:
        """The project whose environment `run` would use, "" for this one or an unknown one."""
        if not self.env or self.env.key:
            return ""
        current = (facts.software.current for facts in self.facts if facts.software)
        environments = [prefix.environment for prefix in current if prefix and prefix.environment]
        own = self.env.project.id
        others = (e for e in environments if e.users and own not in {u.project.id for u in e.users})
        return next((e.project for e in others), "")

    def state(self, host: str) -> str:
        """Return the state in the host's row: unreachable, failed, fail, warn or ok."""
        down = self.down_of(host)
        if down:
            return down.state.value
        severities = {f.severity for f in self.findings_of(host)}
        return next((s.value for s in (Severity.FAIL, Severity.WARN) if s in severities), "ok")

    @cached_property
    def _facts_by_host(self) -> dict[str, Facts]:
        return {facts.host: facts for facts in self.facts}

    @cached_property
    def _down_by_host(self) -> dict[str, HostDown]:
        return {down.host: down for down in self.down}

    @cached_property
    def _findings_by_host(self) -> dict[str, tuple[Finding, ...]]:
        by_host: dict[str, list[Finding]] = {}
        for finding in self.findings:
            by_host.setdefault(finding.host, []).append(finding)
        return {host: tuple(findings) for host, findings in by_host.items()}


@dataclass(frozen=True)
class Problem:
    """Findings of one id and title on any number of hosts: one thing to fix."""

    findings: tuple[Finding, ...]

    @property
    def first(self) -> Finding:
        return self.findings[0]

    @property
    def hosts(self) -> tuple[str, ...]:
        """Hosts that have the problem; empty for one about the cluster."""
        return tuple(dict.fromkeys(finding.host for finding in self.findings if finding.host))

    @property
    def evidence(self) -> dict[str, list[str]]:
        """Each distinct piece of evidence, with its hosts."""
        hosts: dict[str, list[str]] = {}
        for finding in self.findings:
            hosts.setdefault(finding.evidence, []).append(finding.host)
        return hosts

    @property
    def hosts_by_fix(self) -> dict[Fix, list[str]]:
        """Each distinct fix, with its hosts."""
        hosts: dict[Fix, list[str]] = {}
        for finding in self.findings:
            if finding.fix and finding.host not in hosts.setdefault(finding.fix, []):
                hosts[finding.fix].append(finding.host)
        return hosts


def by_problem(findings: Iterable[Finding], severity: Severity | None = None) -> list[Problem]:
    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        if severity in (None, finding.severity):
            groups.setdefault((finding.id, finding.title), []).append(finding)
    return [Problem(tuple(group)) for group in groups.values()]


def in_common(texts: Iterable[str]) -> tuple[str, list[str]] | None:
    """Return the text with its differing words as `…`, and for each text the one or two words in
    its place; None if the texts differ in more."""
    rows = [text.split(" ") for text in texts]
    differ = [i for i, words in enumerate(zip(*rows, strict=False)) if len(set(words)) > 1]
    if len(rows) < 2 or len(set(map(len, rows))) > 1 or differ[-1] - differ[0] > 1:
        return None
    start, end = differ[0], differ[-1] + 1
    shared = [*rows[0][:start], "…", *rows[0][end:]]
    return " ".join(shared), [" ".join(row[start:end]) for row in rows]
