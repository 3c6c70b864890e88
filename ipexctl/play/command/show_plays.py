"""Run plays one after the other, with their screens and recaps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from ipexctl.cli.options import print_json
from ipexctl.machines.target import Target
from ipexctl.play.command import play_recap as ui
from ipexctl.play.command.play_screen import PlayScreen
from ipexctl.play.play import run_play
from ipexctl.play.text.play_options import PlayOptions
from ipexctl.play.text.play_outcome import PlayReport
from ipexctl.play.text.play_values import Play
from ipexctl.terminal.console import stdout_console


def show_plays(
    plays: Sequence[Play], target: Target, options: PlayOptions, *, again: str, json: bool
) -> int:
    """Return the exit code. `again`: the command that runs them once more."""
    console = stdout_console()
    reports: list[PlayReport] = []
    masks: list[Callable[[str], str]] = []
    for play in plays:
        screen = PlayScreen(console, options.diff, quiet=json, check=options.check)
        with screen.working:
            report = run_play(play, target, options, screen.listener, screen.show_start)
        screen.finish()
        masks.append(screen.mask_text)
        reports.append(report)
        if not json:
            ui.show_recap(report, console, again)
        if report.failures:
            break
    if json:
        print_json(ui.play_document(reports, lambda text: reduce(_apply_mask, masks, text)))
    return next((report.exit_code for report in reversed(reports) if report.exit_code), 0)


def _apply_mask(text: str, mask: Callable[[str], str]) -> str:
    return mask(text)
