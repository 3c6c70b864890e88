"""A doctor's report as text: verdict, what to do, a table of the hosts, then the findings.

The first screen is for new users, with three hosts or with 300: it folds what is equal, and says
how to see the rest. On a terminal lines are fitted to its width; in a pipe nothing is cut, wrapped
or padded. A command to copy is never broken into lines.
"""

from __future__ import annotations

from typing import IO

from rich.cells import cell_len
from rich.text import Text

from ipexctl.base import quoting
from ipexctl.base.shell_line import is_command
from ipexctl.base.wrapping import wrap_text
from ipexctl.doctor.checks.interfaces import link_speed, peer_nic
from ipexctl.doctor.report.cluster import group_hosts
from ipexctl.doctor.report.finding import Severity
from ipexctl.doctor.report.recommendations import Recommendation
from ipexctl.doctor.report.report import Report, by_problem
from ipexctl.doctor_command.findings import down_host_lines, finding_blocks
from ipexctl.doctor_command.host_table import host_table_lines
from ipexctl.doctor_command.measured import measurement_lines
from ipexctl.doctor_command.report_lines import fold_hosts, labelled_lines, truncate_text
from ipexctl.facts.facts import Facts
from ipexctl.facts.host_facts import plain
from ipexctl.inventory.hostfile_text import fold
from ipexctl.terminal.console import console_on

ADVICE_GROUPS = 4


def show_doctor_report(
    report: Report, file: IO[str], *, verbose: bool = False, width: int | None = None
) -> None:
    """Print the report; `width` None: the terminal's width, unlimited if it is not a terminal."""
    console = console_on(file)
    if width is None and file.isatty():
        console.width = max(console.width, 40)
        width = console.width
    parts = [*_head_lines(report, width), Text()]
    parts += host_table_lines(report, width, verbose=verbose)
    parts += _detail_lines(report, width) if verbose else []
    for text, hosts in report.environments.items():
        where = "" if len(report.environments) == 1 else f"{fold(hosts)}: "
        parts.append(Text(plain(where + text), "dim"))
    parts += _recommendation_lines(report, width, verbose=verbose)
    parts += measurement_lines(report, verbose=verbose)
    parts += down_host_lines(report, width, verbose=verbose)
    parts += finding_blocks(report, width, verbose=verbose)
    console.print(Text("\n").join(parts), soft_wrap=True)


def verdict_line(report: Report, width: int | None = None) -> Text:
    """Return the answer as one line; without enough room the duration is left out first."""
    states = [report.state(host.name) for host in report.hosts]
    usable = sum(state in ("ok", "warn") for state in states)
    total = len(states)
    text = Text()
    color = "green" if usable == total else "red"
    ready = f"{usable} of {total} host{'s' if total != 1 else ''} ready"
    if report.unchecked:
        ready = f"hosts in {report.unchecked} not checked; this machine: {ready}"
    text.append(plain(ready), f"bold {color}")
    if usable and any(f.severity is Severity.FAIL and not f.host for f in report.findings):
        text.append(", but not together", "bold red")
    slow = len(by_problem(report.findings, Severity.WARN))
    counts = [
        (states.count("unreachable"), "unreachable"),
        (states.count("failed") + states.count("fail"), "failed"),
        (slow, "warning" if slow == 1 else "warnings"),
    ]
    text.append("".join(f" · {n} {word}" for n, word in counts if n))
    elapsed = f" · {report.seconds:.1f} s"
    return text if width and len(text) + len(elapsed) > width else text.append(elapsed, "dim")


def _head_lines(report: Report, width: int | None) -> list[Text]:
    label, command = first_step(report)
    first, *rest = wrap_text(label + command, width) if width else [label + command]
    start = Text(first[: len(label)], "bold").append(first[len(label) :], "not bold")
    return [verdict_line(report, width), start, *map(Text, rest)]


def first_step(report: Report) -> tuple[str, str]:
    """Return a label, and the command to type first."""
    where, command = _first_thing(report) if not report.unchecked else ("", "")
    if not command:
        return "next: ", plain(_next_command(report))
    return (f"do this on {plain(where)}: " if where else "do this: "), plain(command)


def _next_command(report: Report) -> str:
    """Return the command to type after doctor: init, install or run."""
    if report.unchecked:
        return (
            f"ipexctl init   # every command uses the hosts in {quoting.quote((report.unchecked,))}"
        )
    files = quoting.quote(("-r", report.requirements)) if report.requirements else ""
    ready = not files and all(facts.software and facts.software.used for facts in report.facts)
    root = quoting.quote(("--root", report.root)) if report.root else ""
    script = quoting.quote((report.script,))
    words = ("run", report.named, root, script) if ready else ("install", report.named, root, files)
    way = "in" if ready else "instead of"
    origin = f"  # {way} the environment of project {plain(report.borrowed_project)}"
    return " ".join(
        word for word in ("ipexctl", *words, origin * bool(report.borrowed_project)) if word
    )


def _first_thing(report: Report) -> tuple[str, str]:
    """Return the hosts, and the command (or the sentence) that helps most."""
    if any(d.slug == "host-key-unknown" for d in report.down):
        return "", report.trust_command
    for severity in (Severity.FAIL, Severity.WARN):
        for problem in by_problem(report.findings, severity):
            for fix, hosts in problem.hosts_by_fix.items():
                if severity is Severity.FAIL or is_command(fix.lines[0]):
                    return fold(filter(None, hosts)), fix.lines[0].strip()
        if downs := [d for d in report.down if d.hint]:
            hints = {d.host: d.hint.splitlines()[0] for d in downs if d.slug == downs[0].slug}
            first = hints[downs[0].host]
            others = fold([host for host, hint in hints.items() if hint != first])
            return "", f"{first}   # then for {others}" if others else first
    return "", ""


# --- the links, with -v: equal ones together -----------------------------------------------------


def _detail_lines(report: Report, width: int | None) -> list[Text]:
    text: list[Text] = []
    for words, names in group_hosts(report.facts, _link_text).items():
        text += labelled_lines("link", f"{fold(names)}: {words}", width)
    return [Text(), *text] if text else []


def _link_text(facts: Facts) -> str:
    nic = peer_nic(facts)
    speed = link_speed(nic) if nic else ""
    return f"{nic.name}, {speed}" if nic and speed else ""


# --- what to run with on each group of equal hosts -----------------------------------------------


def _recommendation_lines(report: Report, width: int | None, *, verbose: bool) -> list[Text]:
    advice = sorted(report.recommendations, key=lambda item: -len(item.hosts))
    shown = advice if verbose else advice[:ADVICE_GROUPS]
    text = [Text()] if shown else []
    for item in shown:
        text += _advice_lines(item, width, verbose=verbose)
    if len(advice) > len(shown):
        text.append(Text(f"… and {len(advice) - len(shown)} more groups of equal hosts: -v", "dim"))
    return text


def _advice_lines(advice: Recommendation, width: int | None, *, verbose: bool) -> list[Text]:
    text = Text("use", "bold")
    names = fold_hosts(advice.hosts, max(24, width // 3) if width else 80)
    text.append(f"  {names}: ", "bold")
    words = advice_words(advice, None if width is None else width - cell_len(text.plain))
    lines = [text.append(words, "not bold")]
    if advice.verdict:
        lines += labelled_lines("but", advice.verdict, width)
    if verbose:
        lines += labelled_lines("cpu", advice.processor, width) if advice.processor else []
        for reason in advice.why:
            lines += labelled_lines("why", reason, width)
    elif advice.why and not advice.verdict:
        # only the reason of the data type: the other values are self-explanatory
        brief = f"{advice.processor} · {advice.why[0]}" if advice.processor else advice.why[0]
        lines.append(Text("  " + truncate_text(brief, width - 2 if width else 160), "dim"))
    return lines


def advice_words(r: Recommendation, room: int | None) -> str:
    """Return the advice in one line; what does not fit is in the table above, or shown with -v."""
    ranks = f"{r.ranks} rank{'s' * (r.ranks != 1)} × {r.threads} thread{'s' * (r.threads != 1)}"
    python = f"Python {r.python}" if r.python else ""
    parts = [part for part in (r.title, python, r.dtype, f"{ranks} per host") if part]
    brief = [part for part in (r.title, r.dtype, ranks) if part]
    words = " · ".join(parts)
    return words if room is None or cell_len(words) <= room else " · ".join(brief)
