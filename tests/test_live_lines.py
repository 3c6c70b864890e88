"""Lines below all others on a terminal: while something is asked or printed, and at the end."""

from __future__ import annotations

import io
import threading

import pytest
from rich.console import Console
from rich.text import Text

from ipexctl.machines.ssh.secrets import Secrets
from ipexctl.terminal.console import console_on
from ipexctl.terminal.live_lines import LiveLines, without_live_lines

ERASED = "\r\x1b[2K"


@pytest.fixture(autouse=True)
def draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is drawn twice on a dumb terminal, or where CI is set."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("CI", raising=False)


def drawn(text: str, **how: object) -> tuple[LiveLines, io.StringIO]:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80, **how)  # type: ignore[arg-type]
    return LiveLines(console, lambda: Text(text)), out


def test_what_is_printed_stands_above_and_nothing_is_left_at_the_end() -> None:
    lines, out = drawn("3 of 4 ranks up")
    lines.draw()
    lines.print("\x1b[36mnode01 r00 |\x1b[0m loss 1\n")
    lines.console.print("a note")
    lines.stop()
    shown = out.getvalue()
    line = "3 of 4 ranks up"
    assert f"{line}{ERASED}\x1b[36mnode01 r00 |\x1b[0m loss 1\n{line}" in shown
    assert f"{ERASED}a note\n{line}" in shown
    assert shown.rpartition(line)[2].count(ERASED) == 1
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")  # the cursor is seen again


def test_more_lines_than_the_terminal_has_leave_nothing_above_it() -> None:
    many = [f"node{n:02}  sending" for n in range(20)]
    lines, out = drawn("\n".join(many), height=5)
    lines.draw()
    lines.stop()
    assert [line in out.getvalue() for line in (many[0], many[19])] == [True, False]


def test_nothing_is_drawn_over_a_question_and_it_goes_on_afterwards() -> None:
    lines, out = drawn("node01  connecting")
    lines.start()
    asked: list[str] = []

    def ask(prompt: str) -> str:
        drawer = threading.Thread(target=lines.draw)
        drawer.start()
        drawer.join(0.3)
        asked.append(out.getvalue())
        return "secret"

    before = out.getvalue()
    assert Secrets(ask=ask, terminal=True).open("id_ed25519", lambda said: said) == b"secret"
    assert "connecting" not in asked[0].removeprefix(before)
    lines.draw()
    assert out.getvalue().removeprefix(asked[0]).count("connecting") >= 1
    lines.stop()
    over = out.getvalue()
    with without_live_lines():
        pass
    assert out.getvalue() == over


@pytest.mark.parametrize(("terminal", "term"), [(False, "xterm"), (True, "dumb")])
def test_a_pipe_and_a_dumb_terminal_get_no_codes(
    terminal: bool, term: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", term)
    out = io.StringIO()
    lines = LiveLines(Console(file=out, force_terminal=terminal), lambda: Text("working"))
    lines.draw()
    lines.print("loss 1\n")
    lines.stop()
    assert out.getvalue() == "loss 1\n"


def test_who_prints_hears_that_no_one_reads() -> None:
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        console_on(Closed()).print("a line")
