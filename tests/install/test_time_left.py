"""What the live line says, and of the time that sending or fetching will still take."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from ipexctl.ui.install import View, time_left
from ipexctl.verbs.install.install_plan import Step

# done, total, what an earlier try had left, seconds -> the words
CASES = [
    (50, 100, 0, 10.0, ", 10 s left"),
    (9_999, 10_000, 0, 10.0, ", 1 s left"),
    (60, 100, 50, 10.0, ", 40 s left"),  # the pace is that of this try
    (1, 100, 0, 60.0, ", 99 min left"),
    (50, 100, 0, 0.5, ""),  # too early to tell
    (50, 100, 50, 10.0, ""),  # nothing has moved yet
    (50, 0, 0, 10.0, ""),  # nobody knows how much it will be
    (100, 100, 0, 10.0, ""),
]


@pytest.mark.parametrize(("done", "total", "there", "seconds", "words"), CASES)
def test_time_left_is_told_at_the_pace_of_this_try(
    done: int, total: int, there: int, seconds: float, words: str
) -> None:
    assert time_left(Step("a", "sending", done, total), there, seconds) == words


def test_a_line_of_this_machine_goes_when_the_hosts_take_over_and_hosts_keep_their_order() -> None:
    out = io.StringIO()
    view = View(Console(file=out, force_terminal=True, width=80), clock=lambda: 0.0)
    view._order = ("b", "a")
    view.step(Step("", "fetching", 1, 2))
    view.step(Step("a", "sending"))
    view.step(Step("b", "waiting"))
    assert str(view._lines()) == "b  waiting\na  sending"
    view.step(Step("", "reading"))
    assert str(view._lines()) == "here  reading"
    view._stop()


def test_words_are_folded_on_a_terminal_and_stay_one_line_in_a_pipe() -> None:
    words = "because " * 12
    for terminal, lines in ((True, 2), (False, 1)):
        out = io.StringIO()
        View(Console(file=out, force_terminal=terminal, width=80)).say(words)
        assert out.getvalue().count("\n") == lines
        assert out.getvalue().split() == words.split()


def test_nothing_that_a_terminal_obeys_is_said_of_a_folder() -> None:
    out = io.StringIO()
    view = View(Console(file=out))
    view.step(Step("", "reading /a\x1b[31mb"))
    view.say("a large folder: /a\x1b[31mb\nand more")
    assert out.getvalue() == "here: reading /a[31mb\na large folder: /a[31mb\nand more\n"
