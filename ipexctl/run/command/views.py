"""A run as people and programs see it: a stream that scrolls, panes, or JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ipexctl.errors import unknown_value
from ipexctl.run.command.jsonlines import JsonView
from ipexctl.run.command.stream import PlainView, TerminalView
from ipexctl.terminal.console import is_dumb, stderr_console, stdout_console

if TYPE_CHECKING:
    from ipexctl.run.watch.run_watchers import View

KINDS = ("auto", "stream", "plain", "json", "tui")


def check(kind: str) -> None:
    if kind not in KINDS:
        raise unknown_value("--ui", kind, KINDS)


def view(
    kind: str = "auto", *, aside: bool = False, fold: bool = True, verbose: bool = False
) -> View:
    """What `--ui` asks for; `auto` is a stream in a terminal, and plain in a pipe or in CI.

    A terminal that knows no escape codes is shown none. `aside`: nothing of it is for stdout, if
    that is no terminal. `fold`, `verbose`: as for TerminalView.
    """
    check(kind)
    if kind == "json":
        return JsonView()
    out = stdout_console()
    stream = TerminalView(out, fold=fold, verbose=verbose)
    if kind == "tui":
        from ipexctl.run.command.screen import why_no_screen

        if not (why := why_no_screen()):
            from ipexctl.run.command.tui import PanesView

            return PanesView(stream)
        stderr_console().print(f"--ui tui: {why}; showing a stream", soft_wrap=True)
        kind = "auto"
    wanted = kind == "stream" or (kind == "auto" and out.is_terminal)
    return stream if wanted and not is_dumb() else PlainView(aside=aside)
