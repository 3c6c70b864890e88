"""How a keeper sees that its host's part of an attempt has ended."""

from __future__ import annotations

import os
import queue
import subprocess
import threading
import time
import types
from pathlib import Path

import pytest

from ipexctl.common.attempt_record import AttemptRuns, RecordLine, RunEnded
from ipexctl.common.journal_records import FactNoted, JournalRecord, OwnRankEnded, PartEnded
from ipexctl.common.keeper_messages import (
    BeginPart,
    CheckpointLayout,
    HostReport,
    PartOver,
    PartReady,
)
from ipexctl.common.restart_plan import RestartPlan
from ipexctl.common.run_events import EndAsked, Exit, Fact, HostLost, Over
from ipexctl.remote.rank.rank_wrapper import RUN_MARK
from ipexctl.remote.restart import keeper
from ipexctl.remote.restart.attempt_part import Part
from ipexctl.remote.restart.host_part import HostPart
from ipexctl.remote.restart.keeper import LINGERS, Keeper
from ipexctl.remote.restart.leading import Leading
from ipexctl.remote.run_files import journal
from tests.made import rank_order, start_order
from tests.soak.test_restart_cases import SAYS

RUN = "20261126-120000-keeper"


def part(runs: Path) -> Part:
    """Of a supervisor that was there, and is not any more."""
    (runs / RUN).mkdir(parents=True)
    asked = start_order(run_id=RUN, host="node01", ranks=[rank_order(2), rank_order(3)])
    made = Part(types.SimpleNamespace(runs=str(runs)), asked, 1)
    made.seen = True
    return made


def test_a_part_that_vanished_is_a_lost_host_and_its_ranks_are_ended(tmp_path: Path) -> None:
    made = part(tmp_path)
    rank = subprocess.Popen(["sleep", "60"], env={**os.environ, RUN_MARK: RUN})
    try:
        made.look(0.0)
        assert rank.wait(10) == -9
    finally:
        rank.kill()
    said = made.end()
    assert made.ended and not said.well
    assert [(type(fact.event), fact.host) for fact in said.facts] == [(HostLost, "node01")]


def test_a_part_whose_end_is_in_the_journal_is_not_lost(tmp_path: Path) -> None:
    made = part(tmp_path)
    kept = journal.create_journal(str(tmp_path / RUN), "node01")
    kept.add(FactNoted(Fact(Over("ended", True))))
    kept.add(PartEnded("ended", 0))
    made.look(0.0)
    said = made.end()
    assert made.ended and (said.well, said.facts) == (True, [])


WELL, KILLED = Exit(0), Exit(None, 9)


def finished(tmp_path: Path, *records: JournalRecord) -> bool:
    made = part(tmp_path)
    kept = journal.create_journal(str(tmp_path / RUN), "node01")
    for record in records:
        kept.add(record)
    made.look(0.0)
    said = made.end()
    assert made.ended and not said.well
    return bool(said.finished)


def test_a_part_of_which_all_ranks_ended_with_0_is_finished(tmp_path: Path) -> None:
    lost = FactNoted(Fact(HostLost("gone"), "node02"))
    ends = (OwnRankEnded(n, WELL) for n in (2, 3))
    assert finished(tmp_path, *ends, lost, PartEnded("x", 0))


def test_a_part_of_which_a_rank_was_killed_is_not_finished(tmp_path: Path) -> None:
    assert not finished(tmp_path, OwnRankEnded(2, WELL), OwnRankEnded(3, KILLED))


def test_a_rank_that_ends_with_0_after_it_was_told_to_end_is_not_finished(tmp_path: Path) -> None:
    stop = FactNoted(Fact(EndAsked("me", 0)))
    assert not finished(tmp_path, stop, *(OwnRankEnded(n, WELL) for n in (2, 3)))


def test_an_attempt_that_another_one_has_followed_lays_nothing_out_and_starts_nothing() -> None:
    done = list[str]()
    copies = types.SimpleNamespace(
        lay_out=lambda *_: done.append("laid"), put_newer_aside=lambda *_: done.append("aside"),
        remove_old_copies=lambda *_: done.append("forgot"),
        keep_laid_out=lambda *_: done.append("held"),
    )  # fmt: skip
    first, second = (
        types.SimpleNamespace(
            order=start_order(), checkpoints=0, begin=lambda _, n=n: done.append(n)
        )
        for n in ("first", "second")
    )
    host = types.SimpleNamespace(
        laying=threading.Lock(), copies=copies, starter=None, began=0.0,
        is_latest=lambda part: part is second,
    )  # fmt: skip
    begin = BeginPart(start_order(), CheckpointLayout("out/c-7", (1, 3), 5.0, []), tidies=True)
    HostPart.lay_out_and_start(host, first, begin, {})
    assert done == []
    HostPart.lay_out_and_start(host, second, begin, {})
    assert done == ["aside", "laid", "forgot", "second", "held"]


def unwanted_host(**record: object) -> types.SimpleNamespace:
    """A host whose part of attempt 2 is about to begin, or has just begun."""
    made = types.SimpleNamespace(
        record=types.SimpleNamespace(**{"end": None, "cleared": lambda: 1, **record}), part=None,
        laying=threading.Lock(), copies=None, starter=None, since={},
        report=HostReport(), ended=list[str](),
    )  # fmt: skip
    made.end = made.ended.append
    for name in ("is_latest", "is_unwanted", "set"):
        setattr(made, name, types.MethodType(getattr(HostPart, name), made))
    return made


@pytest.mark.parametrize(
    ("record", "is_unwanted"),
    [
        ({}, False),
        ({"cleared": lambda: 2}, True),  # the attempt has ended in vain: a stop, or another host
        ({"end": RunEnded("stopped by me", False, by_user=True)}, True),
    ],
)
def test_a_part_that_is_ready_after_its_attempt_has_ended_is_ended_and_one_to_come_never_begins(
    record: dict[str, object], is_unwanted: bool
) -> None:
    """The order to end came when it had no supervisor that could be asked."""
    made = unwanted_host(**record)
    Keeper.hear(types.SimpleNamespace(host=made), "a", PartReady(2, 40000))
    assert (made.report.ready, bool(made.ended)) == (PartReady(2, 40000), is_unwanted)
    begun = list[object]()
    made.part = types.SimpleNamespace(
        order=start_order(), attempt=2, ended=False, checkpoints=0, begin=begun.append
    )
    HostPart.lay_out_and_start(made, made.part, BeginPart(start_order(), None), {})
    assert (bool(begun), made.part.ended) == (not is_unwanted, is_unwanted)


def test_what_ended_in_this_turn_is_reported_with_an_age_that_can_be_read(tmp_path: Path) -> None:
    """The turn began before it was seen."""
    began = time.monotonic()
    host = types.SimpleNamespace(report=HostReport(), since={})
    HostPart.set(host, "over", PartOver(1, False, False, [], 9.0, ""))
    report = HostPart.report_at(host, began)
    assert report.over and report.over.ago == 0.0
    assert HostReport.read(report.document()) == report


def test_a_file_from_before_the_run_is_not_put_aside(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    plan = RestartPlan(
        run_id="20261126-120000-abcdef", hosts=["a"], first=["a"], ranks=[1], places=[],
        restarts=3, least=1, lease=30.0, kept=True, without="begin", queued=0.0, returns=0.0,
    )  # fmt: skip
    asked = start_order(
        restart_plan=plan.document(), root=str(tmp_path / "root"), spare=True,
        cwd=str(work), checkpoints=["*.pt"],
    )  # fmt: skip
    made = Keeper(asked, types.SimpleNamespace())
    for name, written in (("sent.pt", 1e9), ("half.pt", time.time() + 5)):
        (work / name).write_text(name)
        os.utime(work / name, (written, written))
    host = made.host
    host.part = types.SimpleNamespace(
        order=asked, attempt=2, checkpoints=0, begin=lambda starter: None
    )
    host.lay_out_and_start(host.part, BeginPart(asked, None, tidies=True), {})
    assert [path.name for path in work.glob("*.pt")] == ["sent.pt"]


def test_a_leader_that_most_voters_do_not_reach_wants_nothing_of_what_it_sees() -> None:
    wanted = list[tuple[RecordLine, int]]()
    member = types.SimpleNamespace(
        term=lambda: 4,
        leads=lambda: True,
        nodes=dict.fromkeys("abc"),
        propose=lambda *line: wanted.append(line),
        tick=lambda connected: None,
    )
    leading = Leading(start_order(), member, types.SimpleNamespace(term=4, lines=[]))
    leading.leader = types.SimpleNamespace(tick=lambda *_: AttemptRuns(1), orders=lambda _: {})
    leading.term = 4
    leading.turn(1.0, set(), {})
    assert wanted == []
    leading.turn(1.0, {"b"}, {})
    assert wanted == [(AttemptRuns(1), 4)]


def test_a_keeper_that_was_frozen_hears_a_leader_before_it_ends_its_part(monkeypatch) -> None:
    now, done = [100.0], list[str]()
    monkeypatch.setattr("time.monotonic", lambda: now[0])

    def nothing(timeout: float) -> None:
        raise queue.Empty

    keeper = types.SimpleNamespace(
        inbox=types.SimpleNamespace(get=nothing), leading=None, queue=None,
        links=types.SimpleNamespace(connected=set),
        plan=types.SimpleNamespace(lease=12.0), led=100.0, turned=100.0,
        starter=types.SimpleNamespace(has_ended=lambda: False), over=False, alone=False,
        host=types.SimpleNamespace(report=HostReport(), look=lambda now: None, end=done.append),
        record=types.SimpleNamespace(end=None, attempts=[1]), is_leader=lambda: False, name="a",
        note_record=lambda: None, speak=lambda now, there: None, is_last_attempt=lambda: False,
    )  # fmt: skip
    keeper.look_for_leader = lambda now: Keeper.look_for_leader(keeper, now)
    for now[0] in (100.2, 125.0, 126.0, 128.0):  # it is frozen for 25 s
        Keeper.turn(keeper)
    assert done == []
    for now[0] in (129.0, 130.5):
        Keeper.turn(keeper)
    assert len(done) == 1


def test_ranks_that_no_host_may_start_again_go_on_without_a_leader() -> None:
    """A queued run without --restarts, on one of the hosts that it could have."""
    done, noted = list[str](), list[RecordLine]()
    host = types.SimpleNamespace(report=HostReport(), part=types.SimpleNamespace(), end=done.append)
    keeper = types.SimpleNamespace(
        plan=types.SimpleNamespace(lease=12.0, restarts=0), led=100.0, over=False,
        alone=False, host=host, is_leader=lambda: False, name="a",
        record=types.SimpleNamespace(end=None, attempts=[1], phase=lambda: "begin"),
        note=noted.append,
    )  # fmt: skip
    for name in ("is_last_attempt", "finish_alone"):
        setattr(keeper, name, types.MethodType(getattr(Keeper, name), keeper))
    Keeper.look_for_leader(keeper, 130.0)  # not all hosts were ready: another attempt may follow
    assert len(done) == 1
    keeper.record.phase, keeper.alone, done[:] = lambda: "watch", False, []
    Keeper.look_for_leader(keeper, 5000.0)
    assert (done, keeper.over, noted) == ([], False, [])
    host.report.over = PartOver(1, True, True, [], 9.0, "")
    Keeper.look_for_leader(keeper, 5001.0)
    assert (done, keeper.over, noted) == ([], True, [RunEnded("done", True)])
    host.report.over, host.part, keeper.over = None, None, False  # others have the ranks
    Keeper.look_for_leader(keeper, 5002.0)
    end = noted[-1]
    assert keeper.over and isinstance(end, RunEnded) and end.cut_off


def test_a_leader_stays_until_the_hosts_that_are_reached_have_ended_and_others_for_a_while() -> (
    None
):
    reached = set[str]()
    keeper = types.SimpleNamespace(
        name="a", plan=types.SimpleNamespace(hosts=["a", "b", "c"]),
        ending=0.0, awaited=set(), links=types.SimpleNamespace(connected=lambda: set(reached)),
    )  # fmt: skip

    def ends(now: float, names: str) -> bool:
        reached.clear()
        reached.update(names)
        return bool(Keeper.others_know(keeper, now))

    assert not ends(1.0, "bc") and not ends(2.0, "c") and ends(2.5, "")
    keeper.ending = 0.0
    assert not ends(1.0, "b") and not ends(2.0, "") and not ends(3.0, "c") and ends(3.5, "")
    keeper.ending = 0.0
    assert not ends(1.0, "b") and not ends(1.0 + LINGERS, "") and ends(1.1 + LINGERS, "")


def test_the_keeper_says_its_state_where_the_soak_adds_odd_messages() -> None:
    assert Path(keeper.__file__).read_text().count(SAYS) == 1
