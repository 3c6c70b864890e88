"""What the live line says, and of the time that sending or fetching will still take."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

from ipexctl.install.command import install_text as ui
from ipexctl.install.command.install_text import View, time_left
from ipexctl.install.progress import Step

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


def view_at(clock: list[float]) -> View:
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    return View(console, clock=lambda: clock[0])


def test_building_and_proving_show_their_hosts_and_a_clock() -> None:
    clock = [0.0]
    view, hosts = view_at(clock), ("a1", "a2", "a3")
    view._order = hosts
    for host in hosts:
        view.step(Step(host, "building"))
    clock[0] = 5.0
    assert str(view._lines()) == "a[1-3]  building · 5 s"
    view.step(Step("a1", "testing"))
    view.step(Step("a2", "testing"))
    clock[0] = 19.0
    view.step(Step("a1", "done"))
    assert str(view._lines()).splitlines() == [
        "a2  testing · 14 s",
        "a3  building · 19 s",
    ]
    view.pause()
    view.step(Step("a1", "testing"))
    clock[0] = 21.0
    assert str(view._lines()) == "a1  testing · 2 s"
    view.pause()


def test_a_line_of_this_machine_goes_when_the_hosts_take_over_and_hosts_keep_their_order() -> None:
    out = io.StringIO()
    view = View(Console(file=out, force_terminal=True, width=80), clock=lambda: 0.0)
    view._order = ("b", "a")
    view.step(Step("", "fetching", 1, 2))
    view.step(Step("a", "sending"))
    assert str(view._lines()) == "a  sending"
    view.step(Step("b", "waiting"))
    assert str(view._lines()) == "b  waiting\na  sending"
    view.step(Step("", "reading"))
    assert str(view._lines()) == "here  reading"
    view.pause()


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


def test_elsewhere_a_host_that_gets_its_files_in_pieces_has_one_line_of_each_kind() -> None:
    out = io.StringIO()
    view = View(Console(file=out, width=80), clock=lambda: 0.0)
    for text in ("sending", "waiting", "fetching from b", "waiting", "fetching from c"):
        view.step(Step("a", text, 1, 2))
    assert out.getvalue() == "a: sending\na: waiting\na: fetching from b\n"


class Pipe:
    """A view without a terminal, whose clock the test sets."""

    def __init__(self, *hosts: str) -> None:
        self.now, self.out = 0.0, io.StringIO()
        self.view = View(Console(file=self.out, width=80), clock=lambda: self.now)
        self.view._order = hosts

    def at(self, now: float, *steps: Step) -> list[str]:
        """The lines that the steps bring, and then a look whether a report is due."""
        self.now, before = now, len(self.out.getvalue())
        for step in steps:
            self.view.step(step)
        self.view._report()
        return self.out.getvalue()[before:].splitlines()

    def end(self) -> None:
        self.view.pause()


def test_in_a_pipe_long_work_is_reported_every_15_seconds() -> None:
    pipe = Pipe("a1", "a2", "b")
    begin = [Step("b", "sending", 0, 410_000_000), Step("a1", "building"), Step("a2", "building")]
    assert pipe.at(0, *begin) == ["b: sending", "a1: building", "a2: building"]
    assert pipe.at(14, *begin) == []
    now = [Step("b", "sending", 120_000_000, 410_000_000), *begin[1:]]
    report = ["a[1-2]: building · 15 s", "b: sending 120.0 MB of 410.0 MB, 36 s left"]
    assert pipe.at(15, *now) == report
    assert pipe.at(29, *now) == []
    assert pipe.at(30, Step("a1", "testing"), *now[2:], now[0]) == ["a1: testing"]
    assert pipe.at(44, Step("a1", "failed"), *now[2:], now[0]) == ["a1: failed"]
    report = ["a2: building · 59 s", "b: sending 120.0 MB of 410.0 MB, 2 min left"]
    assert pipe.at(59, *now[2:], now[0]) == report
    pipe.end()
    assert pipe.at(99) == []


def test_in_a_pipe_a_report_of_many_hosts_stays_short() -> None:
    pipe = Pipe()
    sending = [Step(f"a{n}", "sending", n, 100) for n in range(20)]
    pipe.at(0, *sending)
    lines = pipe.at(15, *sending)
    assert (len(lines), lines[-1]) == (ui.REPORT_LINES + 1, "and 8 more hosts")


def test_hosts_that_wait_for_files_are_one_line() -> None:
    pipe = Pipe("a1", "a2", "a3")
    waits = [Step(host, "waiting for files", n, 9) for n, host in enumerate(("a1", "a3"))]
    pipe.at(0, Step("a2", "sending", 1, 9), *waits)
    assert pipe.at(15, Step("a2", "sending", 5, 9)) == [
        "a[1,3]: waiting for files",
        "a2: sending 5 bytes of 9 bytes, 15 s left",
    ]
    pipe.end()


def test_in_a_pipe_work_that_says_nothing_is_reported_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ui, "TICK", 0.01)
    monkeypatch.setattr(ui, "REPORT_EVERY", 1.0)
    out = io.StringIO()
    with View(Console(file=out, width=80)) as view:
        view.step(Step("a", "removing 1.7 GB"))
        until = time.monotonic() + 20
        while out.getvalue().count("\n") < 2 and time.monotonic() < until:
            time.sleep(0.01)
    assert out.getvalue() == "a: removing 1.7 GB\na: removing 1.7 GB · 1 s\n"


def test_on_a_terminal_a_clock_moves_where_nothing_else_does() -> None:
    clock = [0.0]
    view = view_at(clock)
    for host in ("a1", "a2"):
        view.step(Step(host, "removing 1.7 GB"))
    clock[0] = 48.0
    assert str(view._lines()) == "a[1-2]  removing 1.7 GB · 48 s"
    view.pause()
