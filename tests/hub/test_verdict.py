"""How a run ended: the same from the hub's words as they come and from what journals kept."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ipexctl.common.attempt_record import FurtherAttempt
from ipexctl.common.journal_records import (
    FactNoted,
    JournalRecord,
    OwnRankEnded,
    OwnRankStarted,
    RanksSignalled,
    ResultNoted,
    RunBegan,
    WrittenRecord,
)
from ipexctl.common.run_about import RunAbout
from ipexctl.common.run_events import (
    Abandoned,
    Begun,
    Broken,
    EndAsked,
    Exit,
    Fact,
    HostLost,
    Noted,
    Over,
    ProgramEnded,
    RankExited,
    RankFrozen,
    RankRefused,
    RanksSucceeded,
    TimedOut,
)
from ipexctl.explain.known_failures import known_failures
from ipexctl.remote.run import run_list
from ipexctl.run.jobs import ps
from ipexctl.run.outcome import host_reports, listed_runs, verdict
from ipexctl.run.outcome.host_reports import RunOnHost
from ipexctl.run.outcome.run_state import Phase
from ipexctl.run.outcome.verdict import Verdict
from tests.made import run_row

ABOUT = RunBegan(1, RunAbout(hosts=("a", "b"), ranks=2, command="t.py"), 1.0)
GONE = "RuntimeError: [../gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]:80"
WORKER_GONE = (
    "Traceback (most recent call last):\n"
    '  File "/usr/lib/python3.11/multiprocessing/resource_sharer.py", line 57, in detach\n'
    "    with _resource_sharer.get_connection(self._id) as conn:\n"
    "ConnectionResetError: [Errno 104] Connection reset by peer\n"
)
RAISED = 'Traceback (most recent call last):\n  File "t.py", line 3, in <module>\n'
WORKER_KILLED = f"{RAISED}RuntimeError: DataLoader worker (pid 47) is killed by signal: Killed. "
WORKER_EXITED = f"{RAISED}RuntimeError: DataLoader worker (pid(s) 47, 48) exited unexpectedly"
HIDDEN = (
    "[W1127 10:00:00.1 socket.cpp:209] [c10d] The hostname of the client socket cannot be retrieved"
    ". err=-3"
)
MANY = 20 * "a frame of C++ that is long, and another one\n"


def rank(number: int, tail: str = "", **how: Any) -> Fact:
    end = Exit(**{"code": None, **how})
    return Fact(RankExited(number, end, tail), "ab"[number])


def program(code: int | None, *, killed: bool = False, who: str = "mpirun") -> Fact:
    return Fact(ProgramEnded(who, code, killed, "", 2, 1), "a")


LOST = Fact(HostLost("b: no message from it for 30 s"), "b")
ASKED = Fact(EndAsked("Ctrl-C", 10))
TIME = Fact(TimedOut(60))
WELL = Fact(Over("ended", True))
OVER = Fact(Over("ended", False))
ALONE = Fact(Abandoned("no message from ipexctl for 30 s"), "a")
FROZEN = Fact(RankFrozen(1, 31), "b")
BROKEN = Fact(Broken("no disk"), "b")
REFUSED = Fact(RankRefused("rank 7 is not in the plan"), "b")
NOTE = Fact(Noted("odd"))
NOT_TOGETHER = {"exit_code": 125, "ended_by": "not-together", "cause": "c"}

FACTS = [LOST, ASKED, TIME, WELL, OVER, ALONE, FROZEN, BROKEN, REFUSED, NOTE,
         program(1), program(-9, killed=True), rank(0, code=0),
         *(rank(n, tail, **how) for n in (0, 1) for tail in ("", GONE, "ValueError: x", MANY + GONE)
           for how in ({"code": 1}, {"code": 3}, {"signal": 9}, {"lost": True}))]  # fmt: skip


def live(facts: list[Fact]) -> Verdict | None:
    """As a session hears it."""
    read = verdict.read_all(facts)
    return verdict.decide_verdict([fact for fact in read if fact.is_decisive], 2, known_failures)


def part(
    name: str, *records: JournalRecord | WrittenRecord, alive: bool = False, target: str = ""
) -> RunOnHost:
    written = [
        record if isinstance(record, WrittenRecord) else WrittenRecord(record)
        for record in (ABOUT, FactNoted(Fact(Begun())), *records)
    ]
    summary = run_list.summarize_journal(written)
    said = run_row("20260101-000000-000001", name, alive=alive, journal=summary)
    return host_reports.read_on_host(target or name, said, known_failures)


def kept(facts: list[Fact]) -> Verdict | None:
    (run,) = listed_runs.merge_runs([part("a", *map(FactNoted, facts))])
    return run.verdict


@pytest.mark.parametrize(
    ("facts", "code", "ended_by", "cause"),
    [
        ([WELL], 0, "ranks", ""),
        ([rank(1, code=3), rank(0, signal=6), OVER], 3, "rank-failed",
         "rank 1 on b exited with code 3"),
        ([rank(0, GONE, code=1), rank(1, code=3)], 3, "rank-failed",
         "rank 1 on b exited with code 3"),
        ([rank(0, code=0, at_exit=6), rank(1, signal=6)], 134, "rank-failed",
         "rank 1 on b was ended by signal 6 (SIGABRT)"),
        # what ended only after somebody asked for it is not the cause
        ([rank(0, GONE, code=1), ASKED, rank(1, lost=True)], 1, "rank-failed",
         "rank 0 on a exited with code 1"),
        ([rank(0, GONE, code=1), rank(1, lost=True)], 137, "rank-failed", "rank 1 on b was killed"),
        ([LOST, rank(0, code=1)], 121, "host-lost", "b was lost: no message from it for 30 s"),
        ([program(1), rank(0, signal=9), LOST], 122, "mpirun",
         "mpirun ended with code 1 while 1 of 2 ranks were running"),
        ([program(5), program(-9, killed=True), program(6)], 122, "mpirun",
         "mpirun was ended by signal 9 (SIGKILL) while 1 of 2 ranks were running"),
        # a DataLoader worker was killed: the rank that loses it is the first
        ([rank(0, GONE, code=1), rank(1, WORKER_GONE, code=1)], 1, "rank-failed",
         "a DataLoader worker of rank 1 on b was killed or crashed"),
        ([rank(0, GONE, code=1), rank(1, WORKER_KILLED, code=1)], 1, "rank-failed",
         "a DataLoader worker of rank 1 on b was killed (signal: Killed)"),
        ([rank(1, WORKER_EXITED, code=1)], 1, "rank-failed",
         "a DataLoader worker of rank 1 on b exited unexpectedly"),
        # mpirun was killed, and took the wrappers along: their loss can be noted first
        ([rank(1, lost=True), program(137, killed=True), rank(0, lost=True)], 122, "mpirun",
         "mpirun ended with code 137 (SIGKILL) while 1 of 2 ranks were running"),
        ([rank(1, lost=True), program(9), rank(0, lost=True)], 137, "rank-failed",
         "rank 1 on b was killed"),
        ([program(None, killed=True, who="a process of MPI on a")], 122, "mpirun",
         "a process of MPI on a was killed or gave up while 1 of 2 ranks were running"),
        ([TIME, rank(0, signal=2)], 124, "timeout", "the run took longer than --timeout 60"),
        ([ASKED, rank(0, signal=2), OVER], 130, "interrupted", "stopped by Ctrl-C"),
        ([ALONE, OVER], 121, "controller-lost",
         "a: no message from ipexctl for 30 s, and the run ends with its command"),
        ([BROKEN, OVER], 123, "host-failed", "b: no disk"),
        ([REFUSED, OVER], 122, "mpirun", "b: rank 7 is not in the plan"),
        ([FROZEN], 121, "rank-frozen", "rank 1 on b has been stopped for 31 s (all its threads "
         "are in state T)"),
    ],
)  # fmt: skip
def test_the_first_thing_that_ends_a_run_decides(
    facts: list[Fact], code: int, ended_by: str, cause: str
) -> None:
    found = live(facts)
    assert found and (found.exit_code, found.ended_by, found.cause) == (code, ended_by, cause)
    assert kept(facts) == found


def test_a_line_that_is_hidden_when_it_comes_is_no_evidence_of_a_killed_rank() -> None:
    for tail, last in ((HIDDEN, ""), (f"step 7\n{HIDDEN}", "step 7")):
        facts = [rank(1, tail, lost=True)]
        found = live(facts)
        assert found and found.last == last
        assert kept(facts) == found


def test_nothing_is_decided_by_what_ends_no_run() -> None:
    assert live([NOTE, rank(0, code=0)]) is None


def test_a_run_that_ends_before_its_ranks_and_without_a_reason_was_ended_by_mpirun() -> None:
    facts = [NOTE, rank(0, code=0), OVER]
    found = live(facts)
    assert found and (found.exit_code, found.ended_by) == (122, "mpirun")
    assert kept(facts) == found


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(FACTS), max_size=8))
def test_whoever_watches_and_whoever_asks_later_get_one_verdict(
    facts: list[Fact],
) -> None:
    seen = live(facts)
    assert kept(facts) == seen or (seen is None and kept(facts).ended_by == "unknown")


@pytest.mark.parametrize(
    ("records", "state", "code", "ended_by"),
    [
        ([], Phase.LOST, 121, "unknown"),  # power was cut
        ([OwnRankEnded(1, Exit(3))], Phase.FAILED, 3, "rank-failed"),
        ([RanksSignalled("ann (ipexctl stop)")], Phase.STOPPED, 130, "interrupted"),
        ([FactNoted(ALONE)], Phase.FAILED, 121, "controller-lost"),
        ([FactNoted(LOST)], Phase.FAILED, 121, "host-lost"),
        ([ResultNoted(NOT_TOGETHER), FactNoted(WELL)],
         Phase.FAILED, 125, "not-together"),
    ],
)  # fmt: skip
def test_every_run_that_has_ended_has_a_state_and_a_code(
    records: list[JournalRecord], state: Phase, code: int, ended_by: str
) -> None:
    (run,) = listed_runs.merge_runs([part("a", *records)])
    assert run.verdict
    assert (run.phase, run.exit_code, run.verdict.ended_by) == (state, code, ended_by)


def lost(host: str, why: str, at: float) -> WrittenRecord:
    return WrittenRecord(FactNoted(Fact(HostLost(why), host)), at)


SILENT = "no message from it for 10 s"
KILLED = "the supervisor of the run was killed (signal 9)"
FROZE = "it was frozen for 40 s"
PIPE = WrittenRecord(FactNoted(program(141)), 50.0)


def recorded(one: RunOnHost, *, kept: bool | None = None, **record: Any) -> RunOnHost:
    """The same of a host with these values from the record of the run, and with a keeper."""
    is_kept = one.row.kept if kept is None else kept
    return replace(one, row=one.row.replace(record=one.record.replace(**record), kept=is_kept))


FAILED = WrittenRecord(FactNoted(rank(1, code=3)), 5.0)


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 2, 0), (2, 0, 1)])
@pytest.mark.parametrize(
    ("noted", "cause", "seconds"),
    [
        # frozen, and back when the run had ended: the first host, what it says of others, ...
        ([lost("b", SILENT, 50), lost("a", SILENT, 12), lost("a", SILENT, 13)],
         f"a was lost: {SILENT}", 13),
        ([PIPE, lost("a", SILENT, 12), lost("a", SILENT, 12)], f"a was lost: {SILENT}", 12),
        ([lost("a", FROZE, 50), lost("a", SILENT, 12), lost("a", SILENT, 12)],
         f"a was lost: {SILENT}", 12),
        # ... and another one
        ([lost("b", SILENT, 12), lost("a", SILENT, 50), lost("b", SILENT, 12)],
         f"b was lost: {SILENT}", 12),
        # its cable was out: all note a loss at one time
        ([lost("b", SILENT, 11.8), lost("a", SILENT, 12), lost("a", SILENT, 12.2)],
         f"a was lost: {SILENT}", 12.2),
        # the others only see that a connection ended, its guardian knows why
        ([lost("b", "the connection ended", 5), lost("b", KILLED, 4.5),
          lost("b", "the connection ended", 5)], f"b was lost: {KILLED}", 5),
        ([lost("a", KILLED, 5), lost("a", SILENT, 7), lost("a", SILENT, 7)],
         f"a was lost: {KILLED}", 7),
        # a rank failed, then the hub's host lost its power before the others knew
        ([FAILED, lost("a", SILENT, 35), lost("a", SILENT, 35)],
         "rank 1 on b exited with code 3", 5),
    ],
)  # fmt: skip
def test_the_first_fact_of_a_run_stays_its_cause(
    noted: list[WrittenRecord], cause: str, seconds: float, order: Any
) -> None:
    parts = [part(name, record) for name, record in zip("abc", noted, strict=True)]
    (run,) = listed_runs.merge_runs([parts[i] for i in order])
    assert (run.cause, run.seconds) == (cause, seconds)


@pytest.mark.parametrize(
    ("noted", "cause"),
    [
        # the hosts were divided, and each part notes the loss of the other
        ([lost("b", SILENT, 12), lost("a", SILENT, 12), lost("a", SILENT, 12)],
         f"b was lost: {SILENT}"),
        ([lost("a", SILENT, 12), lost("a", SILENT, 12), lost("a", SILENT, 12)], "b: lost"),
        ([WrittenRecord(FactNoted(NOTE))] * 3, "b: lost"),
        ([FAILED] * 3, "rank 1 on b exited with code 3"),
    ],
)  # fmt: skip
def test_the_record_of_the_run_says_which_host_was_lost(
    noted: list[WrittenRecord], cause: str
) -> None:
    parts = [part(name, one) for name, one in zip("abc", noted, strict=True)]
    (run,) = listed_runs.merge_runs(recorded(one, lost=["b"]) for one in parts)
    assert run.cause == cause


def test_no_host_is_named_as_lost_before_hosts_that_do_not_reach_each_other_agree() -> None:
    parts = [part("a", lost("b", SILENT, 12)), part("b", lost("a", SILENT, 12))]
    (run,) = listed_runs.merge_runs(recorded(one, kept=True) for one in parts)
    assert run.phase is Phase.RESTARTING and not lost_in(run.cause)
    (run,) = listed_runs.merge_runs(recorded(one, kept=True, lost=["b"]) for one in parts)
    assert run.phase is Phase.RESTARTING and lost_in(run.cause) == ["b"]
    over = [recorded(one, kept=True, lost=["b"], settled=True) for one in parts]
    (run,) = listed_runs.merge_runs(over)  # whatever a keeper that was away looks for
    assert run.phase is Phase.FAILED
    (run,) = listed_runs.merge_runs(parts)  # no keeper can decide more
    assert lost_in(run.cause)


def test_a_run_whose_next_attempt_is_recorded_but_not_there_yet_is_not_over() -> None:
    later = [FurtherAttempt(2, ["a", "c"], ran=False)]
    parts = [recorded(part(name, lost("b", SILENT, 12)), kept=True, further=later) for name in "ac"]
    (run,) = listed_runs.merge_runs(parts)
    assert (run.phase, run.over) == (Phase.RESTARTING, False)
    (run,) = listed_runs.merge_runs(recorded(one, kept=False) for one in parts)  # no keeper is left
    assert run.phase is Phase.FAILED


def test_a_run_of_which_another_attempt_followed_may_go_on_where_hosts_do_not_answer() -> None:
    fleet: Any = SimpleNamespace(failures=[SimpleNamespace(host="b")])
    seen = replace(part("a", lost("b", SILENT, 12)), about=RunAbout(hosts=("a", "b")))
    later = [FurtherAttempt(2, ["b"], ran=True)]
    for over, away in (({"further": later}, ["b"]), ({"settled": True}, [])):
        (run,) = listed_runs.merge_runs([recorded(seen, **over)])
        assert [down.host for down in ps._find_unanswering(fleet, run)] == away


def lost_in(cause: str) -> list[str]:
    return re.findall(r"\b([ab]) was lost", cause)


def test_a_run_that_is_done_by_its_record_is_done_whatever_its_last_hosts_saw() -> None:
    parts = [part(name, lost("a", SILENT, 12)) for name in "bc"]
    (run,) = listed_runs.merge_runs([recorded(parts[0], done=True), parts[1]])
    assert (run.phase, run.exit_code, run.cause) == (Phase.DONE, 0, "")


def test_a_run_whose_hosts_here_were_cut_off_is_lost_unless_one_knows_that_it_is_done() -> None:
    here = recorded(part("b", lost("a", SILENT, 12)), cut_off=True)
    (run,) = listed_runs.merge_runs([here])
    assert (run.phase, run.exit_code) == (Phase.LOST, 121)
    (run,) = listed_runs.merge_runs([here, part("c", lost("a", SILENT, 12))])  # c knows the end
    assert run.phase == Phase.FAILED
    (run,) = listed_runs.merge_runs([here, recorded(part("c", lost("a", SILENT, 12)), done=True)])
    assert (run.phase, run.exit_code) == (Phase.DONE, 0)


def test_what_the_command_of_the_run_said_stays_its_cause() -> None:
    """Also where its hosts note another one later: its hub, once its guardian has killed it."""
    late = Fact(HostLost(KILLED), "a")
    said = {"exit_code": 121, "ended_by": "host-lost", "cause": "a was lost: no message for 4 s"}
    (run,) = listed_runs.merge_runs([part("a", FactNoted(late)), part("b", ResultNoted(said))])
    assert run.verdict
    assert (run.exit_code, run.cause, run.verdict.lost) == (121, said["cause"], "a")


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 2, 0), (2, 0, 1)])
def test_of_hosts_that_share_their_home_only_the_one_that_runs_it_counts(order: Any) -> None:
    """All of them report its journal, and only there is its supervisor seen."""
    started = OwnRankStarted(0)
    parts = [part("a", started, target=host, alive=host == "a") for host in ("a", "h5", "h6")]
    (run,) = listed_runs.merge_runs([parts[i] for i in order])
    assert (run.phase, run.alive, run.started) == (Phase.RUNNING, ("a",), 1)
    assert [(one.host, one.target) for one in run.seen] == [("a", "a")]
    (over,) = listed_runs.merge_runs([part("a", target=host) for host in ("h5", "a", "h6")])
    assert [one.target for one in over.seen] == ["a"]


def test_a_run_whose_ranks_have_all_ended_with_0_is_done_whatever_is_lost_then() -> None:
    found = live([rank(0, code=0), rank(1, code=0), Fact(RanksSucceeded()), LOST, OVER])
    assert found and (found.exit_code, found.ended_by) == (0, "ranks")
