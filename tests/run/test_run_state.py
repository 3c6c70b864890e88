"""The state of a run is decided in one place, from what hosts report; all commands show it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ipexctl.base.host_answer import Answer
from ipexctl.base.secret_mask import SecretMask
from ipexctl.common.attempt_record import KeeperAnswer
from ipexctl.common.journal_records import WrittenRecord
from ipexctl.common.run_answers import AttemptSummary
from ipexctl.common.run_events import Begun, EndAsked, Event, Exit, HostLost, RankExited, Stalled
from ipexctl.explain.known_failures import known_failures
from ipexctl.notebook.run_handle import RunStatus
from ipexctl.remote.run import run_list
from ipexctl.report.many.run_table import KnownRun, runs_document
from ipexctl.report.material.report_material import Attempt
from ipexctl.report.report_document import report_document
from ipexctl.run.command.ps_table import table_lines
from ipexctl.run.command.ps_text import run_document, run_lines
from ipexctl.run.command.why_text import why_document
from ipexctl.run.jobs.ps import read_listed_rows
from ipexctl.run.jobs.run_filter import read_filter
from ipexctl.run.jobs.why import Why
from ipexctl.run.outcome.host_reports import RunOnHost, read_on_host
from ipexctl.run.outcome.listed_runs import ListedRun, merge_runs
from ipexctl.run.outcome.run_choice import Caller
from ipexctl.run.outcome.run_state import Phase
from tests.made import noted, run_row
from tests.refused import refused
from tests.report.made_run import material
from tests.run.test_journal import began, ended, started

RUN = "20260101-000000-000001"
BEGAN = 1000.0


def fact(at: float, event: Event, host: str = "") -> WrittenRecord:
    return WrittenRecord(noted(event, host), at)


READY = fact(2.0, Begun())
RANKS = (began(at=BEGAN, ranks=2), started(0), started(1), READY)
FAILED = fact(9.0, RankExited(1, Exit(3)), "a")
LOST = fact(40.0, HostLost("no message from it for 30 s"), "a")
CAUSE = "rank 1 on a exited with code 3"
GONE = "a was lost: no message from it for 30 s"


def on_a(*journal: WrittenRecord, **more: Any) -> RunOnHost:
    """What host `a` says of a run whose journal there is this."""
    summary = run_list.summarize_journal([*journal])
    summary.progressed = summary.stall
    return read_on_host("a", run_row(RUN, "a", journal=summary, **more), known_failures)


def leader(waits: str) -> KeeperAnswer:
    return KeeperAnswer(leads=True, waits=waits)


CASES = [
    ("queued", 1000.0, "place 1", on_a(
        RANKS[0], waited=True, queued=True, keeper=leader("place 1"))),
    ("starting", 1000.0, "", on_a(*RANKS[:2], alive=True)),
    ("running", 1002.0, "", on_a(*RANKS, alive=True)),
    ("stalled", 1030.0, "", on_a(*RANKS, fact(50.0, Stalled(20.0, 1)), alive=True)),
    ("stopping", 1009.0, CAUSE, on_a(*RANKS, FAILED, alive=True)),
    ("stopping", 1050.0, "stopped by ann", on_a(
        *RANKS, fact(40.0, Stalled(20.0, 1)), fact(50.0, EndAsked("ann", 0.0)),
        alive=True)),
    ("restarting", 1040.0, "2 of 3 hosts", on_a(
        *RANKS, LOST, kept=True, keeper=leader("2 of 3 hosts"))),
    ("restarting", 1040.0, GONE, on_a(*RANKS, LOST, kept=True)),
    ("done", 1002.0, "", on_a(*RANKS, ended(0, Exit(0)), ended(1, Exit(0)))),
    ("done", 1040.0, "", on_a(*RANKS, LOST, record=AttemptSummary(settled=True, done=True))),
    ("failed", 1009.0, CAUSE, on_a(*RANKS, FAILED)),
    ("stopped", 1040.0, "stopped by ann", on_a(
        *RANKS, LOST, record=AttemptSummary(settled=True, stopped="stopped by ann"))),
    ("lost", 1002.0, "a was switched off, or all processes of the run were killed there",
     on_a(*RANKS)),
]  # fmt: skip
IDS = [f"{number} {state}" for number, (state, *_) in enumerate(CASES)]


def test_each_phase_has_a_case() -> None:
    assert {state for state, *_ in CASES} == {phase.value for phase in Phase}


@pytest.mark.parametrize(("word", "since", "reason", "report"), CASES, ids=IDS)
def test_all_commands_show_one_state(
    word: str, since: float, reason: str, report: RunOnHost
) -> None:
    (run,) = merge_runs([report])
    assert (run.state.phase.value, run.state.since, run.state.reason) == (word, since, reason)
    assert (run_document(run)["state"], run_document(run)["reason"]) == (word, reason or None)
    why = Why(run, (), 1, 0.0)
    assert (why_document(why)["state"], why_document(why)["since"]) == (word, since)
    assert RunStatus(run, 0.0).state == word
    assert report_document(material(Attempt(run)))["state"] == word
    (row,) = runs_document([KnownRun(run, {})], SecretMask())["runs"]
    assert row["state"] == word
    for phase in Phase:
        assert read_filter(phase.value, "", 0.0).keeps(run, 0.0) is (phase.value == word)
    assert f" {word} " in f"{shown_in_ps(run)} "
    assert run_lines(run, 1100.0)[0].plain.split()[1].rstrip(",") == word


def shown_in_ps(run: ListedRun) -> str:
    caller = Caller("ann@desk", Path("/home/ann"))
    return table_lines([run], [run], caller, 1100.0, None)[1].plain


def test_hosts_that_say_different_things_make_one_state() -> None:
    """A host that is back did not see the end; the hub's words count, and the living host's."""
    b = read_on_host(
        "b", run_row(RUN, "b", journal=run_list.summarize_journal([*RANKS])), known_failures
    )
    (run,) = merge_runs([on_a(*RANKS, FAILED), b])
    assert (run.state.phase, run.state.reason) == (Phase.FAILED, CAUSE)
    (run,) = merge_runs([on_a(*RANKS, FAILED, alive=True), b])
    assert (run.state.phase, run.state.since) == (Phase.STOPPING, 1009.0)


def test_what_is_not_valid_of_one_run_hides_no_other() -> None:
    """Another host of that run may have said it."""
    said: list[str] = []
    well, bad = (run_row(f"20260101-000000-00000{n}", "a", alive=True) for n in (1, 2))
    poisoned = bad.document()
    poisoned["journal"]["facts"] = [{"event": {"kind": "RankExited", "rank": -7}, "host": "c"}]
    poisoned["journal"]["started"] = "x"
    sent = Answer("a", json.loads(json.dumps({"runs": [well.document(), poisoned]})))
    rows = list(read_listed_rows(sent, "a", said.append))
    assert [(row.run, row.alive) for row in rows] == [(well.run, True), (bad.run, True)]
    assert said == [f"a: part of what it recorded of {bad.run} is not valid, and left out"]
    runs = merge_runs(read_on_host("a", row, known_failures) for row in rows)
    assert len(runs) == 2


@pytest.mark.parametrize("odd", [{}, {"run": 7}, {"run": "", "alive": True}])
def test_a_row_without_its_run_is_a_failure_of_the_host(odd: dict[str, Any]) -> None:
    with refused("agent-reply-invalid", "'runs'"):
        list(read_listed_rows(Answer("a", {"runs": [odd]}), "a", print))
