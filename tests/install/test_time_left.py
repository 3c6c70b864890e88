"""What the live line says, and of the time that sending or fetching will still take."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from ipexctl.ui.install import View, time_left
from ipexctl.verbs.installing.work import Step

# done, total, what an earlier try had left, seconds -> the words
CASES = [
    (50, 100, 0, 10.0, ", 10 s left"),
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


def test_nothing_that_a_terminal_obeys_is_said_of_a_folder() -> None:
    out = io.StringIO()
    view = View(Console(file=out))
    view.step(Step("", "reading /a\x1b[31mb"))
    view.say("a large folder: /a\x1b[31mb\nand more")
    assert out.getvalue() == "here: reading /a[31mb\na large folder: /a[31mb\nand more\n"
