"""The fixes that need no decision: as a script for root, and as the play of `doctor --fix`."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from ipexctl.base.quoting import quote
from ipexctl.base.values import plain
from ipexctl.doctor.report.finding import Command, Finding, Fix, Severity, Shell
from ipexctl.doctor.report.report import Problem, by_problem
from ipexctl.inventory.hostfile_text import fold
from ipexctl.quick_dataclass import dataclass

# One step that fails must not prevent the others. No `exit`: some users paste this.
_START = ("bad=", 'failed() { echo "$1: failed" >&2; bad=1; }')
_END = ('test -z "$bad"',)


def root_scripts(findings: Sequence[Finding], hosts: Sequence[str]) -> list[tuple[list[str], str]]:
    """Return a shell script for root, meant to be read first, for each group of hosts that need the
    same commands."""
    grave = [f for f in findings if f.severity is not Severity.NOTE and f.fix.needs_root]
    groups: dict[tuple[str, ...], list[str]] = {}
    for host in hosts:
        relevant = [f for f in grave if f.host in ("", host)]
        commands = tuple(f"{f.id} {command}" for f in relevant for command in ready_commands(f.fix))
        if relevant:
            groups.setdefault(commands, []).append(host)
    return [(names, _script_text(names, grave)) for names in groups.values()]


def _script_text(names: Sequence[str], findings: Sequence[Finding]) -> str:
    head = (
        f"# for {_comment_text(fold(names))}",
        "# written by `ipexctl doctor --print`: read it, then run it there as a user of sudo",
    )
    problems = by_problem(finding for finding in findings if finding.host in ("", *names))
    lines = [line for problem in problems for line in _script_of(problem, names)]
    return "\n".join([*head, *_START, *lines, "", *_END]) + "\n"


def _script_of(problem: Problem, names: Sequence[str]) -> list[str]:
    """Return lines of a script; advice, choices and risky commands become comments."""
    lines = ["", f"# {problem.first.id} {_comment_text(problem.first.title)}"]
    for fix, hosts in problem.hosts_by_fix.items():
        ready = ready_commands(fix)
        where = "" if {*hosts} in ({*names}, {""}) else f"on {fold(hosts)}: "
        for line, command in zip(fix.lines, _unattended_commands(fix), strict=True):
            guarded = f"{command} || failed {problem.first.id}"
            lines.append(guarded if command in ready else f"#   {_comment_text(where + line)}")
    return list(dict.fromkeys(lines))


def ready_commands(fix: Fix) -> list[Command | Shell]:
    """Return the commands that root can run without a decision; [] if there is a choice."""
    ready = [command for command in _unattended_commands(fix) if command]
    return ready if len(ready) == 1 else []


def _unattended_commands(fix: Fix) -> list[Command | Shell | None]:
    """Return the unattended command of each alternative, or None."""
    return [
        next((part for part in parts if not isinstance(part, str) and part.unattended), None)
        for parts in fix.alternatives
    ]


def _comment_text(text: str) -> str:
    return plain(" ".join(text.split()))


WRITTEN = "# Written by `ipexctl doctor`"
_INSTALLERS = ("apt-get", "dnf", "zypper")
_AGAIN = {"--reinstall", "--force"}
_SETTING = re.compile(r"([a-z0-9_.]+)=(.*)")


@dataclass(frozen=True)
class FixStep:
    """A step, its keyword and arguments as the play has them."""

    check: str
    title: str
    kind: str
    args: dict[str, object]
    sudo: bool = True


def fix_play(findings: Sequence[Finding], hosts: Sequence[str]) -> str:
    """Return the text of the play; only comments if every fix needs a decision."""
    by_step: dict[str, tuple[FixStep, list[str]]] = {}
    undecided: dict[str, list[str]] = {}
    for finding in findings:
        ready = ready_commands(finding.fix)
        if finding.fix.needs_root:
            if finding.severity is Severity.NOTE:
                continue
        elif not ready:
            continue
        where = [finding.host] if finding.host else hosts
        for command in ready:
            kind, args = step_for_command(command)
            step = FixStep(finding.id, finding.title, kind, args, sudo=command.needs_root)
            by_step.setdefault(repr(step), (step, []))[1].extend(where)
        if not ready:
            words = f"{finding.id} {plain(finding.title)}: {plain(finding.fix.lines[0])}"
            undecided.setdefault(words, []).extend(where)
    lines = [f"{WRITTEN}. Read it, then: ipexctl play FILE"]
    lines += [f"# left to you, on {fold(names)}: {words}" for words, names in undecided.items()]
    if not by_step:
        return "".join(f"{line}\n" for line in lines[1:])
    lines += ["name: what doctor recommends", "sudo: true", "steps:"]
    for step, names in by_step.values():
        lines += _step_lines(step, names, hosts)
    return "\n".join(lines) + "\n"


def _step_lines(step: FixStep, names: Sequence[str], hosts: Sequence[str]) -> list[str]:
    lines = [
        f"  - name: {json.dumps(f'{step.check} {plain(step.title)}')}",
        f"    tags: [{step.check}]",
        f"    {step.kind}: {json.dumps(step.args)}",
    ]
    if not step.sudo:
        lines.append("    sudo: false")
    if set(names) != set(hosts):
        lines.append(f"    on: {json.dumps(','.join(names))}")
    return lines


def step_for_command(command: Command | Shell) -> tuple[str, dict[str, object]]:
    """Return the kind and the arguments of a play's step equivalent to the command."""
    if isinstance(command, Shell):
        return "sh", {"cmd": command.text.replace("sudo ", "").replace("${", "$${")}
    words = [word for word in command.argv if word != "sudo"]
    if command.pipe[:2] == ("sudo", "tee"):
        return _step_for_line(words[1], command.pipe[-1], append="-a" in command.pipe)
    if words[0] in _INSTALLERS and words[1] == "install" and not _AGAIN & {*words}:
        return "package", {"name": [word for word in words[2:] if not word.startswith("-")]}
    setting = _SETTING.fullmatch(words[-1])
    if words[0] == "sysctl" and setting:
        return "sysctl", {"name": setting[1], "value": setting[2]}
    if words[0] == "chmod" and len(words) == 3:
        return "file", {"path": words[2], "mode": words[1], "state": "directory"}
    return "sh", {"cmd": quote(tuple(words))}


def _step_for_line(line: str, path: str, *, append: bool) -> tuple[str, dict[str, object]]:
    if append:
        return "line", {"path": path, "line": line, "create": True}
    if path.startswith("/sys/"):
        test = f"grep -qE '^{line}$|\\[{line}\\]' {path}"
        return "sh", {"cmd": f"echo {line} > {path}", "unless": test}
    return "file", {"path": path, "content": f"{line}\n"}
