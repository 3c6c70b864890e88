"""A doctor's report as text: verdict, what to do, hosts in few rows, then what was found.

The first screen is for somebody who has never seen this before, with three hosts or with 300: it
folds what is equal, and says how to see the rest. On a terminal lines are fitted to its width; in a
pipe nothing is cut, wrapped or padded. A command to copy is never broken by us.
"""

from __future__ import annotations

from typing import IO

from rich.text import Text

from ipexctl.base import quoting
from ipexctl.base.wrapping import wrapped
from ipexctl.doctor.command.advice import advice
from ipexctl.doctor.command.details import details
from ipexctl.doctor.command.findings import blocks, downs
from ipexctl.doctor.command.host_table import lines
from ipexctl.doctor.command.measured import measured
from ipexctl.doctor.report.finding import Severity
from ipexctl.doctor.report.report import Report, by_problem
from ipexctl.facts.host_facts import plain
from ipexctl.inventory.hostfile_text import fold
from ipexctl.terminal.console import console_on


def show(report: Report, file: IO[str], *, verbose: bool = False, width: int | None = None) -> None:
    """`width` None: the terminal's own; not a terminal: as wide as it gets."""
    console = console_on(file)
    if width is None and file.isatty():
        console.width = max(console.width, 40)
        width = console.width
    parts = [*_head(report, width), Text()]
    parts += lines(report, width, verbose=verbose)
    parts += details(report, width) if verbose else []
    for text, hosts in report.environments.items():
        where = "" if len(report.environments) == 1 else f"{fold(hosts)}: "
        parts.append(Text(plain(where + text), "dim"))
    parts += advice(report, width, verbose=verbose)
    parts += measured(report, verbose=verbose)
    parts += downs(report, width, verbose=verbose)
    parts += blocks(report, width, verbose=verbose)
    console.print(Text("\n").join(parts), soft_wrap=True)


def verdict(report: Report, width: int | None = None) -> Text:
    """One line that answers the question; the time goes first when there is no room."""
    states = [report.state(h.name) for h in report.hosts]
    good = sum(s in ("ok", "warn") for s in states)
    total = len(states)
    text = Text()
    color = "green" if good == total else "red"
    ready = f"{good} of {total} host{'s' if total != 1 else ''} ready"
    if report.unchecked:
        ready = f"hosts in {report.unchecked} not checked; this machine: {ready}"
    text.append(plain(ready), f"bold {color}")
    if good and any(f.severity is Severity.FAIL and not f.host for f in report.findings):
        text.append(", but not together", "bold red")
    slow = len(by_problem(report.findings, Severity.WARN))
    counted = [
        (states.count("unreachable"), "unreachable"),
        (states.count("failed") + states.count("fail"), "failed"),
        (slow, "warning" if slow == 1 else "warnings"),
    ]
    text.append("".join(f" · {n} {word}" for n, word in counted if n))
    took = f" · {report.seconds:.1f} s"
    return text if width and len(text) + len(took) > width else text.append(took, "dim")


def _head(report: Report, width: int | None) -> list[Text]:
    where, command = _first_thing(report) if not report.unchecked else ("", "")
    label = f"do this on {plain(where)}: " if where else "do this: "
    if not command:
        label, command = "next: ", _next(report)
    first, *rest = wrapped(label + plain(command), width) if width else [label + plain(command)]
    start = Text(first[: len(label)], "bold").append(first[len(label) :], "not bold")
    return [verdict(report, width), start, *map(Text, rest)]


def _next(report: Report) -> str:
    if report.unchecked:
        return (
            f"ipexctl init   # every command uses the hosts in {quoting.quote((report.unchecked,))}"
        )
    needs = quoting.quote(("-r", report.requirements)) if report.requirements else ""
    ready = not needs and all(f.software and f.software.used for f in report.facts)
    root = quoting.quote(("--root", report.root)) if report.root else ""
    script = quoting.quote((report.script,))
    words = ("run", report.named, root, script) if ready else ("install", report.named, root, needs)
    way = "in" if ready else "instead of"
    whose = f"  # {way} the environment of project {plain(report.borrowed)}"
    return " ".join(w for w in ("ipexctl", *words, whose * bool(report.borrowed)) if w)


def _first_thing(report: Report) -> tuple[str, str]:
    """On which hosts, and the command (or the sentence) that helps most."""
    if any(d.slug == "host-key-unknown" for d in report.down):
        return "", report.trust
    for severity in (Severity.FAIL, Severity.WARN):
        for problem in by_problem(report.findings, severity):
            for fix, hosts in problem.fixes.items():
                return fold(filter(None, hosts)), fix.lines[0].strip()
        hints = [d.hint for d in report.down if d.hint]
        if hints:
            return "", hints[0].splitlines()[0]
    return "", ""
