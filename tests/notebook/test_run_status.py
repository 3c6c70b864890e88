"""What Jupyter and a terminal show of a run: values in, text out."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from html.parser import HTMLParser
from math import nan

import pytest

from ipexctl.api import Cluster, RunHandle, _in_words
from ipexctl.api import Run as RunStep
from ipexctl.common.run_about import RunAbout
from ipexctl.errors import InputError
from ipexctl.machines.target import Target
from ipexctl.notebook.run_handle import RunList, RunStatus, ShownText, metric_rows
from ipexctl.run.jobs import metrics
from ipexctl.run.jobs.metrics import Metrics, RankPoint
from ipexctl.run.outcome.listed_runs import ListedRun
from ipexctl.run.outcome.run_state import Phase, RunState
from ipexctl.run.outcome.verdict import Verdict
from ipexctl.run.output.metric_lines import Point
from ipexctl.run.output.training_state import TrainingProgress
from ipexctl.run.pace.run_speed import Speed
from tests.refused import refused

HOSTILE = "<script>alert(1)</script>\x1b]0;x\x07"
ABOUT = RunAbout(name="bert", hosts=("node01", "node02"), ranks=2, command=f"train.py '{HOSTILE}'")


@pytest.mark.parametrize("verb", [Cluster.start, Cluster.run])
def test_an_unknown_argument_is_refused_with_the_one_that_is_near(verb):
    with refused("unknown-argument", "'restart'", "'restarts'"):
        verb(Cluster(), "train.py", restart=1)
    with refused("arguments-conflict"):
        Cluster().do(RunStep("train.py", detach=True, outputs=("out",)))


def a_run(phase: Phase = Phase.FAILED, cause: str = HOSTILE) -> ListedRun:
    verdict = Verdict(1, "rank-failed", cause)
    state = RunState(phase, verdict, seconds=12.0)
    return ListedRun("20260101-000000-abcdef", ABOUT, state, 1.0, 2, 0, HOSTILE, (), None)


def test_a_notebook_shows_no_secret_of_a_run() -> None:
    about = ABOUT.replace(command="train.py --api-key hunter2x https://ann:hunter3x@idx.example/")
    made = replace(a_run(cause="rank 0 raised ValueError: hunter2x"), about=about, last="hunter3x")
    status, runs = RunStatus(made, 12.0), RunList(Target(), (made,), "~/.ipexctl")
    for shown in (status._repr_html_(), repr(status), runs._repr_html_()):
        assert "hunter" not in shown and "********" in shown


def texts_of(html: str) -> tuple[set[str], list[str]]:
    """Its tags, and its texts."""
    tags, texts = set[str](), list[str]()
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attrs: tags.add(tag)  # type: ignore[method-assign]
    parser.handle_data = texts.append  # type: ignore[method-assign]
    parser.feed(html)
    return tags, texts


def test_what_hosts_said_stays_text() -> None:
    status = RunStatus(a_run(), 12.0, TrainingProgress(step=3, total=9, rate=4.2), (2.0, 1.0, 0.5))
    runs = RunList(Target(), (a_run(),), "~/.ipexctl")
    for shown in (status._repr_html_(), runs._repr_html_()):
        tags, texts = texts_of(shown)
        assert tags <= {"table", "caption", "b", "tbody", "tr", "th", "td"}
        assert "<script>alert(1)</script>]0;x" in texts
        assert "\x1b" not in shown
    assert "\x1b" not in repr(status)


def test_a_status_has_what_matters_first() -> None:
    speed = Speed(4.2, 0.1, 3)
    status = RunStatus(a_run(), 12.0, TrainingProgress(step=3, total=9), (2.0, nan, 0.5), speed)
    _, texts = texts_of(status._repr_html_())
    assert texts[:3] == [
        f"run {status.run.id} (bert)",
        "state",
        "failed, 2 ranks on node[01-02], 12 s",
    ]
    assert texts[texts.index("speed") + 1] == "4.2 steps/s"
    assert texts[texts.index("loss") + 1] == "2 -> 0.5"
    assert (status.state, status.cause, status.rate) == ("failed", HOSTILE, 4.2)
    bare = RunStatus(a_run(Phase.RUNNING, ""), 3.0)
    assert repr(bare) == f"{bare.run.id}: running, 2 ranks on node[01-02], 3 s"


def test_a_status_has_the_losses_and_the_rate_of_the_first_rank(monkeypatch) -> None:
    points = [
        RankPoint("node01", 0, i, Point(step=i, total=20, loss=1 / i), float(i))
        for i in range(1, 11)
    ]
    found = Metrics(a_run(Phase.RUNNING, ""), (), 2, (*points, replace(points[-1], time=None)))
    monkeypatch.setattr(metrics, "read_metrics", lambda *asked: found)
    status = RunHandle(Target(), found.run.id).status()
    assert (status.progress.step, status.progress.total, status.rate) == (10, 20, 1.0)
    assert status.losses == (*(1 / i for i in range(1, 11)), 1 / 10)


def test_metrics_are_rows() -> None:
    points = [RankPoint("node01", 0, i, Point(step=i, loss=1 / i), 60.0 * i) for i in range(1, 31)]
    found = metric_rows(points)
    at = datetime(1970, 1, 1, 0, 1, tzinfo=timezone.utc)
    assert found[0] == {"rank": 0, "host": "node01", "line": 1, "time": at, "step": 1, "loss": 1.0}


def test_texts_are_displayed_without_quotes() -> None:
    assert repr(ShownText("a\nb")) == "a\nb" == ShownText("a\nb")


def test_an_error_is_shown_with_its_reason_and_the_next_step() -> None:
    error = InputError("no run", why="none\nat all", hint="ipexctl ps")
    assert error._render_traceback_() == [
        "InputError: no run", "  why: none", "  why: at all", "  try: ipexctl ps",
    ]  # fmt: skip


def test_a_run_that_cannot_be_read_is_still_displayed(tmp_path) -> None:
    run = RunHandle(Target(hostfile=tmp_path / "nosuch"), "20260101-000000-abcdef")
    _, texts = texts_of(run._repr_html_())
    assert texts[0] == "run 20260101-000000-abcdef" and "nosuch" in texts[1]


@pytest.mark.parametrize("args", ["1 'a b' 0.5", (1, "a b", 0.5), ["1", "a b", "0.5"]])
def test_words_of_a_script_may_be_numbers_or_one_text(args):
    assert _in_words({"ppn": 2, "args": args}) == {"ppn": 2, "args": ("1", "a b", "0.5")}
    assert _in_words({"ppn": 2}) == {"ppn": 2}
