"""What `report` prints."""

from __future__ import annotations

from ipexctl.base.sizes import human
from ipexctl.report.run_report import Report
from ipexctl.terminal.console import print_lines, print_text, stderr_console, stdout_console
from ipexctl.terminal.recap_lines import not_shown


def show(made: Report) -> None:
    if made.path is not None:
        size = human(len(made.html.encode()))
        print_text(stdout_console(), f"{made.path}  {size}: {made.run.id}, {made.run.state.value}")
    print_lines(stderr_console(), not_shown(made.recaps, made.answered))
