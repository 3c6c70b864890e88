"""Decide which known problems could break a run on these hosts before it starts.

The checks are the doctor's; this module lists those that matter to a run that is about to start,
and those that stop it.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ipexctl.base.retry_command import FORCE
from ipexctl.base.shell_line import shell_line
from ipexctl.doctor.checks import all_checks
from ipexctl.doctor.checks.registry import run_checks
from ipexctl.doctor.checks.software import REBUILT
from ipexctl.doctor.report.cluster import CheckedHosts, group_hosts, hosts_by_value
from ipexctl.doctor.report.finding import Finding, Fix, Severity
from ipexctl.doctor.report.report import by_problem
from ipexctl.errors import RunFailed
from ipexctl.facts.facts import Facts
from ipexctl.facts.reachability_facts import Peer
from ipexctl.inventory.hostfile_text import fold
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.outcome.run_result import EXIT_HOST_FAILED
from ipexctl.run.plan.launch import LaunchPlan
from ipexctl.stack.version_table import StackRow

ROWS = 3  # rows for one problem if hosts have different values


def _check_ids(*families: str) -> frozenset[str]:
    """Expand ids of one family: "NET 002 003" means two checks."""
    words = [family.split() for family in families]
    return frozenset(f"{name}-{number}" for name, *numbers in words for number in numbers)


# with the severity "fail" these stop a run: it would break, or give wrong numbers
BLOCK = _check_ids(
    "SOFT 001 003 004 008 012 015 025",
    "MPI 001 002 003 004 005",
    "SHM 001 003 004",
    "MEM 001",
    "DISK 001 002 003 009",
    "TMP 001",
    "NET 002 003 010 025 026",
    "UNI 001",
)
# these are reported when they warn
TELL = BLOCK | _check_ids(
    "CLOCK 001",
    "SHM 002",
    "MEM 003",
    "DISK 004",
    "TMP 002",
    "NET 012 013 015",
    "UNI 002",
    "LIM 001 003 004",
    "LOAD 004",
)
# and these for a run that continues without the login that started it
AT_LOGOUT = _check_ids("SYS 005 006")
EACH_TIME = _check_ids("LOAD 004")  # also if they were reported a moment ago
PEERS = frozenset({"NET-002", "NET-003", "NET-025"})
ROOM = 256 << 20  # bytes: the environment exists already; a run writes at least this much
FRESH = 600.0  # seconds for which tests of connections are valid


@dataclass(frozen=True)
class Judged:
    blockers: tuple[Finding, ...] = ()
    warnings: tuple[Finding, ...] = ()

    @property
    def among_hosts(self) -> bool:
        """Whether a finding is about a connection between hosts."""
        return any(finding.id in PEERS for finding in (*self.blockers, *self.warnings))


def judge_preflight(
    facts: Sequence[Facts],
    prefixes: Mapping[str, str],
    *,
    peers: tuple[Peer, ...] = (),
    rows: tuple[StackRow, ...] = (),
    lives_on: bool = False,
) -> Judged:
    """Judge the facts. `prefixes`: each host's environment. `lives_on`: without its command."""
    ids = TELL | AT_LOGOUT if lives_on else TELL
    checks = [check for check in all_checks() if check.id in ids]
    findings = [
        _adapt_finding(f, facts)
        for f in run_checks(checks, CheckedHosts(tuple(facts), peers, rows))
    ]
    if not any(f.id == "SOFT-015" for f in findings):
        findings += _environment_findings(facts, prefixes)
    fails = tuple(f for f in findings if f.severity is Severity.FAIL and f.id in BLOCK)
    warns = tuple(f for f in findings if f not in fails and f.severity is not Severity.NOTE)
    return Judged(fails, warns)


def keep_competing_runs(facts: Facts, plan: LaunchPlan, *, queued: bool) -> Facts:
    """Return facts with only those other runs that use the CPUs of this one; a run that is queued
    waits for them."""
    ranks = (place for host in plan.hosts if host.host == facts.host for place in host.ranks)
    cpus = {cpu for place in ranks for cpu in (*place.cpus, *place.comm)} or None
    load = facts.condition.load
    runs = () if queued else tuple(run for run in load.runs if run.uses_any_of(cpus))
    load = replace(load, runs=runs)
    return replace(facts, condition=replace(facts.condition, load=load))


def _adapt_finding(finding: Finding, facts: Sequence[Facts]) -> Finding:
    """Adapt a finding of the doctor. It fails a disk that has no room for an environment, which
    exists here; and it only notes that a logout ends processes, which would end this run."""
    if finding.id in AT_LOGOUT:
        return replace(finding, severity=Severity.WARN)
    if finding.id != "DISK-003" or finding.severity is not Severity.FAIL:
        return finding
    free = next((f.disk.free for f in facts if f.host == finding.host), None)
    little = free is not None and free < ROOM
    return finding if little else replace(finding, severity=Severity.WARN)


def _environment_findings(facts: Sequence[Facts], prefixes: Mapping[str, str]) -> list[Finding]:
    groups = group_hosts(facts, lambda f: posixpath.basename(prefixes.get(f.host, "")))
    if len(groups) < 2:
        return []
    why = "Ranks on some hosts import other versions, and may not understand what they receive."
    title = "the hosts' environments differ"
    return [Finding("SOFT-015", Severity.WARN, "", title, hosts_by_value(groups), why, REBUILT)]


# --- text ----------------------------------------------------------------------------------------


def make_refusal(blockers: Sequence[Finding], again: str = "") -> RunFailed:
    """Make the error for findings that stop the run: the problems, then their fixes. `again`: the
    command that starts it anyway."""
    hosts = {f.host for f in blockers if f.host}
    n = len(by_problem(blockers))
    problems = "a problem" if n == 1 else f"{n} problems"
    where = f" on {fold(sorted(hosts))}" if hosts else ""
    todo = dict.fromkeys(
        f"{line}; {number}" if " # " in (line := shell_line(text)) else f"{line}   # {number}"
        for number, fix in list_fixes(blockers)
        for text in fix.lines
    )
    return RunFailed(
        f"nothing was started: {problems}{where} would break this run",
        why="\n".join(findings_table(blockers)),
        hint="\n".join([*todo, again or FORCE]),
        slug="preflight",
        exit_code=EXIT_HOST_FAILED,
    )


def findings_table(findings: Sequence[Finding]) -> list[str]:
    """Return a line for each: id, hosts, title, and evidence."""
    rows = fold_findings(findings)
    width = max((len(hosts) for _, hosts, _ in rows), default=0)
    return [f"{number:9}  {hosts:{width}}  {text}" for number, hosts, text in rows]


def list_fixes(findings: Iterable[Finding]) -> list[tuple[str, Fix]]:
    """Return id and fix; for many findings of one problem, the first ones."""
    return [(p.first.id, fix) for p in by_problem(findings) for fix in list(p.hosts_by_fix)[:ROWS]]


def fold_findings(findings: Iterable[Finding]) -> list[tuple[str, str, str]]:
    """Return id, hosts, title and evidence, one row for equal findings."""
    rows = []
    for problem in by_problem(findings):
        title, evidence = problem.first.title, list(problem.evidence.items())
        if rest := evidence[ROWS:]:
            hosts = [host for _, names in rest for host in names]
            evidence[ROWS:] = [(f"{len(rest)} other values (ipexctl doctor -v)", hosts)]
        for text, names in evidence:
            where = fold(filter(None, names)) or "all"
            rows.append((problem.first.id, where, f"{title}: {text}" if text else title))
    return rows


# --- memory --------------------------------------------------------------------------------------


def preflight_mark(facts: Sequence[Facts], prefixes: Mapping[str, str]) -> str:
    """Return a mark of these hosts since their boot, with their environments and addresses."""
    marks = sorted(
        [f.host, f.boot_id, f.net.ssh_address, prefixes.get(f.host, ""), *_host_addresses(f)]
        for f in facts
    )
    return hashlib.sha256(json.dumps(marks).encode()).hexdigest()[:32]


def _host_addresses(facts: Facts) -> list[str]:
    return [address for nic in facts.net.nics for address in nic.addresses]
