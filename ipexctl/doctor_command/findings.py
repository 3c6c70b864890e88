"""Findings, each shown once: hosts without an answer, failures, warnings, notes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from rich.cells import cell_len
from rich.text import Text

from ipexctl.base.host_outcome import HostDown
from ipexctl.doctor.report.finding import Severity
from ipexctl.doctor.report.report import Problem, Report, by_problem, in_common
from ipexctl.doctor_command.report_lines import (
    STYLES,
    command_lines,
    fold_hosts,
    labelled_lines,
    truncate_text,
)
from ipexctl.facts.host_facts import plain
from ipexctl.machines.suggested_commands import merged_hints

BLOCKS = 8  # warnings on the first screen; failures are all shown
NOTES = 4
EVIDENCE = 3
FIXES = 2
VALUES = 6
WHO = 40  # characters of the hosts' names
EVIDENCE_LETTERS = 240
KEYS = 8
_ADDRESS = re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}\b|[\da-f]{0,4}(?::[\da-f]{0,4}){2,7}")
_PLURAL = {"fail": "failures", "warn": "warnings", "note": "notes"}


# --- hosts without an answer ---------------------------------------------------------------------


def down_host_lines(report: Report, width: int | None, *, verbose: bool) -> list[Text]:
    text: list[Text] = []
    unknown = [member for member in report.down if member.slug == "host-key-unknown"]
    if unknown:
        names = [member.host for member in unknown]
        text += _block_heading(
            "unreachable", "", names, "their host keys are not trusted yet", width
        )
        for down in unknown if verbose else unknown[:KEYS]:
            text += labelled_lines("key", f"{down.host}: {down.why or down.what}", width)
        if len(unknown) > KEYS and not verbose:
            text.append(Text(f"  … and {len(unknown) - KEYS} more keys: -v", "dim"))
        text += command_lines(
            "fix", f"{report.trust_command}   (compare the fingerprints first)", width
        )
    for group in group_alike_downs([member for member in report.down if member not in unknown]):
        text += _no_answer(group, width, verbose=verbose)
    return text + command_lines("or", report.without_downs, width)


def group_alike_downs(down: Sequence[HostDown]) -> list[list[HostDown]]:
    """Group hosts whose messages differ only in their own name and address."""
    groups: dict[tuple[str, ...], list[HostDown]] = {}
    for member in down:
        texts = (part.replace(member.host, "") for part in (member.what, member.why, member.hint))
        key = (member.slug, *(_ADDRESS.sub("", part) for part in texts))
        groups.setdefault(key, []).append(member)
    return list(groups.values())


def brief_and_hint(group: Sequence[HostDown]) -> tuple[str, str]:
    """Return what is common to the messages of these hosts, and what to do."""
    down, briefs = group[0], list(dict.fromkeys(d.brief for d in group))
    shared = in_common(briefs) if len(briefs) > 1 else None
    names = fold_hosts([d.host for d in group], WHO)
    hints = [replace(d, hint=d.hint.replace(f"on {d.host}: ", f"on {names}: ")) for d in group]
    return shared[0] if shared else down.brief, merged_hints(hints)


def _no_answer(group: Sequence[HostDown], width: int | None, *, verbose: bool) -> list[Text]:
    down, names = group[0], [member.host for member in group]
    brief, hint = brief_and_hint(group)
    text = _block_heading(down.state.value, "", names, brief, width)
    why = down.why if verbose else down.why.strip().rpartition("\n")[2]
    text += labelled_lines("why", why, width) if why else []
    return text + command_lines("fix", hint, width)


# --- findings ------------------------------------------------------------------------------------


def finding_blocks(report: Report, width: int | None, *, verbose: bool) -> list[Text]:
    text: list[Text] = []
    for severity in Severity:
        problems = by_problem(report.findings, severity)
        limit = {Severity.WARN: BLOCKS, Severity.NOTE: NOTES}.get(severity, len(problems))
        shown, hidden = (problems, []) if verbose else (problems[:limit], problems[limit:])
        if severity is Severity.NOTE and not verbose:
            text += _note_lines(shown, width, report.all_hosts)
        else:
            for problem in shown:
                text += _problem_block(problem, width, report.all_hosts, verbose=verbose)
        if hidden:
            word = severity.value if len(hidden) == 1 else _PLURAL[severity.value]
            ids = ", ".join(dict.fromkeys(p.first.id for p in hidden))
            summary = f"… and {len(hidden)} more {word}: -v"
            text.append(Text(truncate_text(f"{summary}   ({ids})", width), "dim"))
    return text


def _problem_block(
    problem: Problem, width: int | None, everyone: Sequence[str], *, verbose: bool
) -> list[Text]:
    first = problem.first
    names = problem.hosts or everyone
    text = _block_heading(first.severity.value, first.id, names, first.title, width)
    text += labelled_lines("seen", "\n".join(evidence_lines(problem, verbose=verbose)), width)
    if verbose:
        text += labelled_lines("why", first.why, width)
    return text + _fix_lines(problem, width, verbose=verbose)


def evidence_lines(problem: Problem, *, verbose: bool) -> list[str]:
    """Return each distinct piece of evidence, with its hosts where it differs."""
    seen = problem.evidence
    texts = list(seen) if verbose else [truncate_text(text, EVIDENCE_LETTERS) for text in seen]
    if len(seen) > 1 and problem.hosts:
        names = [fold_hosts(hosts, None if verbose else WHO) for hosts in seen.values()]
        if shared := in_common(seen):
            values = [f"{v} on {n}" for v, n in zip(shared[1], names, strict=True) if v != n]
            return [shared[0], ", ".join(_first_lines(values, None if verbose else VALUES))]
        texts = [f"{n}: {t}" for n, t in zip(names, texts, strict=True)]
    return _first_lines(texts, None if verbose else EVIDENCE)


def _fix_lines(problem: Problem, width: int | None, *, verbose: bool) -> list[Text]:
    """Return each different fix, under the hosts that it is for."""
    fixes = problem.hosts_by_fix
    if list(map(len, fixes.values())) == [max(1, len(problem.hosts))]:
        return command_lines("fix", str(problem.first.fix), width)
    text: list[Text] = []
    for fix, hosts in list(fixes.items())[: None if verbose else FIXES]:
        first, *rest = str(fix).splitlines()
        text += command_lines(
            "fix", "\n".join([f"on {fold_hosts(hosts, WHO)}: {first}", *rest]), width
        )
    hidden = list(fixes.values())[FIXES:]
    if hidden and not verbose:
        text.append(Text(f"      … and for {fold_hosts(sum(hidden, []), WHO)}: -v"))
    return text


def _first_lines(lines: list[str], limit: int | None) -> list[str]:
    hidden = 0 if limit is None else len(lines) - limit
    return lines if hidden <= 0 else [*lines[:limit], f"… and {hidden} more: -v"]


def _note_lines(notes: Sequence[Problem], width: int | None, everyone: Sequence[str]) -> list[Text]:
    """Return the notes, one line each."""
    if not notes:
        return []
    limit = None if width is None else max(16, width // 3)
    names = [fold_hosts(p.hosts or everyone, limit) for p in notes]
    number = max(len(p.first.id) for p in notes)
    name = max(map(cell_len, names))
    text = [Text()]
    for problem, host_names in zip(notes, names, strict=True):
        start = f" {problem.first.id:{number}}  {host_names}{' ' * (name - cell_len(host_names))}  "
        room = None if width is None else max(20, width - 4 - cell_len(start))
        line = Text("note", STYLES["note"]).append(start)
        text.append(line.append(truncate_text(problem.first.title, room)))
    return text


def _block_heading(
    state: str, number: str, names: Sequence[str], title: str, width: int | None
) -> list[Text]:
    """Return an empty line and the heading of a finding, with as many host names as fit."""
    text = Text(state, f"bold {STYLES[state]}")
    if number:
        text.append(f" {number}", "not bold")
    title = plain(title)
    room = 80 if width is None else max(20, width - cell_len(title) - len(text) - 4)
    text.append(f"  {fold_hosts(names, room)}: ", "bold").append(title, "not bold")
    return [Text(), text]
