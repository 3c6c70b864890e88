"""`doctor --print`: the script of what only root can do, and which fixes need no question."""

from __future__ import annotations

from collections.abc import Sequence

from ipexctl.base.values import plain
from ipexctl.doctor.report.finding import Finding, Severity
from ipexctl.doctor.report.report import Problem, by_problem
from ipexctl.doctor.report.suggested_fix import Command, Fix, Shell
from ipexctl.inventory.hostfile_text import fold

# One step that fails must not keep the others from being done. No `exit`: some paste this.
_START = ("bad=", 'failed() { echo "$1: failed" >&2; bad=1; }')
_END = ('test -z "$bad"',)


def scripts(findings: Sequence[Finding], hosts: Sequence[str]) -> list[tuple[list[str], str]]:
    """A shell script for each group of hosts that need the same commands. For reading, then for
    root."""
    grave = [f for f in findings if f.severity is not Severity.NOTE and f.fix.needs_root]
    groups: dict[tuple[str, ...], list[str]] = {}
    for host in hosts:
        own = [f for f in grave if f.host in ("", host)]
        live = tuple(f"{f.id} {command}" for f in own for command in ready_commands(f.fix))
        if own:
            groups.setdefault(live, []).append(host)
    return [(names, _script(names, grave)) for names in groups.values()]


def _script(names: Sequence[str], findings: Sequence[Finding]) -> str:
    head = (
        f"# for {_comment(fold(names))}",
        "# written by `ipexctl doctor --print`: read it, then run it there as a user of sudo",
    )
    own = by_problem(f for f in findings if f.host in ("", *names))
    lines = [line for problem in own for line in _script_of(problem, names)]
    return "\n".join([*head, *_START, *lines, "", *_END]) + "\n"


def _script_of(problem: Problem, names: Sequence[str]) -> list[str]:
    """Its commands; what is advice, a choice, or not plainly harmless stays a comment."""
    found = ["", f"# {problem.first.id} {_comment(problem.first.title)}"]
    for fix, hosts in problem.fixes.items():
        live = ready_commands(fix)
        where = "" if {*hosts} in ({*names}, {""}) else f"on {fold(hosts)}: "
        for line, command in zip(fix.lines, _unattended(fix), strict=True):
            done = f"{command} || failed {problem.first.id}"
            found.append(done if command in live else f"#   {_comment(where + line)}")
    return list(dict.fromkeys(found))


def ready_commands(fix: Fix) -> list[Command | Shell]:
    """Those that root can run without a question; none where there is a choice between some."""
    ready = [command for command in _unattended(fix) if command]
    return ready if len(ready) == 1 else []


def _unattended(fix: Fix) -> list[Command | Shell | None]:
    """One for each alternative."""
    return [
        next((p for p in parts if not isinstance(p, str) and p.unattended), None)
        for parts in fix.alternatives
    ]


def _comment(text: str) -> str:
    return plain(" ".join(text.split()))
