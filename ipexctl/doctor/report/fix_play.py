"""The play of `doctor --fix` and `doctor --print --as play`: fixes that need no question."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from ipexctl.base.quoting import quote
from ipexctl.doctor.report.finding import Finding, Severity
from ipexctl.doctor.report.fix_plan import ready_commands
from ipexctl.doctor.report.suggested_fix import Command, Shell
from ipexctl.facts.host_facts import plain
from ipexctl.inventory.hostfile_text import fold
from ipexctl.quick_dataclass import dataclass

WRITTEN = "# Written by `ipexctl doctor`"
_INSTALLERS = ("apt-get", "dnf", "zypper")
_AGAIN = {"--reinstall", "--force"}
_SETTING = re.compile(r"([a-z0-9_.]+)=(.*)")


@dataclass(frozen=True)
class FixStep:
    """A step, its keyword and arguments as they stand in the play."""

    check: str
    title: str
    kind: str
    args: dict[str, object]
    sudo: bool = True


def fix_play(findings: Sequence[Finding], hosts: Sequence[str]) -> str:
    """The text of the play; only comments where nothing can be done without a question."""
    on: dict[str, tuple[FixStep, list[str]]] = {}
    left: dict[str, list[str]] = {}
    for finding in findings:
        ready = ready_commands(finding.fix)
        if finding.fix.needs_root:
            if finding.severity is Severity.NOTE:
                continue
        elif not ready:
            continue
        where = [finding.host] if finding.host else hosts
        for command in ready:
            step = as_step(finding, command)
            on.setdefault(repr(step), (step, []))[1].extend(where)
        if not ready:
            words = f"{finding.id} {plain(finding.title)}: {plain(finding.fix.lines[0])}"
            left.setdefault(words, []).extend(where)
    lines = [f"{WRITTEN}. Read it, then: ipexctl play FILE"]
    lines += [f"# left to you, on {fold(names)}: {words}" for words, names in left.items()]
    if not on:
        return "".join(f"{line}\n" for line in lines[1:])
    lines += ["name: what doctor recommends", "sudo: true", "steps:"]
    for step, names in on.values():
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


def as_step(finding: Finding, command: Command | Shell) -> FixStep:
    kind, args = _step(command)
    return FixStep(finding.id, finding.title, kind, args, sudo=command.needs_root)


def _step(command: Command | Shell) -> tuple[str, dict[str, object]]:
    if isinstance(command, Shell):
        return "sh", {"cmd": command.text.replace("sudo ", "").replace("${", "$${")}
    words = [word for word in command.argv if word != "sudo"]
    if command.pipe[:2] == ("sudo", "tee"):
        return _written(words[1], command.pipe[-1], append="-a" in command.pipe)
    if words[0] in _INSTALLERS and words[1] == "install" and not _AGAIN & {*words}:
        return "package", {"name": [word for word in words[2:] if not word.startswith("-")]}
    setting = _SETTING.fullmatch(words[-1])
    if words[0] == "sysctl" and setting:
        return "sysctl", {"name": setting[1], "value": setting[2]}
    if words[0] == "chmod" and len(words) == 3:
        return "file", {"path": words[2], "mode": words[1], "state": "directory"}
    return "sh", {"cmd": quote(tuple(words))}


def _written(line: str, path: str, *, append: bool) -> tuple[str, dict[str, object]]:
    if append:
        return "line", {"path": path, "line": line, "create": True}
    if path.startswith("/sys/"):
        test = f"grep -qE '^{line}$|\\[{line}\\]' {path}"
        return "sh", {"cmd": f"echo {line} > {path}", "unless": test}
    return "file", {"path": path, "content": f"{line}\n"}
