"""What a run does next: the hub's judge, by itself. It has no clock, so time here is a number."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ipexctl.common import hub_orders, run_events
from ipexctl.common.run_orders import HostOfRun, HubOrder, MpiNames
from ipexctl.remote.hub.judge import Judge

RANKS = {"a": [0, 1], "b": [2], "c": [3]}
WELL, BAD = run_events.Exit(0), run_events.Exit(3)


def run(*, mpi: bool = False, timeout: float | None = None) -> HubOrder:
    hosts = [
        HostOfRun(name, name, "/p", "e", "/p/bin", ranks, ["start", name], name)
        for name, ranks in RANKS.items()
    ]
    return HubOrder(
        hosts=hosts, mpirun=["mpirun"] if mpi else [],
        mpi=MpiNames(["hydra_pmi_proxy"], [], True) if mpi else None,
        timeout=timeout, stall=45.0, stall_action="note", grace=10.0, lives_on=False, address="a",
    )  # fmt: skip


def taken(judge: Judge) -> list[tuple[str, hub_orders.HostOrder]]:
    orders, judge.orders = judge.orders, []
    for _, order in orders:
        assert hub_orders.HostOrder.read(order.document()) == order
    return orders


def facts(judge: Judge) -> list[str]:
    return [type(fact.event).__name__ for fact in judge.facts]


def ready(judge: Judge, now: float = 0.0) -> None:
    for host in RANKS:
        judge.take(host, run_events.Ready(port=0), now)


def started(judge: Judge, now: float = 1.0) -> None:
    for host, ranks in RANKS.items():
        for rank in ranks:
            judge.take(host, run_events.RankStarted(rank, 7), now)


def ends(judge: Judge, rank: int, how: run_events.Exit, now: float) -> None:
    host = next(h for h, ranks in RANKS.items() if rank in ranks)
    judge.take(host, run_events.RankExited(rank, how), now)


def up(**more: Any) -> Judge:
    judge = Judge(run(**more), 0.0)
    ready(judge)
    started(judge)
    judge.orders.clear()
    judge.facts.clear()
    return judge


def test_nothing_starts_before_every_host_is_ready() -> None:
    judge = Judge(run(), 0.0)
    judge.take("a", run_events.Ready(port=0), 0.0)
    judge.take("b", run_events.Ready(port=0), 0.0)
    assert taken(judge) == []
    judge.take("c", run_events.Ready(port=0), 0.0)
    assert taken(judge) == [
        (host, hub_orders.Spawn(f"daemon{n}", ["start", host])) for n, host in enumerate("abc", 1)
    ]


def test_with_mpi_only_mpirun_is_started_and_daemons_where_it_wants_them() -> None:
    judge = Judge(run(mpi=True), 0.0)
    ready(judge)
    assert taken(judge) == [("a", hub_orders.Spawn("mpirun", ["mpirun"]))]
    argv = ["-q", "-x", "b", "/p/bin//hydra_pmi_proxy", "--pgid", "0"]
    judge.take("a", run_events.Launch(key=1, argv=argv), 0.0)
    command = ["/p/bin/hydra_pmi_proxy", "--pgid", "0"]
    assert taken(judge) == [("b", hub_orders.Spawn("daemon1", command))]
    judge.take("a", run_events.Unlaunch(key=1), 1.0)
    assert taken(judge) == [("b", hub_orders.Kill("daemon1"))]
    judge.take("b", run_events.Exited(key="daemon1", code=0), 1.0)
    assert ("a", hub_orders.LaunchEnded(1, 0)) in taken(judge)


@pytest.mark.parametrize("argv", [["-x", "b", "/bin/sh"], []])
def test_another_launch_is_refused_and_told(argv: list[str]) -> None:
    judge = up(mpi=True)
    judge.take("a", run_events.Launch(key=1, argv=argv), 0.0)
    ((to, order),) = taken(judge)
    assert isinstance(order, hub_orders.LaunchRefused)
    assert (to, order.key, facts(judge)) == ("a", 1, ["Noted"])


def test_a_run_whose_ranks_all_end_well_is_over_with_mpirun() -> None:
    judge = up(mpi=True)
    for rank in range(4):
        ends(judge, rank, WELL, 5.0)
    assert ("c", hub_orders.RankNoted(3)) in taken(judge)
    judge.tick(5.0)
    assert not judge.over
    judge.take("a", run_events.Exited(key="mpirun", code=0), 5.1)
    judge.tick(5.1)
    assert (judge.over, judge.is_success()) == ("ended", True)
    assert facts(judge) == [*["RankExited"] * 4, "RanksSucceeded"]


def test_after_a_failure_the_others_have_a_moment_and_are_not_told_to_go() -> None:
    judge = up()
    ends(judge, 2, BAD, 5.0)
    assert taken(judge) == []
    judge.tick(7.9)
    assert not judge.over
    judge.tick(8.0)
    assert (judge.over, judge.is_success()) == ("ended", False)


def test_nothing_that_a_killed_rank_wrote_becomes_a_checkpoint() -> None:
    """What does not change any more may be half a file."""
    judge = up()
    for rank in range(3):
        ends(judge, rank, WELL, 5.0)
    assert not judge.has_failed()
    ends(judge, 3, BAD, 5.0)
    assert judge.has_failed()
    judge = up()
    judge.record_lost_host("b", "gone", 5.0)
    assert judge.has_failed()


def test_ctrl_c_gives_time_and_the_second_one_none() -> None:
    judge = up()
    judge.ask_to_end("Ctrl-C", 10.0, 5.0)
    assert taken(judge) == [(h, hub_orders.SignalRanks(2, "Ctrl-C")) for h in RANKS]
    ends(judge, 0, BAD, 6.0)  # by KeyboardInterrupt: the others keep their time
    judge.tick(14.9)
    assert not judge.over
    judge.ask_to_end("Ctrl-C", 10.0, 14.9)
    judge.tick(14.9)
    assert (judge.over, facts(judge)) == ("ended", ["EndAsked", "RankExited"])


def test_ipexctl_stop_asks_on_every_host_and_that_is_one_wish() -> None:
    judge = up()
    for host in RANKS:
        judge.take(host, run_events.StopAsked(by="ann", seconds=5.0), 5.0)
    judge.tick(9.9)
    assert (judge.over, facts(judge)) == ("", ["EndAsked"])
    judge.take("b", run_events.StopAsked(by="ann", seconds=0.0), 9.9)
    judge.tick(9.9)
    assert judge.over


def test_a_run_that_was_stopped_before_all_were_ready_does_not_start() -> None:
    judge = Judge(run(), 0.0)
    judge.take("a", run_events.Ready(port=0), 0.0)
    judge.ask_to_end("Ctrl-C", 10.0, 1.0)
    taken(judge)
    for host in ("b", "c"):
        judge.take(host, run_events.Ready(port=0), 1.0)
    judge.tick(1.0)
    assert (taken(judge), judge.over) == ([], "ended")


def test_the_time_limit_is_the_runs_own() -> None:
    judge = up(timeout=60.0)
    judge.tick(60.0)
    assert facts(judge) == []
    judge.tick(60.1)
    judge.tick(61.0)
    assert facts(judge) == ["TimedOut"]
    judge.tick(70.2)
    assert judge.over


def test_a_message_that_no_host_sends_the_hub_costs_its_host_and_not_the_hub() -> None:
    judge = up()
    judge.take("b", run_events.Pong(), 5.0)
    assert [(type(fact.event), fact.host) for fact in judge.facts] == [(run_events.HostLost, "b")]
    judge.take("b", run_events.RankExited(2, WELL), 5.0)
    assert len(judge.facts) == 1  # it is not heard any more
    judge.tick(6.0)
    assert judge.over


EVENTS = st.one_of(
    st.builds(lambda r: ("rank", r, WELL), st.integers(0, 4)),
    st.builds(lambda r: ("rank", r, BAD), st.integers(0, 4)),
    st.builds(lambda r: ("frozen", r, None), st.integers(0, 3)),
    st.sampled_from([("lost", "b", None), ("ask", "", None), ("mpirun", "", None)]),
)


@settings(max_examples=300)
@given(st.lists(st.tuples(EVENTS, st.floats(0, 5))), st.booleans())
def test_every_run_ends_and_none_with_a_failure_is_well(events: Any, mpi: bool) -> None:
    """Whatever comes in whatever order: one that failed, was lost or stopped is not called well,
    and once something has happened it is over at the latest after the longest of the limits."""
    judge, now = up(mpi=mpi), 1.0
    for (kind, what, how), wait in events:
        now += wait
        if kind == "rank":
            ends(judge, min(what, 3), how, now)
        elif kind == "lost":
            judge.record_lost_host(what, "why", now)
        elif kind == "ask":
            judge.ask_to_end("x", 10.0, now)
        elif kind == "mpirun":
            judge.take("a", run_events.Exited(key="mpirun", code=1), now)
        else:
            host = next(h for h, ranks in RANKS.items() if what in ranks)
            judge.take(host, run_events.RankFrozen(rank=what, seconds=30), now)
        judge.tick(now)
    failed = any(not well for well in judge.ended.values())
    assert not (failed and judge.is_success())
    if judge.decided or judge.all_ended():
        judge.tick(now + 20.0)
        assert judge.over


def launch(judge: Judge, key: int, host: str) -> None:
    argv = ["-q", "-x", host, "/p/bin//hydra_pmi_proxy", "--usize", "-1"]
    judge.take("a", run_events.Launch(key=key, argv=argv), 0.5)


def test_a_process_of_mpi_that_was_killed_is_named_though_mpirun_says_nothing() -> None:
    """mpirun ends its daemons then, and waits."""
    judge = Judge(run(mpi=True), 0.0)
    ready(judge)
    launch(judge, 1, "b")
    started(judge)
    judge.take("a", run_events.Unlaunch(key=1), 5.0)
    ended = run_events.Exited(key="daemon1", code=-9, asked=True).document()
    judge.take("b", run_events.Event.read(json.loads(json.dumps(ended))), 5.1)
    judge.tick(5.2)
    assert facts(judge)[-1] != "ProgramEnded"
    judge.tick(9.0)
    event = judge.facts[-1].event
    assert isinstance(event, run_events.ProgramEnded) and event.who == "a process of MPI on a"
    assert judge.over


def test_a_wrapper_that_vanished_waits_for_mpirun_which_may_have_been_killed() -> None:
    judge = Judge(run(mpi=True), 0.0)
    ready(judge)
    started(judge)
    for rank in range(4):
        ends(judge, rank, run_events.Exit(None, lost=True), 5.0)
    judge.tick(5.1)
    assert not judge.over
    judge.take("a", run_events.Exited(key="mpirun", code=137), 5.5)
    judge.tick(5.6)
    assert (judge.over, facts(judge)[-1]) == ("ended", "ProgramEnded")
