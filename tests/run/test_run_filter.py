"""Which runs `ps` lists: by state, by time, by project."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ipexctl.errors import InputError
from ipexctl.run.command.ps_text import runs_document, show_runs
from ipexctl.run.jobs.ps import Runs
from ipexctl.run.jobs.run_filter import read_filter
from ipexctl.run.outcome.listed_runs import ListedRun
from ipexctl.run.outcome.run_choice import Caller, is_of_project
from ipexctl.run.outcome.run_state import Phase
from tests.report.made_run import made

NOW = 100_000.0


def run_of(folder: str, state: Phase = Phase.DONE) -> ListedRun:
    run = made(state)
    return replace(run, id=f"id-of-{Path(folder).name}", about=run.about.replace(folder=folder))


@pytest.mark.parametrize(
    ("states", "since", "kept"),
    [
        ("", "", True),
        ("done", "", True),
        ("failed,lost", "", False),
        ("failed, done", "", True),
        ("", "2h", True),
        ("", "30m", False),
        ("", "1970-01-02", True),
        ("", "1970-01-04", False),
    ],
)
def test_states_and_times(states: str, since: str, kept: bool) -> None:
    ended_an_hour_ago = made(Phase.DONE, began=NOW - 3700, seconds=100.0)
    assert read_filter(states, since, NOW).keeps(ended_an_hour_ago, NOW) is kept


def test_an_active_run_and_an_unknown_time_are_kept() -> None:
    last_minute = read_filter("", "1m", NOW)
    assert last_minute.keeps(made(Phase.RUNNING, began=1.0, seconds=0.0), NOW)
    assert last_minute.keeps(made(Phase.LOST, began=0.0, seconds=0.0), NOW)


@pytest.mark.parametrize(
    ("states", "since", "slug"),
    [("bad", "", "state-unknown"), ("", "soon", "time-invalid"), ("", "7", "time-invalid")],
)
def test_what_cannot_be_read(states: str, since: str, slug: str) -> None:
    with pytest.raises(InputError) as caught:
        read_filter(states, since, NOW)
    assert caught.value.slug == slug


def test_a_project_has_the_runs_of_its_folders() -> None:
    here = Path("/home/ann/bert")
    folders = ["/home/ann/bert", "/home/ann/bert/part", "/home/ann/bert2", ""]
    found = [is_of_project(run_of(folder), here) for folder in folders]
    assert found == [True, True, False, False]


def test_other_projects_are_counted_and_no_run_is_lost_in_json(
    capsys: pytest.CaptureFixture[str],
) -> None:
    active = run_of("/home/ann/active", Phase.RUNNING)
    runs = (run_of("/home/ann/bert"), run_of("/home/ann/gpt"), active)
    listing = Runs(runs, (), 2, caller=Caller("ann@desk", Path("/home/ann/bert")))
    show_runs(listing, every=True)
    text = capsys.readouterr().out
    assert "id-of-gpt" not in text and "id-of-active" in text
    assert "1 ended run of other projects: add --every-project" in text
    show_runs(listing, every=True, every_project=True)
    assert "id-of-gpt" in capsys.readouterr().out
    rows = json.loads(json.dumps(runs_document(listing)))["runs"]
    assert [row["this_project"] for row in rows] == [True, False, False]


def test_a_folder_without_runs_hides_none(capsys: pytest.CaptureFixture[str]) -> None:
    show_runs(
        Runs((run_of("/a"), run_of("/b")), (), 2, caller=Caller("ann@desk", Path("/c"))), every=True
    )
    text = capsys.readouterr().out
    assert "id-of-a" in text and "id-of-b" in text and "other projects" not in text
