"""When the hub looks at ranks without progress, and what follows from a look. Time is a number."""

from __future__ import annotations

import pytest

from ipexctl.common import hub_orders, run_events
from ipexctl.remote.hub.judge import Judge
from tests.hub.test_judge import WELL, ends, facts, run, taken, up


def quiet(judge: Judge, now: float, since: float = 1.0, hosts: str = "abc") -> None:
    for host in hosts:
        judge.take(host, run_events.Quiet(seconds=now - since), now)
    judge.tick(now)


def looks(judge: Judge) -> list[str]:
    return [host for host, order in taken(judge) if isinstance(order, hub_orders.Look)]


def looked(judge: Judge, now: float, computes: str = "", hosts: str = "abc") -> None:
    number = judge.stall.number
    for host in hosts:
        judge.take(host, run_events.LookDone(number, host in computes), now)
    judge.tick(now)


def stalled() -> Judge:
    judge = up()
    quiet(judge, 47.0)
    looked(judge, 48.5)
    return judge


def test_hosts_look_when_all_ranks_are_quiet_for_the_limit() -> None:
    judge = up()
    quiet(judge, 40.0)
    assert looks(judge) == []
    quiet(judge, 47.0)
    assert looks(judge) == ["a", "b", "c"]
    quiet(judge, 48.0)
    assert looks(judge) == []
    looked(judge, 48.5)
    assert facts(judge) == ["Stalled"] and judge.facts[0].event.seconds > 45
    quiet(judge, 99.0)
    assert facts(judge) == ["Stalled"] and looks(judge) == []


def test_one_host_with_progress_keeps_the_run_going() -> None:
    judge = up()
    judge.take("b", run_events.Quiet(seconds=0.0), 46.0)
    quiet(judge, 47.0, hosts="ac")
    assert looks(judge) == []


def test_a_rank_that_computes_is_no_stall_and_the_next_look_comes_later() -> None:
    judge = up()
    quiet(judge, 47.0)
    assert looks(judge)
    looked(judge, 48.0, computes="b")
    assert facts(judge) == []
    quiet(judge, 80.0)
    assert looks(judge) == []
    quiet(judge, 100.0)
    assert looks(judge) == ["a", "b", "c"]
    looked(judge, 101.0)
    assert facts(judge) == ["Stalled"]


def test_a_host_that_does_not_look_is_not_waited_for() -> None:
    judge = up()
    quiet(judge, 47.0)
    looked(judge, 48.0, hosts="ab")
    assert facts(judge) == []
    judge.tick(51.5)
    assert facts(judge) == ["Stalled"]


def test_progress_ends_a_stall_and_a_second_one_is_reported() -> None:
    judge = stalled()
    judge.take("b", run_events.Quiet(seconds=0.0), 60.0)
    judge.tick(60.0)
    assert facts(judge) == ["Stalled", "Moving"]
    taken(judge)
    quiet(judge, 110.0, since=60.0)
    assert looks(judge) == ["a", "b", "c"]
    looked(judge, 111.0)
    assert facts(judge) == ["Stalled", "Moving", "Stalled"]


def test_the_end_of_a_rank_is_progress() -> None:
    """Ranks that end one after the other, after a long wait of all."""
    judge = up()
    quiet(judge, 40.0)
    ends(judge, 2, WELL, 46.0)
    taken(judge)
    quiet(judge, 47.0, hosts="ac")
    assert looks(judge) == []
    quiet(judge, 92.0, hosts="ac")
    assert looks(judge) == ["a", "c"]


@pytest.mark.parametrize("limit", [0.0, 45.0])
def test_a_run_that_is_stopped_while_quiet_is_looked_at_first(limit: float) -> None:
    judge = up()
    judge.stall.limit = judge.stall.due = limit
    quiet(judge, 30.0)
    judge.ask_to_end("Ctrl-C", 10.0, 30.5)
    judge.tick(30.5)
    assert [order for _, order in taken(judge)] == [hub_orders.Look(1)] * 3
    looked(judge, 31.8)
    assert facts(judge) == ["EndAsked", "Stalled"]
    assert [order.signal for _, order in taken(judge)] == [2, 2, 2]
    assert judge.deadline == 41.8


def test_progress_during_the_last_look_does_not_lose_the_stop() -> None:
    judge = up()
    quiet(judge, 30.0)
    judge.ask_to_end("Ctrl-C", 10.0, 30.5)
    taken(judge)
    judge.take("a", run_events.Quiet(seconds=0.0), 31.0)
    judge.tick(32.6)
    assert [order.signal for _, order in taken(judge)] == [2, 2, 2]
    assert facts(judge) == ["EndAsked"]


def test_a_second_request_ends_the_run_during_the_last_look() -> None:
    judge = up()
    quiet(judge, 30.0)
    for now in (30.5, 30.6):
        judge.ask_to_end("Ctrl-C", 10.0, now)
    judge.tick(30.7)
    assert judge.over


def test_a_run_with_progress_gets_its_signal_at_once() -> None:
    judge = up()
    quiet(judge, 5.0)
    judge.ask_to_end("Ctrl-C", 10.0, 5.5)
    assert [order.signal for _, order in taken(judge)] == [2, 2, 2]


def test_stall_action_stop_ends_the_run() -> None:
    asked = run()
    asked.stall_action = "stop"
    judge = Judge(asked, 0.0)
    for host in "abc":
        judge.take(host, run_events.Ready(port=0), 0.0)
    for host, rank in (("a", 0), ("a", 1), ("b", 2), ("c", 3)):
        judge.take(host, run_events.RankStarted(rank, 7), 1.0)
    quiet(judge, 47.0)
    looked(judge, 48.0)
    assert facts(judge)[-1] == "Stalled"
    judge.tick(50.5)
    assert facts(judge)[-2:] == ["Stalled", "EndAsked"]
    assert any(isinstance(order, hub_orders.SignalRanks) for _, order in taken(judge))
