"""What `report` prints."""

from __future__ import annotations

from pathlib import Path

from rich.text import Text

from ipexctl.base.sizes import human
from ipexctl.report import difference_lines
from ipexctl.report.run_report import Report
from ipexctl.terminal.console import print_lines, print_text, stderr_console, stdout_console
from ipexctl.terminal.recap_lines import not_shown


def show(made: Report) -> None:
    if made.comparison is not None:
        out = stdout_console() if made.path else stderr_console()
        print_lines(out, map(Text, difference_lines.lines(made.comparison)))
    if made.path is not None:
        size = human(len(made.html.encode()))
        here = Path.cwd()
        path = made.path.relative_to(here) if here in made.path.parents else made.path
        print_text(stdout_console(), f"{path}  {size}: {made.run.id}, {made.run.state.value}")
    print_lines(stderr_console(), not_shown(made.recaps, made.answered))
