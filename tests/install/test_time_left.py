"""What the live line says, and of the time that sending or fetching will still take."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from ipexctl.terminal.progress import ProgressStep
from ipexctl.terminal.progress_view import ProgressView, time_left

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


@pytest.fixture(autouse=True)
def draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is drawn twice on a dumb terminal, or where CI is set."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("CI", raising=False)


@pytest.mark.parametrize(("done", "total", "there", "seconds", "words"), CASES)
def test_time_left_is_told_at_the_pace_of_this_try(
    done: int, total: int, there: int, seconds: float, words: str
) -> None:
    assert time_left(ProgressStep("a", "sending", done, total), there, seconds) == words


def view_at(clock: list[float]) -> ProgressView:
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    return ProgressView(console, clock=lambda: clock[0])


def test_building_and_proving_show_their_hosts_and_a_clock() -> None:
    clock = [0.0]
    view, hosts = view_at(clock), ("a1", "a2", "a3")
    view.hosts = hosts
    for host in hosts:
        view.step(ProgressStep(host, "building"))
    clock[0] = 5.0
    assert str(view._render_lines()) == "a[1-3]  building · 5 s"
    view.step(ProgressStep("a1", "testing"))
    view.step(ProgressStep("a2", "testing"))
    clock[0] = 19.0
    view.step(ProgressStep("a1", "done"))
    assert str(view._render_lines()).splitlines() == [
        "a2  testing · 14 s",
        "a3  building · 19 s",
    ]
    view.pause()
    view.step(ProgressStep("a1", "testing"))
    clock[0] = 21.0
    assert str(view._render_lines()) == "a1  testing · 2 s"
    view.pause()


def test_a_line_of_this_machine_goes_when_the_hosts_take_over_and_hosts_keep_their_order() -> None:
    out = io.StringIO()
    view = ProgressView(Console(file=out, force_terminal=True, width=80), clock=lambda: 0.0)
    view.hosts = ("b", "a")
    view.step(ProgressStep("", "fetching", 1, 2))
    view.step(ProgressStep("a", "sending"))
    assert str(view._render_lines()) == "a     sending\nhere  fetching 1 byte of 2 bytes"
    view.step(ProgressStep("", "fetching", 2, 2))
    view.step(ProgressStep("b", "waiting"))
    assert str(view._render_lines()) == "b  waiting\na  sending"
    view.step(ProgressStep("", "reading"))
    assert str(view._render_lines()) == "here  reading"
    view.pause()


def test_words_are_folded_on_a_terminal_and_stay_one_line_in_a_pipe() -> None:
    words = "because " * 12
    for terminal, lines in ((True, 2), (False, 1)):
        out = io.StringIO()
        ProgressView(Console(file=out, force_terminal=terminal, width=80)).say(words)
        assert out.getvalue().count("\n") == lines
        assert out.getvalue().split() == words.split()


def test_nothing_that_a_terminal_obeys_is_said_of_a_folder() -> None:
    out = io.StringIO()
    view = ProgressView(Console(file=out))
    view.step(ProgressStep("", "reading /a\x1b[31mb"))
    view.say("a large folder: /a\x1b[31mb\nand more")
    assert out.getvalue() == "here: reading /a[31mb\na large folder: /a[31mb\nand more\n"


def test_elsewhere_a_host_that_gets_its_files_in_pieces_has_one_line_of_each_kind() -> None:
    out = io.StringIO()
    view = ProgressView(Console(file=out, width=80), clock=lambda: 0.0)
    for text in ("sending", "waiting", "fetching from b", "waiting", "fetching from c"):
        view.step(ProgressStep("a", text, 1, 2))
    assert out.getvalue() == "a: sending\na: waiting\na: fetching from b\n"


def test_hosts_that_wait_for_files_are_one_line() -> None:
    view = view_at([0.0])
    view.hosts = ("a1", "a2", "a3")
    view.step(ProgressStep("a2", "sending", 1, 9))
    for n, host in enumerate(("a1", "a3")):
        view.step(ProgressStep(host, "waiting for files", n, 9))
    assert str(view._render_lines()).splitlines() == [
        "a[1,3]  waiting for files",
        "a2      sending 1 byte of 9 bytes",
    ]
    view.pause()


def test_on_a_terminal_a_clock_moves_where_nothing_else_does() -> None:
    clock = [0.0]
    view = view_at(clock)
    for host in ("a1", "a2"):
        view.step(ProgressStep(host, "removing 1.7 GB"))
    clock[0] = 48.0
    assert str(view._render_lines()) == "a[1-2]  removing 1.7 GB · 48 s"
    view.pause()
