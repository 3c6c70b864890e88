"""The options of `doctor`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import typer

from ipexctl.base.option import option
from ipexctl.cli.declared_command import command
from ipexctl.cli.help_layout import output_option
from ipexctl.cli.options import Json, Root, Yes, on_hosts
from ipexctl.errors import InputError, unknown_value
from ipexctl.quick_dataclass import dataclass

_output_option = partial(option, group="Output")


@dataclass(frozen=True)
class CommandOptions:
    """What is checked, and how it is shown."""

    format: str = _output_option(
        "--format FORMAT", "Output format: text, json, junit or markdown.", "text"
    )
    html: str = _output_option(
        "--html FILE",
        "Also write the report to an HTML file; - prints only that.",
        "",
        show_default=False,
    )
    level: str = option(
        "--level LEVEL", "quick: facts and connections; std: measurements as well.", "quick"
    )
    python: str = option("--python PYTHON", "Host Python; --level std measures its PyTorch.", "")
    fix: bool = option("--fix", "Write the fixes as a play and run it, after confirmation.", False)
    print: bool = _output_option("--print", "Print, as a script, the fixes that need root.", False)
    as_kind: str = _output_option("--as KIND", "Output of --print: script or play.", "script")


@command("Start here", 20, habits="check")
@on_hosts()
def doctor(
    *,
    target: Any,
    root: Root = "~/.ipexctl",
    json: Json = False,
    wanted: CommandOptions,
    yes: Yes = False,
    verbose: Annotated[
        int, output_option("-v", count=True, show_default=False, help="Also explain each finding.")
    ] = 0,
) -> None:
    """Check every host for problems that break or slow down training.

    Examples:
      ipexctl doctor -f hosts
      ipexctl doctor -f hosts --level std -v   # measure, and explain findings
      ipexctl doctor -f hosts --fix            # run the fixes as a play
      ipexctl doctor -f hosts --html report.html
    """
    from ipexctl.doctor.doctor import DoctorOptions, run_doctor

    as_text = _choose_formatter("json" if json else wanted.format)
    if wanted.as_kind not in ("script", "play"):
        raise unknown_value("--as", wanted.as_kind, ("script", "play"))
    if wanted.html:
        alone = not (wanted.fix or wanted.print)
        _check_html(wanted.html, alone=alone, as_text=as_text is None)
    report = run_doctor(target, root, DoctorOptions(wanted.level, wanted.python))
    if wanted.print:
        from ipexctl.doctor_command.fixes import show_play, show_scripts

        (show_play if wanted.as_kind == "play" else show_scripts)(report, sys.stdout)
        raise typer.Exit(report.exit_code if report.down else 0)
    if wanted.fix:
        from ipexctl.doctor_command.fixes import run_fixes

        raise typer.Exit(run_fixes(report, target, root, yes=yes, json=json))
    if as_text:
        print(as_text(report))
    elif wanted.html != "-":
        from ipexctl.doctor_command.report_text import show_doctor_report

        show_doctor_report(report, sys.stdout, verbose=verbose > 0)
    if wanted.html:
        from ipexctl.doctor_command.doctor_page import write_doctor_page

        write_doctor_page(report, wanted.html)
    raise typer.Exit(report.exit_code)


def _check_html(path: str, *, alone: bool, as_text: bool) -> None:
    """Check the --html options before the hosts are asked."""
    if not alone:
        raise InputError("--html cannot be combined with --fix or --print", slug="options-conflict")
    from ipexctl.pages.page_file import check_html

    check_html(path, "doctor", other=not as_text)


def _choose_formatter(name: str) -> Callable[[Any], str] | None:
    """Return the formatter of an output format; None for text."""
    if name == "text":
        return None
    from ipexctl.doctor_command import report_formats

    formatters = {
        "json": report_formats.as_json,
        "junit": report_formats.junit,
        "markdown": report_formats.markdown,
    }
    if name not in formatters:
        raise unknown_value("--format", name, ("text", *formatters))
    return formatters[name]
