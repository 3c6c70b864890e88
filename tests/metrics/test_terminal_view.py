"""What a terminal is shown while ranks print, fail, and draw progress bars."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from ipexctl.common.run_events import HostLoad
from ipexctl.common.waiting import wait_until
from ipexctl.run.command.logs_text import FollowView
from ipexctl.run.command.stream import TerminalView
from ipexctl.run.command.summary import summary_lines
from ipexctl.run.outcome.run_result import HostEnd, LocalRunFolder, RunResult, Tally
from tests.run.test_output_pure import made_plan

TALLY = Tally(4, 4, 0, 0, 12.0)
RUN = "/home/me/.ipexctl/runs/20261123-101010-ab12/work"


@pytest.fixture(autouse=True)
def draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is drawn twice on a dumb terminal, or where CI is set."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("CI", raising=False)


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str]):
    """A view of four ranks, and what it has written since the last call."""

    def make(**how: bool):
        view = TerminalView(Console(width=120, no_color=True, force_terminal=True), **how)
        view.planned("r1", made_plan())
        capsys.readouterr()

        def read() -> list[str]:
            text = re.sub(r"\r|\x1b\[[0-9;?]*[a-zA-Z]", "", capsys.readouterr().out)
            return [line.rstrip() for line in text.splitlines()]

        return view, read

    return make


def tick(view: TerminalView) -> None:
    view._drawn = 0.0
    view.tick(TALLY)


def test_numbers_fold_and_the_status_line_has_the_progress(shown):
    view, read = shown()
    for rank in range(4):
        view.lines("node01", rank, [f"step 3/10 loss 0.{rank}5"])
    tick(view)
    folded, status = read()
    assert folded == "all    x4  | step 3/10 loss 0.05..0.35"
    progress, _, ranks = status.partition("|")
    assert ("step 3/10" in progress, "loss 0.2" in progress, "4 of 4" in ranks) == (True,) * 3


def test_without_folding_each_line_is_shown_at_once(shown):
    view, read = shown(fold=False)
    for rank in range(2):
        view.lines("node01", rank, ["same"])
    assert read() == ["node01 r00 | same", "node01 r01 | same"]


@pytest.mark.parametrize("verbose", [False, True])
def test_after_a_failure_the_others_are_counted(shown, verbose: bool):
    view, read = shown(verbose=verbose, fold=False)
    view.failed(2)
    view.lines("node01", 1, ["Connection closed by peer"] * 3)
    view.lines("node02", 2, [f'  File "{RUN}/train.py", line 61, in step', "ValueError"])
    lines = read()
    assert lines[-2:] == [
        'node02 r02 |   File "train.py", line 61, in step',
        "node02 r02 | ValueError",
    ]
    assert len(lines) == (5 if verbose else 2)
    assert view.held_back == (0 if verbose else 3)
    view.planned("r1-r02", made_plan())
    read()
    view.lines("node01", 1, ["again"])
    assert (read(), view.held_back) == (["node01 r01 | again"], 0)


def test_bars_are_in_the_status_line_and_no_lines(shown):
    view, read = shown()
    view.bar("node01", 0, "Downloading:  34%|###   | 340/1000 [00:10<00:20, 34.0MB/s]")
    tick(view)
    assert "node01 r00 Downloading:  34%" in " ".join(read())
    view.bar("node01", 0, " 34%|###   | 340/1000 [01:40<03:12,  3.40it/s, loss=0.5]")
    tick(view)
    (status,) = read()
    told = ("step 340/1000", "loss 0.5", "3.4 it/s", "eta 3 min 14 s")
    assert [part for part in told if part not in status] == []


def test_followed_logs_show_a_line_that_waited_for_its_equals(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    view = FollowView(fold=True, ranks=0)
    about = SimpleNamespace(hosts=("node01", "node02"), ranks=4)
    run: Any = SimpleNamespace(id="r1", about=about)
    view.show(run, "node01", 0, ["step 3/10 loss 0.5"])
    told: list[str] = []

    def is_told(text: str) -> bool:
        told.append(capsys.readouterr().out)
        return text in "".join(told)

    assert wait_until(lambda: is_told("node01 r00"))
    assert wait_until(lambda: is_told("step 3/10  loss 0.5"))
    view.rest()
    assert not view._live._live


# --- the end of a run ----------------------------------------------------------------------------

USED = HostLoad(0.5, 1_500_000_000, 25_000_000_000)
ENDS = tuple(HostEnd(name, 0, "/runs/r1/logs", USED) for name in ("node01", "node02"))
SHORT = ["", "done: 4 ranks on 2 hosts in 1.0 s", "  logs here: .ipexctl/runs/r1/logs"]


def summary(*, detailed: bool = False, **change: Any) -> list[str]:
    kept = LocalRunFolder(".ipexctl/runs/r1")
    result = RunResult("r1", 0, "ranks", 1.0, made_plan(), ENDS, kept=kept)
    return [line.plain for line in summary_lines(replace(result, **change), detailed=detailed)]


def test_a_summary_is_short_unless_more_is_asked_for_or_the_run_failed() -> None:
    assert summary() == SHORT
    details = [
        "  node[01-02]  CPUs of the host 50% busy, memory 1.5 GB of 25.0 GB at most",
        "  processes left on the hosts: 0",
        "  logs on node[01-02]: /runs/r1/logs",
    ]
    assert summary(detailed=True) == [*SHORT[:2], *details, SHORT[2]]
    assert summary(exit_code=1, cause="rank 3 exited with code 1")[-3:] == [*details[:2], SHORT[2]]


def test_a_short_summary_has_what_is_wrong_and_where_the_logs_are() -> None:
    left = tuple(
        HostEnd(end.host, count, end.logs) for end, count in zip(ENDS, (2, 0), strict=True)
    )
    assert summary(hosts=left) == [*SHORT[:2], "  processes left on the hosts: 2", SHORT[2]]
    away = (ENDS[0], HostEnd("node02", None, ""))
    unknown = "  processes left on the hosts: unknown on node02, 0 on the others"
    assert summary(hosts=away) == [*SHORT[:2], unknown, SHORT[2]]
    where = "  logs on node[01-02]: /runs/r1/logs"
    assert summary(kept=LocalRunFolder(".ipexctl/runs/r1", ("it is not complete",)))[-3:] == [
        where, SHORT[2], "  it is not complete",
    ]  # fmt: skip
    assert summary(kept=LocalRunFolder()) == [*SHORT[:2], where]
