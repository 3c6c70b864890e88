"""How a run with --restarts ended, and why: what its hosts report and what all commands say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ipexctl.common.attempt_record import (
    AttemptBegins,
    AttemptEnded,
    AttemptRuns,
    KeeperAnswer,
    RecordLine,
    RunEnded,
)
from ipexctl.common.journal_records import FactNoted, RunBegan, WrittenRecord
from ipexctl.common.keeper_messages import BeginPart, PartFailed
from ipexctl.common.root_paths import run_id_of
from ipexctl.common.run_about import RunAbout
from ipexctl.common.run_events import Begun, Exit, Fact, HostLost, RankExited
from ipexctl.errors import InputError
from ipexctl.explain.known_failures import known_failures
from ipexctl.remote.restart.host_part import HostPart
from ipexctl.remote.run import run_list
from ipexctl.run.command.ps_text import run_document, run_lines
from ipexctl.run.command.why_text import show_why, why_lines
from ipexctl.run.follow_attempts import describe_attempts
from ipexctl.run.jobs import ps
from ipexctl.run.jobs.why import Why
from ipexctl.run.outcome import host_reports
from ipexctl.run.outcome.host_reports import RunOnHost
from ipexctl.run.outcome.listed_runs import ListedRun, merge_runs
from ipexctl.run.outcome.run_choice import Caller, choose_run
from tests.made import run_row, start_order

RUN = "20260101-000000-000001"
HOSTS = ["a", "b", "c"]
SILENT = "no message from it for 30 s"
LOST = WrittenRecord(FactNoted(Fact(HostLost(SILENT), "a")), 40.0)
FAILED = WrittenRecord(FactNoted(Fact(RankExited(1, Exit(3)), "b")), 9.0)
FULL = "d: not enough disk space in /home: 1 MB is needed"


def begins(number: int, *hosts: str) -> AttemptBegins:
    return AttemptBegins(number, list(hosts or HOSTS), run_id=run_id_of(RUN, number))


def ended(number: int, why: str, lost: Sequence[str] = (), *, ran: bool = True) -> AttemptEnded:
    return AttemptEnded(number, ran, True, why, "", list(lost), 40.0 * ran, "")


FIRST = [begins(1), ended(1, "a: lost", ["a"])]
NOT_BEGUN = [
    *FIRST, begins(2, "b", "c", "d"), ended(2, FULL, ["d"], ran=False),
    begins(3, "b", "c", "d"), ended(3, FULL, ["d"], ran=False),
]  # fmt: skip
FULL_END = [*NOT_BEGUN, RunEnded(f"{FULL}; 2 hosts are too few", False)]
TOO_FEW = [*FIRST, RunEnded("a: lost; 2 hosts are too few", False)]
STOPPED_THEN = [
    *FIRST, begins(2, "b", "c", "d"), ended(2, "it was stopped", ran=False),
    RunEnded("stopped by ann@desk", False, by_user=True),
]  # fmt: skip
STOPPED_AT_ONCE = [
    *FIRST, begins(2, "b", "c", "d"), AttemptRuns(2), ended(2, "it was stopped"),
    RunEnded("stopped by ann@desk", False, by_user=True),
]  # fmt: skip
RAN_LATER = [*FIRST, begins(2, "b", "c", "d"), AttemptRuns(2), ended(2, "c: lost", ["c"])]


def report(
    host: str, *journal: WrittenRecord, record: Sequence[RecordLine] = (), number: int = 1,
    **more: Any,
) -> RunOnHost:  # fmt: skip
    about = RunBegan(1, RunAbout(hosts=tuple(HOSTS), ranks=3, command="t.py"), 1.0)
    first = [WrittenRecord(about), WrittenRecord(FactNoted(Fact(Begun())))]
    summary = run_list.summarize_journal([*first, *journal])
    run_id = run_id_of(RUN, number)
    recorded = run_list.summarize_attempts([*record], run_id)
    said = run_row(run_id, host, journal=summary, record=recorded, **more)
    return host_reports.read_on_host(host, said, known_failures)


@dataclass
class Case:
    name: str
    reports: list[RunOnHost]
    state: str
    code: int | None
    texts: tuple[str, ...]
    awaited: bool = False  # `wait` needs the hosts that do not answer


STOPPED_EARLY = "a user stopped it before the hub of an attempt started its ranks"
LATER_RAN = "no host here has the attempt that ran last"
CAUSE = f"a was lost: {SILENT}"
CASES = [
    Case("without --restarts", [report("b", LOST)], "failed", 121, (CAUSE,)),
    Case(
        "attempts did not begin: the disk of d is full, and a is still away",
        [report(host, LOST, record=FULL_END) for host in "bc"], "failed", 121,
        (f"{FULL}; 2 hosts are too few", f"attempt 1: {CAUSE}",
         f"attempts 2-3 on b,c,d did not begin: {FULL}"),
    ),
    Case(
        "the same, seen from a that is back and has no record of it, too",
        [report("a"), report("b", LOST, record=FULL_END)], "failed", 121,
        (f"{FULL}; 2 hosts are too few", f"attempt 1: {CAUSE}",
         f"attempts 2-3 on b,c,d did not begin: {FULL}"),
    ),
    Case(
        "too few hosts", [report("b", LOST, record=TOO_FEW)], "failed", 121,
        (CAUSE, "no further attempt: 2 hosts are too few"),
    ),
    Case(
        "a rank failed, in a run that was queued without --restarts",
        [report("b", FAILED, record=[begins(1), ended(1, "rank 1 on b: exit code 3"), RunEnded(
            "rank 1 on b: exit code 3; it was started without --restarts", False)])],
        "failed", 3,
        ("rank 1 on b exited with code 3",
         "no further attempt: it was started without --restarts"),
    ),
    Case(
        "a user stopped it when an attempt was decided that had not begun",
        [report(host, LOST, record=STOPPED_THEN) for host in "bc"], "stopped", 130,
        ("stopped by ann@desk", "attempt 2 on b,c,d did not begin: it was stopped"),
    ),
    Case(
        STOPPED_EARLY,
        [report(host, LOST, record=STOPPED_AT_ONCE) for host in "bc"], "stopped", 130,
        ("stopped by ann@desk",),
    ),
    Case(
        LATER_RAN,
        [report("a", LOST, record=[*RAN_LATER, RunEnded("c: lost; 1 hosts are too few", False)])],
        "failed", 121, ("c: lost; 1 hosts are too few",),
    ),
    Case(
        "an attempt is about to begin, and its leader is asked",
        [report("b", LOST, record=[*FIRST, begins(2, "b", "c", "d")], kept=True,
                keeper=KeeperAnswer(leads=True))],
        "restarting", 121, (CAUSE,),
    ),
    Case(
        "an attempt is about to begin, perhaps without the hosts that are asked",
        [report("b", LOST, record=[*FIRST, begins(2, "b", "c", "d")], kept=True)],
        "restarting", 121, (CAUSE,), awaited=True,
    ),
    Case(
        "no keeper is left, and the record has no end",
        [report("b", LOST, record=NOT_BEGUN)], "failed", 121,
        (CAUSE, f"attempts 2-3 on b,c,d did not begin: {FULL}"), awaited=True,
    ),
    Case(
        "a part of it stopped by a user between two attempts",
        [report("b", LOST, record=[*FIRST, RunEnded("stopped by me", False, by_user=True)])],
        "stopped", 130, ("stopped by me",),
    ),
    Case(
        "done, whatever its hosts saw",
        [report("b", LOST, record=[begins(1), RunEnded("done", True)])], "done", 0, (),
    ),
    Case(
        "cut off from the others",
        [report("b", LOST, record=[*FIRST, RunEnded("not more than half", False, cut_off=True)])],
        "lost", 121, ("its hosts here were cut off from others, on which it may go on",),
        awaited=True,
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_all_commands_say_how_the_record_has_the_end_of_a_run(case: Case) -> None:
    (run,) = merge_runs(case.reports)
    assert (run.phase.value, run.exit_code) == (case.state, case.code)
    assert run.end_texts == case.texts
    assert run.cause == (case.texts[0] if case.texts else "")
    assert run_document(run)["cause"] == (run.cause or None)
    fleet: Any = SimpleNamespace(failures=[SimpleNamespace(host="a")])
    assert bool(ps._find_unanswering(fleet, run)) is case.awaited
    listed = [line.plain.strip() for line in run_lines(run, 50.0)]
    explained = " ".join(line.strip() for line in why_lines(Why(run, (), 1, 0.0), 80))
    for text in case.texts:
        assert text in listed and text in explained
    assert ("another attempt followed" in explained) is (case.name in (LATER_RAN, STOPPED_EARLY))


def test_in_a_pipe_each_cause_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    cause = "the record could not be written: " + "a full disk, " * 20
    (run,) = merge_runs([report("b", LOST, record=[*FIRST, RunEnded(cause, False)])])
    show_why(Why(run, (), 1, 0.0))
    assert cause.strip() in capsys.readouterr().out


def test_a_keeper_whose_disk_is_full_says_that_its_part_cannot_begin(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("in the way of every folder")
    said = list[object]()
    host = SimpleNamespace(
        base=RUN, order=start_order(), runs=str(tmp_path / "runs"), name="d",
        deliver=lambda name, message: said.append((name, message)), part=None,
    )  # fmt: skip
    HostPart.begin(host, BeginPart(start_order(run_id=RUN, host="d"), None), 2)
    ((name, failed),) = said
    assert (name, type(failed), failed.attempt) == ("d", PartFailed, 2)
    assert failed.why == f"cannot create the folder {tmp_path}/runs"
    assert host.part is None


def both_attempts() -> tuple[ListedRun, ListedRun]:
    record = [*RAN_LATER, RunEnded("c: lost; 2 hosts are too few", False)]
    reports = (report("b", LOST, record=record, number=number) for number in (1, 2))
    last, first = merge_runs(reports)
    return first, last


def test_only_an_attempt_that_another_one_followed_says_so() -> None:
    first, last = both_attempts()
    said = [" ".join(why_lines(Why(run, (), 1, 0.0), 80)) for run in (first, last)]
    assert ["another attempt followed" in text for text in said] == [True, False]
    assert (first.state.no_further, last.state.no_further) == ("", "2 hosts are too few")


def test_of_a_run_that_was_stopped_only_the_last_attempt_that_is_listed_says_so() -> None:
    rows = [report("b", LOST, record=STOPPED_AT_ONCE, number=number) for number in (1, 2)]
    last, first = merge_runs(rows)
    assert (first.phase.value, first.cause) == ("failed", CAUSE)
    assert (last.phase.value, last.cause) == ("stopped", "stopped by ann@desk")


def test_an_attempt_that_did_not_begin_is_named_where_it_is_asked_for() -> None:
    runs = merge_runs([report("b", LOST, record=FULL_END)])
    with pytest.raises(InputError) as refused:
        choose_run(runs, f"{RUN}-r03", Caller("ann@pc", Path()))
    assert refused.value.why == f"attempt 3 on b,c,d did not begin: {FULL}"
    rows = run_document(runs[0])["attempts_not_begun"]
    assert [(row["attempt"], row["hosts"], row["cause"]) for row in rows] == [
        (number, ["b", "c", "d"], FULL) for number in (2, 3)
    ]


def test_the_lines_of_attach_have_attempts_that_did_not_begin() -> None:
    attempts = {line.attempt: line for line in FULL_END if isinstance(line, AttemptBegins)}
    endings = {line.attempt: line for line in FULL_END if isinstance(line, AttemptEnded)}
    assert describe_attempts(attempts, endings) == [
        "attempt 1 on a,b,c: 40 s, a: lost", f"attempts 2-3 on b,c,d did not begin: {FULL}",
    ]  # fmt: skip
    ran = {line.attempt: line for line in RAN_LATER if isinstance(line, AttemptBegins)}
    first, *others = describe_attempts(ran, {1: ended(1, "a: lost", ["a"])})
    assert first == "attempt 1 on a,b,c: 40 s, a: lost" and not others
