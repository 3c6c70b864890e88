"""The options of doctor."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from ipexctl.cli.help.help_layout import output_option
from ipexctl.cli.options import Html, Json, Root, Yes, on_hosts, print_json
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
        bool, typer.Option("--fix", help="Apply safe, reversible fixes, after confirmation.")
    ] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Undo the last --fix.")] = False,
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
    from ipexctl.doctor.doctor import Options, examine

    as_text = _formatter("json" if json else format)
    if as_what not in ("script", "play"):
        raise unknown_value("--as", as_what, ("script", "play"))
    if html:
        _check_html(html, alone=not (fix or undo or script), as_text=as_text is None)
    if (fix and not script) or undo:
        raise typer.Exit(_mend(target, root, undo=undo, yes=yes, json=json))
    report = examine(target, root, Options(root, level, python))
    if script:
        from ipexctl.doctor.command.fixes import show_play, show_scripts

        (show_play if as_what == "play" else show_scripts)(report, sys.stdout)
        raise typer.Exit(report.exit_code if report.down else 0)
    if as_text:
        print(as_text(report))
    elif html != "-":
        from ipexctl.doctor.command.report_text import show

        show(report, sys.stdout, verbose=verbose > 0)
    if html:
        from ipexctl.doctor.command.doctor_page import write

        write(report, html)
    raise typer.Exit(report.exit_code)


def _check_html(to: str, *, alone: bool, as_text: bool) -> None:
    """Before the hosts are asked."""
    if not alone:
        raise InputError(
            "--html cannot be combined with --fix, --undo or --print", slug="options-conflict"
        )
    from ipexctl.pages.page_file import check_html

    check_html(to, "doctor", other=not as_text)


def _mend(target: Any, root: str, *, undo: bool, yes: bool, json: bool) -> int:
    """doctor --fix and --undo. The plan goes to stderr, what was done to stdout."""
    from ipexctl.doctor import apply_fixes as verb
    from ipexctl.doctor.command import fixes

    def agree(plans: Any) -> bool:
        if yes and not json:
            fixes.show_plan(plans, sys.stderr)
        return yes or fixes.ask(plans, sys.stdin, sys.stderr)

    report = verb.undo(target, root) if undo else verb.apply_fixes(target, agree, root)
    if json:
        print_json(fixes.document(report))
    else:
        fixes.show_done(report, sys.stdout, "" if undo else fixes.undo_command(target, root))
    return report.exit_code


def _formatter(name: str) -> Callable[[Any], str] | None:
    """None is the text for people."""
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
