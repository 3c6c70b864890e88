"""The keeper that leads: what it puts into the record, what it orders, and when. Time is a number,
and what it puts into the record is agreed on at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ipexctl.common.attempt_record import (
    AttemptBegins,
    AttemptEnded,
    AttemptRuns,
    AttemptSucceeded,
    Leads,
    QueuedRun,
    RecordLine,
    RunEnded,
    StopNoted,
)
from ipexctl.common.checkpoint_reports import CopiedPart
from ipexctl.common.keeper_messages import (
    HostReport,
    KeptCheckpoint,
    PartCleared,
    PartFailed,
    PartOver,
    PartReady,
    QueuePlace,
)
from ipexctl.common.restart_plan import RestartHost, VoterPlan
from ipexctl.common.run_events import Fact, HostLost
from ipexctl.common.shown_plans import ShownHost
from ipexctl.remote.restart.leader import BEGIN, CLEAR, FENCE, GATHER, HOLDER, Leader
from ipexctl.remote.restart.record import RestartRecord
from tests.made import rank_order, restart_common, row_of_host, start_order
from tests.restart.test_restart_policy import LOST, rank

LEASE = 15.0
AWAY = 60.0  # --wait-for-hosts
CLOSED = rank("RuntimeError: closed")


def host_plan(name: str) -> RestartHost:
    return RestartHost(
        asked=start_order(host=name, cwd="/work", ranks=[rank_order(0)]),
        work=name,
        row=row_of_host(name, [0], starter=["sh", "0:0"]),
        mpirun=[],
        line="",
        address=f"10.0.0.{ord(name)}",
        port=20000,
        peer=f"10.0.0.{ord(name)}",
        shown=ShownHost(name, "eth0", None, None, {}, ((0, 0, "0", None),)),
    )


class RestartedRun:
    """A run: `a` leads it. `at(now, there)` is a look of the leader's."""

    def __init__(self, first: str = "abc", every: str = "abcx", **more: Any) -> None:
        self.told = VoterPlan(
            run_id="20260101-000000-000001", hosts=[*every], first=[*first], places=[],
            ranks=[1] * len(first),
            restarts=3, least=len(first), lease=LEASE, kept=False, without="wait", queued=0.0,
            returns=AWAY,
            common=restart_common("20260101-000000-000001"),
            host_plans={name: host_plan(name) for name in every},
        ).replace(**more)  # fmt: skip
        self.record = RestartRecord([] if self.told.queued else [*first])
        self.mine: dict[str, HostReport] = {}
        self.kept: list[KeptCheckpoint] = []
        self.record.add(Leads("a"), 1)
        self.leader = Leader(self.told, "a", self.record, 0.0)

    def says(self, names: str, **what: Any) -> None:
        for name in names:
            state = self.mine.get(name, HostReport()).replace(**what)
            self.mine[name] = HostReport.read(state.document())  # as other hosts get it

    def at(self, now: float, there: str) -> Any:
        line: RecordLine | None = self.leader.tick(now, {*there}, self.mine)
        if line:
            read = RecordLine.read(line.document())
            assert read == line
            self.record.add(read, 1)
        return line

    def ends(self, names: str, facts: list[Fact], **more: Any) -> None:
        over = PartOver(self.record.number, False, False, facts, 100.0, "")
        self.says(names, over=over.replace(**more))

    def clears(self, names: str, checkpoints: Sequence[KeptCheckpoint] = ()) -> None:
        self.says(names, cleared=PartCleared(self.record.cleared(), 40000, [*checkpoints], []))

    def begins(self, names: str) -> None:
        self.says(names, ready=PartReady(self.record.number, 40000))

    def waits_at(
        self, names: str, *, using: Sequence[str] = (), claimed: bool = False,
        before: Sequence[int] = (), lacks: str = "",
    ) -> None:  # fmt: skip
        """`before`: the places of earlier runs."""
        runs = [QueuedRun(since, f"run-{since}", "ann") for since in before]
        self.says(names, place=QueuePlace(runs, [*using], claimed, lacks))

    def queue(self) -> str:
        """Return the one order of all hosts, or those of the hosts in order."""
        orders = [order.queue for order in self.leader.orders(self.mine).values()]
        return orders[0] if len({*orders}) == 1 else " ".join(orders)

    def ordered(self, kind: str) -> str:
        orders = self.leader.orders(self.mine)
        return "".join(name for name, order in orders.items() if getattr(order, kind))


def ended(facts: list[Fact], there: str = "abcx", told: str = "abc", **more: Any) -> RestartedRun:
    """At 104 s."""
    run = RestartedRun(**more)
    run.ends(told, facts)
    run.at(100.0, there)
    run.at(104.0, there)
    assert run.record.phase() == "clear"
    return run


def test_a_run_that_ended_well_is_done() -> None:
    run = RestartedRun()
    run.ends("b", [], well=True)
    assert run.at(100.0, "bcx") == RunEnded("done", True)
    assert run.ordered("end") == "abcx"
    assert run.at(101.0, "bcx") is None


def test_a_run_of_which_all_ranks_ended_with_0_is_done_though_a_host_was_lost_then() -> None:
    run = RestartedRun()
    run.ends("ab", [Fact(HostLost("gone"), "c")], finished=True)
    assert run.at(100.0, "bcx") is None
    run.ends("c", [], finished=True)
    assert run.at(101.0, "bcx") == RunEnded("done", True)


@pytest.mark.parametrize("lost", ["a", "b"])
def test_a_run_whose_ranks_have_ended_with_0_is_done_though_a_host_is_lost_then(lost: str) -> None:
    """While its last checkpoint is copied: the record has the end of the ranks already."""
    run = RestartedRun()
    run.says("c", succeeded=1)
    assert run.at(100.0, "bcx") == AttemptSucceeded(1)
    there = "abcx".replace(lost, "")
    assert run.at(101.0, there) is None
    run.ends("".join(there.replace("x", "")), [Fact(HostLost("gone"), lost)])
    run.leader = Leader(run.told, "c", run.record, 102.0)  # another one leads
    assert run.leader.tick(103.0, {*there}, run.mine) == RunEnded("done", True)


def test_a_run_whose_ranks_have_ended_with_0_is_done_though_all_its_hosts_are_lost_then() -> None:
    run = RestartedRun(first="b", every="abxy")
    run.says("b", succeeded=1)
    assert run.at(100.0, "bxy") == AttemptSucceeded(1)
    assert run.at(101.0, "bxy") is None  # it copies its last checkpoint
    assert run.at(110.0, "xy") == RunEnded("done", True)


def fails_from(run: RestartedRun, tail: str, seconds: float, now: float, **more: Any) -> Any:
    """The attempt that runs fails, and the next line of the record is returned."""
    run.ends("abc", [rank(tail, **more)], seconds=seconds)
    run.at(now, "abcx")
    run.at(now + 4.0, "abcx")
    run.clears("abcx", run.kept)
    looks = (run.at(now + later, "abcx") for later in range(5, 60, 5))
    return next(filter(None, looks))


def checkpoint(number: int, attempt: int = 1) -> KeptCheckpoint:
    part = CopiedPart(f"sha{attempt}.{number}", 9, 7)
    name = f"out/c-{number}"
    return KeptCheckpoint(name, (attempt, number), 4.0, {"a": part}, [part.sha])


def begun_from_checkpoints(*numbers: int, tail: str = "", seconds: float = 300.0) -> RestartedRun:
    """Attempt 2 runs, from the last of these checkpoints of attempt 1."""
    run = RestartedRun()
    run.kept = [checkpoint(number) for number in numbers]
    line = fails_from(
        run, tail, seconds, 100.0, code=1 if tail else None, signal=None if tail else 9
    )
    assert (line.attempt, line.checkpoint) == (2, f"out/c-{numbers[-1]}")
    run.begins("abc")
    run.at(180.0, "abcx")
    return run


CANNOT_READ = "FileNotFoundError: [Errno 2] No such file or directory: '/work/out/c-80/optim.json'"


def test_an_attempt_that_cannot_read_its_checkpoint_tries_the_one_before_then_the_beginning() -> (
    None
):
    run = begun_from_checkpoints(40, 80)
    run.told.host_plans["a"].asked.checkpoints = ["out/c-*"]
    line = fails_from(run, CANNOT_READ, 5.0, 200.0)
    assert (line.attempt, line.checkpoint, line.version) == (3, "out/c-40", [1, 40])
    (skipped,) = line.skipped
    assert skipped.startswith("out/c-80: rank 1 on b: FileNotFoundError")
    run.begins("abc")
    run.at(280.0, "abcx")
    run.kept.append(checkpoint(40).replace(version=(3, 0)))  # as it was laid out
    line = fails_from(run, "EOFError: Ran out of input", 5.0, 300.0)
    assert (line.attempt, line.checkpoint, len(line.skipped)) == (4, "", 2)


def test_the_error_that_ended_the_attempt_before_is_not_the_checkpoint() -> None:
    """That attempt had trained: the script fails at some step, whichever checkpoint it reads."""
    run = begun_from_checkpoints(40, 80, tail="ValueError: bad sample")
    line = fails_from(run, "ValueError: bad sample", 5.0, 200.0)
    assert isinstance(line, RunEnded) and "the same error twice" in line.why


@pytest.mark.parametrize(
    ("seconds", "how", "complete"),
    [
        (100.0, {"code": 1}, ""),
        (5.0, {"code": None, "signal": 9}, ""),
        (5.0, {"code": 1}, "out/c-9"),
    ],
)
def test_a_checkpoint_is_not_skipped_after_an_attempt_that_trained_or_was_killed(
    seconds: float, how: dict[str, Any], complete: str
) -> None:
    run = begun_from_checkpoints(40, 80)
    run.ends("abc", [rank("RuntimeError: x", **how)], seconds=seconds, complete=complete)
    run.at(200.0, "abcx")
    run.clears("abcx", run.kept)
    line = None
    for later in range(204, 260, 4):
        line = run.at(float(later), "abcx") or line
    assert line and (line.checkpoint, line.skipped) == ("out/c-80", [])


def test_all_hosts_end_what_is_left_before_the_next_attempt_begins() -> None:
    run = ended([CLOSED])
    assert run.ordered("clear") == "abcx"
    run.clears("abc")
    assert run.at(105.0, "bcx") is None  # x has not said so
    run.clears("x")
    line = run.at(106.0, "bcx")
    assert line and (line.attempt, line.hosts) == (2, ["a", "b", "c"])
    assert (run.ordered("begin"), run.ordered("hub")) == ("abc", "")
    run.begins("ab")
    assert run.at(107.0, "bcx") is None
    run.begins("c")
    assert run.at(108.0, "bcx") == AttemptRuns(2)
    assert (run.ordered("begin"), run.ordered("hub")) == ("", "abc")
    assert run.leader.orders(run.mine)["b"].hub == ("10.0.0.97", 40000)


def test_a_leader_that_follows_another_begins_with_the_record_alone() -> None:
    run = ended([CLOSED])
    run.clears("abcx")
    run.at(106.0, "bcx")
    before = run.leader.orders(run.mine)
    run.leader = Leader(run.told, "b", run.record, 200.0)
    assert run.leader.orders(run.mine) == before
    run.begins("abc")
    assert run.at(200.1, "acx") == AttemptRuns(2)


def test_a_spare_takes_the_place_of_a_lost_host_once_that_must_have_ended_its_ranks() -> None:
    run = ended([LOST], there="acx", told="ac")
    run.clears("acx")
    assert run.at(106.0, "cx") is None
    line = run.at(104.0 + FENCE, "cx")
    assert line and (line.attempt, line.hosts) == (2, ["a", "x", "c"])
    assert run.ordered("begin") == "acx"


CHECKPOINT = KeptCheckpoint("out/c-5", (1, 1), 4.0, {"a": CopiedPart("5a", 90, 7)}, ["5a"])


def test_of_hosts_that_share_a_folder_one_lays_out_the_checkpoint() -> None:
    run = ended([CLOSED])
    run.told.host_plans["b"].work = run.told.host_plans["a"].work
    run.clears("abcx", [CHECKPOINT])
    line = run.at(106.0, "bcx")
    orders = run.leader.orders(run.mine)
    lays = {name: one.begin.lay for name, one in orders.items() if one.begin}
    assert [name for name, lay in lays.items() if lay] == ["a", "c"] and "b" in lays
    assert line and (line.checkpoint, line.age) == ("out/c-5", 4.0)


def test_nothing_begins_from_a_checkpoint_before_its_holders_have_told_this_leader() -> None:
    run = ended([CLOSED])
    run.clears("abcx", [CHECKPOINT])
    run.at(106.0, "bcx")
    run.leader = Leader(run.told, "b", run.record, 200.0)
    told, run.mine = run.mine, {}
    assert run.ordered("begin") == ""
    run.mine = told
    assert run.ordered("begin") == "abc"


def test_a_host_that_is_gone_is_lost_though_no_host_noted_it() -> None:
    assert ended([], there="acx", told="ac").record.endings[-1].lost == ["b"]
    run = ended([], there="abcx", told="ac")  # the keeper of b was started again
    assert run.record.endings[-1].lost == ["b"] and run.record.endings[-1].again
    run = ended([])
    assert run.record.end and not run.record.end.well


def test_a_host_that_is_away_when_another_one_was_lost_is_named_too() -> None:
    run = ended([LOST], there="abx", told="a")
    line = run.record.endings[-1]
    assert (line.lost, line.away) == (["b"], ["c"]) and line.why.endswith(": c")


def test_an_attempt_whose_hosts_have_all_gone_has_ended() -> None:
    run = RestartedRun(first="b", every="abxy")
    assert run.at(10.0, "bxy") is None
    assert run.at(10.0 + LEASE + FENCE, "xy") is None
    line = run.at(10.1 + LEASE + FENCE, "xy")
    assert line and line.attempt == 1 and line.lost == ["b"]


def test_a_host_that_is_only_silent_has_the_lease_to_end_its_ranks() -> None:
    run = ended([CLOSED], there="acx", told="ac")
    run.clears("acx")
    assert run.at(104.0 + FENCE, "cx") is None
    line = run.at(104.1 + FENCE + LEASE, "cx")
    assert line and line.hosts == ["a", "x", "c"]


def test_the_lease_of_a_second_lost_host_began_when_it_was_heard_last() -> None:
    run = RestartedRun(every="abcxy")
    run.at(85.0, "bcxy")
    run.at(89.0, "cxy")  # b is lost, and 4 s later c
    run.ends("a", [LOST], ago=0.0)
    assert run.at(100.0, "xy") is None  # c may be back at once
    run.ends("a", [LOST], ago=4.0)
    run.at(104.0, "xy")
    run.clears("axy")
    since = 104.0
    assert run.at(since + FENCE - 0.1, "xy") is None
    heard = 100.0  # the attempt ended then
    line = run.at(heard + FENCE + LEASE, "xy")
    assert line and line.hosts == ["a", "x", "y"]


def test_a_host_that_ended_its_part_alone_is_lost_and_not_all_the_others() -> None:
    run = ended([], there="bcx", told="b")  # its keeper was frozen
    assert run.record.endings[-1].lost == ["b"] and run.record.endings[-1].again


def test_hosts_that_no_host_lost_are_waited_for_before_it_is_said_why_an_attempt_ended() -> None:
    run = RestartedRun()
    run.ends("a", [CLOSED])
    assert run.at(100.0, "") is None  # this leader was frozen: all connections ended
    run.ends("bc", [CLOSED])
    line = run.at(101.0, "bc")
    assert line and (line.lost, line.away) == ([], [])


def test_a_host_that_is_back_while_the_others_clear_takes_part() -> None:
    run = ended([LOST], there="acx", told="ac")
    run.clears("acx")
    assert run.at(106.0, "bcx") is None
    run.clears("b")
    line = run.at(106.6, "bcx")
    assert line and line.hosts == ["a", "b", "c"]


def lost_with_checkpoint(**more: Any) -> RestartedRun:
    run = RestartedRun(**more)
    run.ends("ac", [LOST], complete="out/c-5")
    for now in (100.0, 104.0):
        run.at(now, "cx")
    run.clears("acx")
    return run


def test_a_checkpoint_on_a_host_that_is_away_is_waited_for_and_never_forgotten() -> None:
    run = lost_with_checkpoint()
    assert run.at(104.0 + HOLDER - 1.0, "cx") is None
    waits = "no host in reach has out/c-5; b may come back (1 s left)"
    assert run.leader.waits == waits
    line = run.at(104.0 + HOLDER, "cx")
    assert line and "out/c-5" in line.why and not line.well
    run = lost_with_checkpoint()
    assert run.at(150.0, "cx") is None
    run.clears("b", [CHECKPOINT])
    line = run.at(150.3, "bcx")
    assert line and line.checkpoint == "out/c-5" and not run.leader.waits


def test_with_without_checkpoint_begin_it_begins_again() -> None:
    line = lost_with_checkpoint(without="begin").at(104.0 + FENCE, "cx")
    assert line and (line.checkpoint, line.away) == ("", "out/c-5")


def test_a_checkpoint_that_no_host_has_any_more_is_not_waited_for() -> None:
    run = lost_with_checkpoint()
    run.clears("b")
    line = run.at(115.0, "bcx")
    assert line and "out/c-5" in line.why


def test_too_few_hosts_wait_for_one_that_comes_back() -> None:
    run = ended([LOST], there="acx", told="ac")
    run.clears("ac")
    assert run.at(104.0 + AWAY - 1.0, "cx") is None
    assert run.leader.waits == "2 hosts are too few; others may come back (1 s left)"
    run.clears("x")
    line = run.at(104.0 + AWAY - 0.5, "cx")
    assert line and line.hosts == ["a", "x", "c"]


def test_too_few_hosts_end_the_run_after_a_while() -> None:
    run = ended([LOST], there="acx", told="ac", least=4)
    run.clears("acx")
    line = run.at(104.0 + AWAY, "cx")
    too_few = "3 hosts are too few; with --min-hosts 3 it would have gone on"
    assert line and line.why == f"b: lost; {too_few}"


def test_how_long_lost_hosts_are_waited_for_can_be_chosen() -> None:
    run = ended([LOST], there="acx", told="ac", least=4, returns=300.0)
    run.clears("acx")
    assert run.at(104.0 + 299.0, "cx") is None
    line = run.at(104.0 + 300.0, "cx")
    assert line and "too few" in line.why


def begun() -> RestartedRun:
    run = ended([CLOSED])
    run.clears("abcx")
    run.at(106.0, "bcx")
    assert run.record.phase() == "begin"
    return run


def test_an_attempt_that_never_had_a_rank_uses_up_no_restart() -> None:
    run = begun()
    run.says("b", failed=PartFailed(2, "a full disk"))
    line = run.at(107.0, "bcx")
    assert line and (line.attempt, line.ran, line.lost) == (2, False, ["b"])
    assert run.record.used() == 0 and "a full disk" in line.why


@pytest.mark.parametrize(("there", "now"), [("acx", 107.0), ("bcx", 106.1 + BEGIN)])
def test_a_host_that_goes_or_is_late_before_it_begins_is_lost(there: str, now: float) -> None:
    run = begun()
    assert run.at(106.05, "bcx") is None
    run.begins("ac")
    line = run.at(now, there)
    assert line and (line.ran, line.lost) == (False, ["b"])


def test_a_host_that_could_not_begin_is_chosen_only_where_there_is_no_other() -> None:
    run = begun()
    run.says("b", failed=PartFailed(2, "no guardian"))
    run.at(107.0, "bcx")
    run.clears("abcx")
    line = run.at(160.0, "bcx")
    assert line and line.hosts == ["a", "x", "c"]
    run.says("x", failed=PartFailed(3, "a full disk"))
    run.at(161.0, "bcx")
    run.clears("abcx")
    line = run.at(260.0, "bcx")
    assert line and line.hosts == ["a", "x", "c"] and "a full disk" in line.why


def test_attempts_that_never_begin_have_an_end() -> None:
    run = begun()
    for attempt in range(2, 20):
        run.says("a", failed=PartFailed(attempt, "a full disk"))
        run.at(1000.0 * attempt, "bcx")
        run.clears("abcx")
        run.at(1000.0 * attempt + 100.0, "bcx")
        run.at(1000.0 * attempt + 101.0, "bcx")
        if run.record.end:
            break
    assert run.record.end and "no attempt began" in run.record.end.why


def test_the_number_of_restarts_is_limited() -> None:
    run = ended([LOST], there="ac", told="ac", restarts=0)  # no wait for others to come back
    assert run.record.end and "started without --restarts" in run.record.end.why


def test_a_run_that_a_user_stops_is_not_started_again() -> None:
    run = RestartedRun()
    run.says("b", stop="me")
    assert run.at(10.0, "bcx") == StopNoted("me")
    assert run.at(10.3, "bcx") is None  # its hub ends what runs
    run.ends("abc", [CLOSED])
    run.at(11.0, "bcx")
    assert run.at(11.3, "bcx") == RunEnded("stopped by me", False, by_user=True)
    between = ended([CLOSED])
    between.says("x", stop="me")
    between.at(104.5, "bcx")
    assert between.at(104.8, "bcx") == RunEnded("stopped by me", False, by_user=True)


@pytest.mark.parametrize("queued", [0.0, 5.0])
def test_no_rank_starts_after_a_user_has_stopped_the_run(queued: float) -> None:
    """The stop arrives while an attempt begins, the first of a queued run or a later one: no host
    may have its supervisor yet, which could be asked to end it."""
    run = RestartedRun(queued=queued) if queued else ended([CLOSED])
    run.waits_at("abcx", claimed=True)
    run.clears("abcx")
    assert isinstance(run.at(105.0, "bcx"), AttemptBegins) and run.ordered("begin") == "abc"
    run.says("b", stop="me")
    assert run.at(105.3, "bcx") == StopNoted("me")
    assert (run.ordered("begin"), run.ordered("hub")) == ("", "")
    run.begins("abc")  # its supervisors came up meanwhile
    line = run.at(105.6, "bcx")
    assert isinstance(line, AttemptEnded) and not line.ran and not line.again
    assert run.ordered("hub") == ""
    assert run.at(105.9, "bcx") == RunEnded("stopped by me", False, by_user=True)
    assert run.ordered("end") == "abcx"


def test_the_orders_of_a_host_that_is_back() -> None:
    run = RestartedRun(places=[("a", "10.0.0.97", 1), ("b", "10.0.0.98", 2)])
    found = {name: run.leader.make_returned_order(name) for name in "bcz"}
    assert found["b"].restart_plan == run.told.document()
    assert found["c"].spare is True and found["c"].returned is True
    assert not {"host_plans", "common"} & found["c"].document()["restart_plan"].keys()
    assert found["z"] is None


def test_a_host_that_comes_late_has_time_to_end_what_is_left() -> None:
    run = RestartedRun(every="abcxy")
    run.ends("ac", [LOST])
    for now in (100.0, 104.0):
        run.at(now, "cy")
    run.clears("ac")
    late = 104.0 + CLEAR + 1.0
    run.at(late - 2.0, "cy")
    assert run.at(late, "cxy") is None  # y is slow, and x has just come
    run.clears("xy")
    line = run.at(late + 0.3, "cxy")
    assert line and line.hosts == ["a", "x", "c"]


def test_reports_are_gathered_for_a_while() -> None:
    run = RestartedRun()
    run.ends("a", [])
    run.at(100.0, "bcx")
    assert run.at(100.0 + GATHER, "bcx") is None
    run.ends("c", [CLOSED])
    line = run.at(100.1 + GATHER, "bcx")
    assert line and "closed" in line.why


def test_a_queued_run_begins_when_it_has_its_cores_on_all_hosts() -> None:
    run = RestartedRun(queued=5.0)
    run.waits_at("ab")
    assert (run.at(1.0, "bcx"), run.queue()) == (None, "")  # the others may report at once
    assert (run.at(4.0, "bcx"), run.queue()) == (None, "left")
    away = "not reached: c, x, so later runs go first"
    assert run.leader.waits == f"place 1 in the queue; {away}"
    run.waits_at("cx")
    assert (run.at(5.0, "bcx"), run.queue()) == (None, "claims")
    run.waits_at("abc", claimed=True)
    assert run.at(6.0, "bcx") is None
    run.waits_at("x", claimed=True)
    line = run.at(7.0, "bcx")
    assert line and (line.attempt, line.hosts) == (1, ["a", "b", "c"])
    assert (run.ordered("begin"), run.queue()) == ("abc", "claims")


def test_a_queued_run_gives_its_cores_up_if_another_one_was_faster_on_a_host() -> None:
    run = RestartedRun(queued=5.0)
    run.waits_at("abcx")
    run.at(1.0, "bcx")
    run.waits_at("abx", claimed=True)
    run.waits_at("c", using=["run-7 of ann"])
    assert (run.at(2.0, "bcx"), run.queue()) == (None, "waits")
    assert run.leader.waits == "place 1 in the queue; on its cores: run-7 of ann"


def any_of(count: int, **more: Any) -> RestartedRun:
    """A queued run that needs so many of the hosts a, b, c, d."""
    run = RestartedRun("abcd", "abcd", queued=5.0, ranks=[1] * count, **more)
    run.waits_at("abcd")
    return run


def test_a_queued_run_takes_the_first_hosts_that_are_free_and_gives_the_others_up() -> None:
    run = any_of(2)
    run.waits_at("ac", using=["run-7 of ann"])
    assert (run.at(1.0, "bcd"), run.queue()) == (None, "waits claims waits claims")
    run.waits_at("b", claimed=True)
    run.waits_at("a")  # another host is free now: those that it claims stay
    assert (run.at(2.0, "bcd"), run.queue()) == (None, "waits claims waits claims")
    run.waits_at("d", claimed=True)
    line = run.at(3.0, "bcd")
    assert line and line.hosts == ["b", "d"]
    assert (run.ordered("begin"), run.queue()) == ("bd", "left claims left claims")


def test_a_queued_run_that_was_not_the_fastest_on_a_host_takes_another_one() -> None:
    run = any_of(1)
    run.at(1.0, "bcd")
    assert run.queue() == "claims waits waits waits"
    run.waits_at("a", using=["run-7 of ann"])
    assert (run.at(2.0, "bcd"), run.queue()) == (None, "waits claims waits waits")
    run.waits_at("b", claimed=True)
    line = run.at(3.0, "bcd")
    assert line and line.hosts == ["b"]


def test_a_queued_run_waits_on_all_its_hosts_while_too_few_are_free() -> None:
    run = any_of(2)
    run.waits_at("ab", using=["run-7 of ann"])
    run.waits_at("c", before=[4, 3])
    run.waits_at("d")
    assert (run.at(1.0, "bcd"), run.queue()) == (None, "waits")
    assert run.leader.waits == (
        "place 3 in the queue; before it: run-3 of ann, run-4 of ann; on its cores: run-7 of ann"
    )


def test_hosts_that_are_away_or_lack_the_environment_are_left_out() -> None:
    run = any_of(2)
    run.waits_at("b", lacks="its environment was removed")
    assert (run.at(4.0, "bd"), run.queue()) == (None, "claims left left claims")
    run = any_of(3)
    run.waits_at("b", lacks="its environment was removed")
    assert (run.at(4.0, "bd"), run.queue()) == (None, "left")  # later runs go first
    away = "not reached: c, so later runs go first; b: its environment was removed"
    assert run.leader.waits == f"place 1 in the queue; {away}"


def test_a_queued_run_does_not_wait_for_a_host_that_it_does_not_need() -> None:
    run = any_of(2)
    run.waits_at("ab", using=["run-7 of ann"])
    assert (run.at(4.0, "bd"), run.queue()) == (None, "waits waits left waits")
    assert run.leader.waits == "place 1 in the queue; on its cores: run-7 of ann"


def test_a_queued_run_that_could_not_begin_on_a_host_takes_another_one() -> None:
    run = any_of(1, restarts=0)
    run.waits_at("a", claimed=True)
    assert run.at(1.0, "bcd")
    assert run.ordered("begin") == "a"
    run.says("a", failed=PartFailed(1, "no space"))
    run.at(2.0, "bcd")
    run.clears("bcd")
    assert run.at(3.0, "bcd") is None  # a may have ranks
    run.clears("a")
    assert (run.at(4.0, "bcd"), run.queue()) == (None, "left claims waits waits")
    run.waits_at("b", claimed=True)
    line = run.at(5.0, "bcd")
    assert line and (line.attempt, line.hosts, line.why) == (2, ["b"], "a: no space")
    run.begins("b")
    assert run.at(6.0, "bcd") == AttemptRuns(2)


def test_a_queued_run_that_no_host_can_begin_is_over() -> None:
    run = any_of(4, restarts=0)
    run.waits_at("abcd", claimed=True)
    run.at(1.0, "bcd")
    run.says("a", failed=PartFailed(1, "no space"))
    run.at(2.0, "bcd")
    run.clears("abcd")
    line = run.at(3.0, "bcd")
    assert isinstance(line, RunEnded) and line.why.startswith("a: no space")


def test_a_queued_run_that_is_stopped_ends_without_an_attempt() -> None:
    run = RestartedRun(queued=5.0)
    run.waits_at("abcx")
    run.says("b", stop="bob")
    assert run.at(1.0, "bcx") == StopNoted("bob")
    assert run.at(2.0, "bcx") == RunEnded("stopped by bob", False, by_user=True)
    assert run.ordered("end") == "abcx"


def test_the_first_attempt_of_a_queued_run_may_be_followed_by_others() -> None:
    run = RestartedRun(queued=5.0)
    run.waits_at("abcx", claimed=True)
    run.at(1.0, "bcx")
    run.begins("abc")
    assert run.at(2.0, "bcx") == AttemptRuns(1)
    run.ends("abc", [CLOSED])
    run.at(100.0, "bcx")
    run.at(104.0, "bcx")
    run.clears("abcx")
    line = run.at(105.0, "bcx")
    assert line and (line.attempt, line.hosts) == (2, ["a", "b", "c"])
