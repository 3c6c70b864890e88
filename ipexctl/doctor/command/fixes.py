"""The plan of --fix, the question, and what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import IO, Any, TextIO

from rich.text import Text

from ipexctl.doctor.apply_fixes import FixReport
from ipexctl.doctor.command.report_lines import command
from ipexctl.doctor.report.fix_plan import Plan, scripts
from ipexctl.doctor.report.fix_play import fix_play
from ipexctl.doctor.report.report import Report
from ipexctl.facts.host_facts import plain
from ipexctl.inventory.hostfile_text import fold
from ipexctl.machines import suggested_commands as hints
from ipexctl.machines.target import Target
from ipexctl.terminal.confirm import DECLINED, confirm
from ipexctl.terminal.console import console_on, print_lines


def show_plan(plans: Sequence[Plan], file: IO[str]) -> None:
    """Hosts with the same plan together."""
    groups: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for p in plans:
        if p.changes:
            groups.setdefault(tuple((c.what, c.undo) for c in p.changes), []).append(p.host)
    console = console_on(file)
    for changes, names in groups.items():
        print_lines(console, [Text(f"{plain(fold(names))}:", "bold")])
        for what, undo in changes:
            print_lines(console, [Text(f"  {plain(what)}   [undo: {plain(undo)}]")])
    for p in plans:
        for text in p.left:
            print_lines(console, [Text(f"{plain(p.host)}: not reverted: {plain(text)}")])


def show_scripts(report: Report, file: IO[str]) -> None:
    """For `sh`, so nothing but the script: one part for each group of hosts."""
    names = [h.name for h in report.hosts]
    parts = scripts(report.findings, names)
    for down in report.down:
        print(f"# not looked at: {plain(down.what)}", file=file)
    if not parts:
        print("# nothing needs root", file=file)
    if len(parts) > 1:
        print("# Several parts for different hosts: --limit HOST prints one.\n", file=file)
    for _, text in parts:
        print(text, file=file)


def show_play(report: Report, file: IO[str]) -> None:
    for down in report.down:
        print(f"# not looked at: {plain(down.what)}", file=file)
    text = fix_play(report.findings, [h.name for h in report.hosts])
    print(text or "# nothing needs root", end="" if text else "\n", file=file)


def undo_command(target: Target, root: str) -> str:
    return f"{hints.command(target, 'doctor', root)} --undo"


def ask(plans: Sequence[Plan], stdin: TextIO, file: TextIO) -> bool:
    show_plan(plans, file)
    return confirm("Do this? [y/N] ", stdin, out=file)


def show_done(report: FixReport, file: IO[str], again: str) -> None:
    """`again` is the command that takes it back; "" after that one itself."""
    console = console_on(file)
    for done in report.done:
        for text in done.done:
            print_lines(console, [Text(f"{plain(done.host)}: {plain(text)}")])
        for text in done.failed:
            line = Text("failed", "red").append(f" {plain(done.host)}: {plain(text)}", "not red")
            print_lines(console, [line])
    for down in report.down:
        print_lines(console, [Text("failed", "red").append(f" {plain(down.what)}")])
        for line in command("fix", down.hint):
            print_lines(console, [line])
    if not any(d.done or d.failed for d in report.done) and not report.down:
        words = DECLINED if not report.agreed else "nothing to fix without root"
        console.print(Text(words if again else "nothing to undo"))
    elif again and any(d.done for d in report.done):
        print_lines(console, [Text(f"to undo: {again}")])


def document(report: FixReport) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "command": "doctor --fix",
        "plans": [asdict(p) for p in report.plans],
        "done": [asdict(d) for d in report.done],
        "down": [asdict(d) for d in report.down],
        "exit_code": report.exit_code,
    }
