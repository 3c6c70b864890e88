"""The fixes that need no decision: as a script, as a play, and applied to the hosts."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import IO

from ipexctl.base.quoting import quote
from ipexctl.common.files import write_atomic
from ipexctl.doctor.report.fix_plan import WRITTEN, fix_play, root_scripts
from ipexctl.doctor.report.report import Report
from ipexctl.errors import EXIT_FAILED, InputError, reason_of
from ipexctl.facts.host_facts import plain
from ipexctl.machines import suggested_commands as hints
from ipexctl.machines.target import Target
from ipexctl.play.command.show_plays import show_plays
from ipexctl.play.steps import all_steps
from ipexctl.play.text.play_options import PlayOptions
from ipexctl.play.text.play_reader import read_play
from ipexctl.terminal.confirm import DECLINED, confirm

FILE = Path("doctor-fix.yaml")
NOTHING = "nothing can be fixed without a question"


def show_scripts(report: Report, file: IO[str]) -> None:
    """Print a script for `sh` and nothing else: one part for each group of hosts."""
    names = [host.name for host in report.hosts]
    parts = root_scripts(report.findings, names)
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
    print(_play_of(report) or f"# {NOTHING}\n", end="", file=file)


def run_fixes(report: Report, target: Target, root: str, *, yes: bool, json: bool) -> int:
    """Write the play, show it, ask, and run it as `ipexctl play` does."""
    text = _play_of(report)
    command = f"{hints.suggest_command(target, 'play', root)} {FILE}"
    print(text, end="", file=sys.stderr)
    if not text.startswith(WRITTEN):
        print(NOTHING, file=sys.stderr)
        show_plays([], target, PlayOptions(root=root), again=command, json=json)
        return report.exit_code if report.down else 0
    _write_play(text)
    refusal = InputError(
        "cannot ask for confirmation: stdin is not a terminal (use --yes)",
        why="the command asks before it changes anything",
        hint=f"read {FILE}, then: {command}",
        slug="no-terminal",
    )
    if not yes and not confirm(f"Run {FILE}? [y/N] ", sys.stdin, refusal):
        print(f"{DECLINED}; {command} runs it", file=sys.stderr)
        return EXIT_FAILED
    play = read_play(text, str(FILE), all_steps())
    return show_plays([play], target, PlayOptions(root=root), again=command, json=json)


def _play_of(report: Report) -> str:
    return fix_play(report.findings, [host.name for host in report.hosts])


def _write_play(text: str) -> None:
    """Write the play; only a play that an earlier `doctor` wrote is replaced."""
    try:
        if os.path.lexists(FILE) and not FILE.read_text("utf-8", "replace").startswith(WRITTEN):
            message = f"{FILE} is there already, and doctor did not write it"
            hint = f"{quote(('mv', str(FILE), 'my-play.yaml'))}   # or run it in another folder"
            raise InputError(message, hint=hint, slug="fix-file-exists")
        write_atomic(FILE, text)
    except OSError as e:
        raise InputError(
            f"cannot write {FILE}", why=reason_of(e), slug="fix-file-not-written"
        ) from None
