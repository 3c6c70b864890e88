"""Rows that a host lists for queued runs: real folders of runs, without their processes."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from ipexctl.base.host_answer import Answer
from ipexctl.common.attempt_record import (
    AttemptBegins,
    AttemptRuns,
    KeeperAnswer,
    QueuedRun,
    RecordLine,
    RunEnded,
    RunQueued,
)
from ipexctl.common.journal_records import RUN_FORMAT, PartEnded, RunBegan
from ipexctl.common.processes import user_name
from ipexctl.common.run_about import RunAbout
from ipexctl.common.run_answers import JournalSummary, RunList, RunRow
from ipexctl.remote.facts.read_other_runs import describe_own_run
from ipexctl.remote.restart.queued_place import WAKES, QueuedPlace
from ipexctl.remote.run import run_list
from ipexctl.remote.run_files import attempt_lines, journal, queued_runs
from ipexctl.run.command.ps_table import table_lines
from ipexctl.run.command.ps_text import run_lines
from ipexctl.run.command.why_text import why_lines
from ipexctl.run.jobs.ps import may_wait_again
from ipexctl.run.jobs.why import Why
from ipexctl.run.outcome.host_reports import read_on_host
from ipexctl.run.outcome.listed_runs import merge_runs, name_runs_before
from ipexctl.run.outcome.run_choice import Caller
from ipexctl.run.outcome.run_state import Phase
from tests.made import run_row, start_order

QUEUED = RunQueued(1000.0, RunAbout(command="train.py"))
ANN = "ann@desk"
CALLER = Caller(ANN, Path("/home/ann"))
STOPPED = RunEnded("stopped by ann", False, by_user=True)


class Host:
    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(mode=0o700)

    def add_run(self, number: int, *lines: RecordLine, order: bool = False) -> str:
        """Make the folder of a run of which no process lives."""
        run = f"20261129-120000-{number:06d}"
        folder = self.root / "runs" / run
        folder.mkdir(parents=True)
        (folder / "lock").write_text("")
        for line in lines:
            attempt_lines.append_line(str(folder), "node01", line)
        if order:
            queued_runs.keep_order(str(folder), start_order(host="node01"))
        if not lines or isinstance(lines[-1], AttemptBegins):
            kept = journal.create_journal(str(folder), "node01")
            kept.add(RunBegan(RUN_FORMAT, RunAbout(), 5.0))
            kept.add(PartEnded("ended", 0))
        return run

    def rows(self, newest: int = 0) -> dict[str, RunRow]:
        answer = run_list.op_list(None, str(self.root), "node01", "", newest, sizes=False)
        sent = Answer("node01", json.loads(json.dumps(answer.document())))
        return {row.run: row for row in sent.read(RunList).runs}


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path / "root")


def test_a_queued_run_without_a_keeper_is_listed_however_many_have_ended(host: Host) -> None:
    waiting = host.add_run(1, QUEUED, order=True)
    ended = [host.add_run(number) for number in (2, 3, 4)]
    rows = host.rows(newest=1)
    assert set(rows) == {ended[-1], waiting}
    row = rows[waiting]
    assert (row.waited, row.queued, row.asleep) == (True, True, True)
    assert (row.journal.about, row.journal.began, row.unreadable) == (
        RunAbout(command="train.py"),
        1000.0,
        False,
    )
    assert set(host.rows()) == {waiting, *ended}


def test_a_run_that_left_the_queue_is_not_queued(host: Host) -> None:
    stopped = host.add_run(1, QUEUED, STOPPED)
    begun = host.add_run(2, QUEUED, AttemptBegins(1, ["node01"]))
    rows = host.rows()
    assert (rows[stopped].queued, rows[stopped].record.stopped) == (False, "stopped by ann")
    assert not rows[begun].queued and rows[begun].journal.over == "ended"


def test_ps_says_of_a_run_that_was_stopped_in_the_queue_that_it_never_started(host: Host) -> None:
    stopped = host.add_run(1, QUEUED, STOPPED)
    begun = host.add_run(2, QUEUED, AttemptBegins(1, ["node01"]))
    waiting = host.add_run(3, QUEUED, order=True)
    rows = host.rows()
    rows[begun].journal.begun = True  # it has no ranks
    reports = [read_on_host("node01", row) for row in rows.values()]
    runs = {run.id: run for run in merge_runs(reports)}
    first, *rest = map(str, run_lines(runs[stopped], 1019.0))
    assert first.endswith(", queued 19 s ago, never started")
    assert rest[0] == "  train.py" and not any("took" in line for line in rest)
    for width, end in ((None, "never started, stopped by ann"), (64, "  stopped by ann")):
        _, line = table_lines([runs[stopped]], [runs[stopped]], CALLER, 1019.0, width)
        assert line.plain.endswith(end)
    lines = list(map(str, run_lines(runs[begun], 1019.0)))
    assert "queued" not in lines[0] and "  took " in "".join(lines)
    (line, *_) = map(str, run_lines(runs[waiting], 1019.0))
    assert line.endswith(", queued 19 s ago")


def test_a_run_that_ran_is_not_said_to_have_never_started_where_its_host_has_removed_it(
    host: Host,
) -> None:
    ran = (QUEUED, AttemptBegins(1, ["node02"]), AttemptRuns(1))
    well, failed = (
        host.add_run(number, *ran, RunEnded(end, well))  # no journal: no ranks here
        for number, end, well in ((1, "", True), (2, "rank 0 failed", False))
    )
    reports = [read_on_host("node01", row) for row in host.rows().values()]
    runs = {run.id: run for run in merge_runs(reports)}
    for run_id, state in ((well, "done"), (failed, "failed")):
        run = runs[run_id]
        first, *rest = map(str, run_lines(run, 1019.0))
        assert f"  {state} " in first and first.endswith(", queued 19 s ago")
        assert all(line.strip() and "took" not in line for line in rest)
        assert run.removed_from(["node01", "node02", "node03"]) == ["node02"]
        _, line = (line.plain for line in table_lines([run], [run], CALLER, 1019.0, 80))
        assert "never" not in line and " node02 " in line


def test_a_queued_run_whose_host_was_killed_before_its_first_rank_is_listed_as_lost(
    host: Host,
) -> None:
    killed = host.add_run(1, QUEUED, AttemptBegins(1, ["node01"]))
    other = host.add_run(2)  # it did not wait, and its command said what became of it
    path = Path(journal.path_of(str(host.root / "runs" / killed), "node01"))
    about = path.read_bytes().rpartition(b"PartEnded")[0]
    path.write_bytes(about)  # cut off
    reports = [read_on_host("node01", row) for row in host.rows().values()]
    assert {report.run for report in reports} == {killed, other}
    (run,) = merge_runs(reports)
    assert (run.id, run.phase) == (killed, Phase.LOST)
    assert "node01" in run.cause


def test_runs_before_a_queued_one_are_named_in_the_order_of_the_queue() -> None:
    ids = [f"20261129-120000-{number:06d}" for number in range(4)]
    before = [QueuedRun(5, ids[2], ANN), QueuedRun(7, ids[1], ANN), QueuedRun(8, ids[3], "bob")]
    keepers = [KeeperAnswer(leads=True, before=before), KeeperAnswer(), KeeperAnswer(leads=True)]
    names = (RunAbout(), RunAbout(name="lr-0.1", by=ANN), RunAbout(by=ANN))
    rows = [
        run_row(run, waited=True, queued=True, keeper=keeper, journal=JournalSummary(about=about))
        for run, keeper, about in zip(ids[:3], keepers, names, strict=True)
    ]
    runs = merge_runs(read_on_host("node01", row) for row in rows)
    last = next(run for run in runs if run.id == ids[0])
    assert name_runs_before(last, runs) == (ids[2], "lr-0.1", f"{ids[3]} of bob")
    assert name_runs_before(next(run for run in runs if run.id == ids[2]), runs) == ()


def test_queued_runs_keep_their_order_though_a_host_is_away() -> None:
    """A run that lacks a host leaves the queue, so that the keepers of others do not know of it."""
    ids = [f"20261129-12000{number}-abcdef" for number in range(6)]
    away = "place 1 in the queue; not reached: node03, so later runs go first"
    every, ann = ("node01", "node02", "node03"), {"by": ANN, "ranks": 1}
    one, both = QueuedRun(3000, ids[3], ANN), ("node01", "node02")
    bob = QueuedRun(2500, "20261129-115900-abcdef", "bob")
    told = [
        ("all-0", every, away, ()), ("all-1", every, away, ()),
        ("all-2", every, "its hosts here were cut off", ()),
        ("one", ("node01",), "place 2 in the queue", (bob,)),
        ("both", both, f"place 2 in the queue; before it: {one.run} of {ANN}", (one,)),
        ("far", ("node09",), "place 1 in the queue; on its cores: 7 of ann", ()),
    ]  # fmt: skip
    rows = [
        run_row(
            ids[i], waited=True, queued=True,
            keeper=KeeperAnswer(leads=name != "all-2", waits=waits, before=list(before)),
            journal=JournalSummary(
                about=RunAbout(name=name, hosts=hosts, **ann), began=float(i)
            ),
        )
        for i, (name, hosts, waits, before) in enumerate(told)
    ]  # fmt: skip
    runs = merge_runs(read_on_host("node01", row) for row in rows)
    names = {run.about.name: name_runs_before(run, runs) for run in runs}
    earlier = ("all-0", "all-1", "all-2")
    assert names == {
        "all-0": (), "all-1": ("all-0",), "all-2": ("all-0", "all-1"), "far": (),
        "one": (*earlier[:2], "all-2", f"{bob.run} of bob"),
        "both": (*earlier[:2], "all-2", f"{bob.run} of bob", "one"),
    }  # fmt: skip
    waits = {run.about.name: run.naming(runs).state.waits for run in runs}
    assert waits["all-0"] == away and waits["far"] == told[-1][2]
    assert waits["all-1"] == away.replace("1 in the queue", "2 in the queue; before it: all-0")
    assert waits["all-2"].endswith("before it: all-0, all-1; its hosts here were cut off")
    assert waits["both"] == "place 6 in the queue; before it: all-0, all-1, all-2 and 2 more"
    lines = [line.plain for line in table_lines(runs, runs, CALLER, 1019.0, None)]
    assert [re.findall("place [0-9]", line) for line in lines[1:7]] == [
        [f"place {n}"] for n in (1, 1, 2, 3, 5, 6)
    ]


def test_what_a_queued_run_waits_for_has_the_names_of_runs_in_all_commands() -> None:
    ids = [f"20261129-120000-{number:06d}" for number in range(4)]
    before = f"{ids[1]} of {ANN}, {ids[2]} of bob, {ids[3]} of carl@pc"
    waits = f"place 4 in the queue; before it: {before}"
    named = f"place 4 in the queue; before it: lr-0.1, {ids[2]} of bob, big of carl@pc"
    rows = [
        run_row(run, waited=True, queued=True, keeper=keeper, journal=JournalSummary(about=about))
        for run, keeper, about in (
            (ids[0], KeeperAnswer(leads=True, waits=waits), RunAbout(name="lr-0.4", by=ANN)),
            (ids[1], KeeperAnswer(), RunAbout(name="lr-0.1", by=ANN)),
            (ids[3], KeeperAnswer(), RunAbout(name="big", by="carl@pc")),
        )
    ]
    runs = merge_runs(read_on_host("node01", row) for row in rows)
    run = next(run for run in runs if run.id == ids[0]).naming(runs)
    assert run.queue_text == f"lr-0.4 is queued: {named}"
    assert f"  {named}" in [line.plain for line in run_lines(run, 1019.0)]
    why = Why(run, (), 1, 0.0, waits=run.state.waits)
    assert f"  {named}" in list(why_lines(why, 200))


def test_of_a_run_of_this_account_the_hosts_say_who_started_it(host: Host) -> None:
    waiting = host.add_run(1, RunQueued(1000.0, RunAbout(by="ann@desk", command="a.py")))
    begun, unknown = host.add_run(2, STOPPED), host.add_run(3)
    kept = journal.create_journal(str(host.root / "runs" / begun), "node01")
    kept.add(RunBegan(1, RunAbout(by="bob@laptop", name="bert"), 5.0))
    seen = [describe_own_run(str(host.root), run) for run in (waiting, begun, unknown)]
    account = user_name(os.getuid())
    assert [row["owner"] for row in seen] == ["ann@desk", "bob@laptop", account]
    assert (seen[0]["command"], seen[1]["name"]) == ("a.py", "bert")


@pytest.mark.parametrize(
    ("any_of", "ranks", "text"),
    [(1, 1, "1 rank on any of node[01-03]"), (0, 3, "3 ranks on node[01-03]")],
)
def test_all_commands_say_alike_on_which_hosts_a_queued_run_will_be(
    host: Host, any_of: int, ranks: int, text: str
) -> None:
    about = RunAbout(hosts=("node01", "node02", "node03"), ranks=ranks, any_of=any_of)
    waiting = host.add_run(1, RunQueued(1000.0, about), order=True)
    (run,) = merge_runs([read_on_host("node01", host.rows()[waiting])])
    assert next(why_lines(Why(run, (), 1, 0.0), 80)).endswith(f" · {text}")
    (line, *_) = map(str, run_lines(run, 1019.0))
    assert f"  {text}, queued 19 s ago" in line
    _, row = (line.plain for line in table_lines([run], [run], CALLER, 1019.0, None))
    assert text.partition(" on ")[2] in row


def test_a_run_that_waits_again_is_after_earlier_ones_that_do_not_yet(host: Host) -> None:
    """A command wakes the runs of an account one after the other, after a reboot."""
    lines = [RunQueued(since, RunAbout()) for since in (1000.0, 999.5, 1001.0)]
    runs = [host.add_run(number, line, order=True) for number, line in enumerate(lines, 1)]
    host.add_run(9, RunQueued(900.0, RunAbout()), STOPPED)
    place = SimpleNamespace(
        order=start_order(host="node01").replace(woken=True), woke=50.0, base=runs[0],
        queued=1000.0, runs=str(host.root / "runs"),
    )  # fmt: skip
    earlier = QueuedPlace.find_sleeping(place, 51.0)
    assert [(run.since, run.run) for run in earlier] == [(999500, runs[1])]
    assert QueuedPlace.find_sleeping(place, 51.0 + WAKES) == []  # nobody wakes it
    place.order = start_order(host="node01")
    assert QueuedPlace.find_sleeping(place, 51.0) == []


@pytest.mark.parametrize(
    ("any_of", "seen", "wakes"), [(0, 3, True), (0, 2, False), (1, 2, True), (1, 1, False)]
)
def test_a_queued_run_waits_again_if_enough_of_its_hosts_say_that_it_waits(
    any_of: int, seen: int, wakes: bool
) -> None:
    about = RunAbout(hosts=("node01", "node02", "node03"), any_of=any_of)
    summary, is_asleep = (
        JournalSummary(about=about),
        {"waited": True, "queued": True, "asleep": True},
    )
    names = [f"node0{number + 1}" for number in range(seen)]
    (run,) = merge_runs(
        read_on_host(name, run_row("20261129-120000-000001", name, journal=summary, **is_asleep))
        for name in names
    )
    assert may_wait_again(run) == wakes
