"""The options of `report`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ipexctl.cli.declared_command import command
from ipexctl.cli.help_layout import output_option
from ipexctl.cli.options import Json, Root, end_command, on_hosts
from ipexctl.errors import InputError


@command("Runs", 60)
@on_hosts(names=False)
def report(
    run: Annotated[
        str,
        typer.Argument(
            metavar="[RUN]",
            help="Run name, run ID or its first characters; @last: your newest here. "
            "With --all, a pattern such as 'sweep*'.",
        ),
    ] = "@last",
    *,
    target: Any,
    root: Root = "~/.ipexctl",
    compare: Annotated[
        str, typer.Option("--compare", metavar="RUN", help="Show the differences from this run.")
    ] = "",
    many: Annotated[
        bool, typer.Option("-a", "--all", help="Write one page about all runs of this project.")
    ] = False,
    every_project: Annotated[
        bool, typer.Option("--every-project", help="With --all, include other projects.")
    ] = False,
    csv: Annotated[
        bool, typer.Option("--csv", help="With --all, print the table as CSV instead.")
    ] = False,
    to: Annotated[
        str,
        output_option(
            "-o",
            "--output",
            metavar="FILE",
            show_default=False,
            help="File to write (default: report.html in the run's folder here); - for stdout.",
        ),
    ] = "",
    json: Json = False,
) -> None:
    """Write a report of a run as one HTML file. Works during the run and after it.

    The file works offline: result, first cause, speed, loss, what the ranks waited for, a timeline
    of each host, and what the run was made of. Values of named secrets are masked. --json prints
    the same data and writes no file.

    Examples:
      ipexctl report                           # your newest run here
      ipexctl report bert -o bert.html
      ipexctl report bert --compare 20260101-120000-abcdef
      ipexctl report bert --json
      ipexctl report --all 'sweep*'            # a table of many runs
      ipexctl report --all --csv > runs.csv
    """
    from ipexctl.report.run_report import report as verb
    from ipexctl.report.run_report import show_report

    formats = [name for name, given in (("--json", json), ("--csv", csv), ("-o", to)) if given]
    if len(formats) > 1:
        what = f"{formats[0]} cannot be combined with {formats[1]}"
        raise InputError(what, slug="options-conflict")
    if many and compare:
        raise InputError("--all cannot be combined with --compare", slug="options-conflict")
    if (every_project or csv) and not many:
        what = f"{'--csv' if csv else '--every-project'} needs --all"
        raise InputError(what, slug="options-conflict")
    place = "-" if json or csv else to
    if many:
        from ipexctl.report.all_runs import report_all, show_runs_as_csv, show_runs_report

        pattern = "" if run == "@last" else run
        runs = report_all(target, pattern, root, to=place, every=every_project)
        show = show_runs_as_csv if csv else show_runs_report
        end_command(runs, lambda item: item.document, show, json=json)
    result = verb(target, run, root, compare=compare, to=place)
    end_command(result, lambda item: item.document, show_report, json=json)
