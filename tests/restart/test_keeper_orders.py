"""What a keeper does that gets the orders of a leader, which come again and again."""

from __future__ import annotations

import types
from typing import Any

import pytest

from ipexctl.common.attempt_record import AttemptBegins, AttemptRuns, RecordLine, RunEnded
from ipexctl.common.keeper_messages import BeginPart, KeeperOrder, PartCleared
from ipexctl.remote.restart.host_part import HostPart
from ipexctl.remote.restart.keeper import Keeper
from ipexctl.remote.restart.record import RestartRecord
from tests.made import start_order

BEGIN = BeginPart(start_order(run_id="20260101-000000-000001-r02", host="node02"), None)
END = RunEnded("done", True)
RECORD: list[RecordLine] = [AttemptBegins(1, ["node01", "node02"]), AttemptRuns(1)]


class Hosts:
    """A keeper of node02 that notes what it does."""

    def __init__(self, attempt: int = 1, cleared: int = 0) -> None:
        self.done: list[object] = []
        written = lambda document: self.done.append(document["kind"])  # noqa: E731
        part: Any = types.SimpleNamespace(attempt=attempt, joined=False, write=written)
        clear = PartCleared(cleared, 0, [], []) if cleared else None
        host: Any = types.SimpleNamespace(
            part=part, clearing=0, report=types.SimpleNamespace(cleared=clear),
            end=lambda why: self.done.append(why),
            begin=lambda begin, number: self.done.append(("begin", number)),
        )  # fmt: skip
        for name in ("has_cleared", "clear", "is_before", "join_hub"):
            setattr(host, name, types.MethodType(getattr(HostPart, name), host))
        self.keeper: Any = types.SimpleNamespace(
            term=3, led=0.0, alone=True, over=False, record=RestartRecord(["node01", "node02"]),
            host=host, queue=None, is_leader=lambda: False,
        )  # fmt: skip

    def gets(self, order: KeeperOrder, term: int = 3, lines: list[RecordLine] = RECORD) -> Any:
        for _ in range(3):  # a leader repeats itself
            Keeper.obey(self.keeper, order, term, lines)
        return self.keeper


def test_the_order_of_an_earlier_leader_is_not_obeyed() -> None:
    hosts = Hosts()
    keeper = hosts.gets(KeeperOrder(1, 0, end=END), term=2)
    assert (hosts.done, keeper.alone, keeper.over) == ([], True, False)
    keeper = hosts.gets(KeeperOrder(1, 0), term=4)
    assert (keeper.term, keeper.alone, keeper.record.lines) == (4, False, RECORD)


def test_a_part_ends_once_for_the_next_attempt() -> None:
    hosts = Hosts()
    hosts.gets(KeeperOrder(1, 1))
    assert hosts.done == ["the next attempt"]
    cleared = Hosts(cleared=1)
    cleared.gets(KeeperOrder(1, 1))
    assert cleared.done == []


@pytest.mark.parametrize(("attempt", "starts"), [(1, True), (2, False), (3, False)])
def test_an_attempt_that_runs_here_is_not_started_again(attempt: int, starts: bool) -> None:
    hosts = Hosts(attempt, cleared=1)
    Keeper.obey(hosts.keeper, KeeperOrder(2, 1, begin=BEGIN), 3, RECORD)
    assert hosts.done == [("begin", 2)] * starts


def test_a_part_is_told_once_where_its_hub_is_and_not_that_of_another_attempt() -> None:
    hosts = Hosts(2, cleared=1)
    hosts.gets(KeeperOrder(2, 1, hub=("10.0.0.1", 4000)))
    assert hosts.done == ["HubAt"]
    earlier = Hosts(1, cleared=1)
    earlier.gets(KeeperOrder(2, 1, hub=("10.0.0.1", 4000)))
    assert earlier.done == []


def test_the_end_of_the_run_ends_the_part_and_the_keeper_but_not_the_leaders() -> None:
    hosts = Hosts()
    assert hosts.gets(KeeperOrder(1, 0, end=END)).over
    assert set(hosts.done) == {"the run has ended"}
    leading = Hosts()
    leading.keeper.is_leader = lambda: True  # it waits for the others to hear of the end
    assert not leading.gets(KeeperOrder(1, 0, end=END)).over
