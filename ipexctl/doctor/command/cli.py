"""The options of `doctor`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from ipexctl.cli.help.help_layout import output_option
from ipexctl.cli.options import Html, Json, Root, Yes, on_hosts
from ipexctl.errors import InputError, unknown_value


@on_hosts()
def doctor(
    *,
    target: Any,
    root: Root = "~/.ipexctl",
    json: Json = False,
    format: Annotated[
        str,
        output_option(
            "--format", metavar="FORMAT", help="Output format: text, json, junit or markdown."
        ),
    ] = "text",
    html: Html = "",
    level: Annotated[
        str,
        typer.Option(
            "--level",
            metavar="LEVEL",
            help="quick: facts and connections; std: measurements as well.",
        ),
    ] = "quick",
    python: Annotated[
        str,
        typer.Option(
            "--python",
            metavar="PYTHON",
            help="Host Python; --level std measures its PyTorch.",
        ),
    ] = "",
    fix: Annotated[
        bool,
        typer.Option("--fix", help="Write the fixes as a play and run it, after confirmation."),
    ] = False,
    script: Annotated[
        bool, output_option("--print", help="Print, as a script, the fixes that need root.")
    ] = False,
    as_what: Annotated[
        str, output_option("--as", metavar="KIND", help="Output of --print: script or play.")
    ] = "script",
    yes: Yes = False,
    verbose: Annotated[
        int, output_option("-v", count=True, show_default=False, help="Also explain each finding.")
    ] = 0,
) -> None:
    """Check every host for problems that break or slow down training."""
    from ipexctl.doctor.doctor import DoctorOptions, run_doctor

    as_text = _choose_formatter("json" if json else format)
    if as_what not in ("script", "play"):
        raise unknown_value("--as", as_what, ("script", "play"))
    if html:
        _check_html(html, alone=not (fix or script), as_text=as_text is None)
    report = run_doctor(target, root, DoctorOptions(root, level, python))
    if script:
        from ipexctl.doctor.command.fixes import show_play, show_scripts

        (show_play if as_what == "play" else show_scripts)(report, sys.stdout)
        raise typer.Exit(report.exit_code if report.down else 0)
    if fix:
        from ipexctl.doctor.command.fixes import run_fixes

        raise typer.Exit(run_fixes(report, target, root, yes=yes, json=json))
    if as_text:
        print(as_text(report))
    elif html != "-":
        from ipexctl.doctor.command.report_text import show_doctor_report

        show_doctor_report(report, sys.stdout, verbose=verbose > 0)
    if html:
        from ipexctl.doctor.command.doctor_page import write_doctor_page

        write_doctor_page(report, html)
    raise typer.Exit(report.exit_code)


def _check_html(to: str, *, alone: bool, as_text: bool) -> None:
    """Check the --html options before the hosts are asked."""
    if not alone:
        raise InputError("--html cannot be combined with --fix or --print", slug="options-conflict")
    from ipexctl.pages.page_file import check_html

    check_html(to, "doctor", other=not as_text)


def _choose_formatter(name: str) -> Callable[[Any], str] | None:
    """Return the formatter of an output format; None for text."""
    if name == "text":
        return None
    from ipexctl.doctor.command import report_formats

    known = {
        "json": report_formats.as_json,
        "junit": report_formats.junit,
        "markdown": report_formats.markdown,
    }
    if name not in known:
        raise unknown_value("--format", name, ("text", *known))
    return known[name]
