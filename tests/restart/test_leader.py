"""The keeper that leads: what it orders, and when. Time is a number."""

from __future__ import annotations

from typing import Any

import pytest

from ipexctl.remote.restart.leader import ALONE, AWAY, CLEAR, FENCE, MEET, Leader
from tests.restart.test_restart_policy import LOST, rank

LEASE = 15.0


def sheet(name: str) -> dict[str, Any]:
    one = {"rank": 0, "local_rank": 0, "env": {}, "argv": ["python3", "train.py"]}
    return {
        "asked": {"host": name, "cwd": "/work", "ranks": [one], "starts": []},
        "work": name,
        "row": {"host": name, "ranks": [0], "starter": ["sh", "0:0"]},
        "mpirun": [],
        "line": "",
        "address": f"10.0.0.{ord(name)}",
        "port": 20000,
        "shown": {"name": name, "ranks": [[0, 0, "0", None]]},
    }


def leader(first: str = "abc", every: str = "abcx", **more: Any) -> Leader:
    night = {
        "run_id": "run-1",
        "hosts": [*every],
        "first": [*first],
        "restarts": 3,
        "least": len(first),
        "lease": LEASE,
        "kept": False,
        "common": {
            "run_id": "run-1", "about": {}, "of_all": {}, "shown": {}, "varies": {"RANK": "rank"},
            "resume": [], "resumed": "",
        },
        "sheets": {name: sheet(name) for name in every},
        **more,
    }  # fmt: skip
    return Leader(night, "a", [{"attempt": 1, "hosts": [*first], "run_id": "run-1"}], 0.0)


def tick(leads: Leader, now: float, there: set[str]) -> None:
    """As if it had looked all the time."""
    leads.ticked = now
    leads.tick(now, there)


def taken(leads: Leader) -> list[tuple[str, dict[str, Any]]]:
    """But that it leads."""
    orders, leads.orders = leads.orders, []
    return [(name, order) for name, order in orders if "leads" not in order]


def hosts(orders: list[tuple[str, dict[str, Any]]], kind: str) -> str:
    return "".join(name for name, order in orders if kind in order)


def over(facts: list[dict[str, Any]], *, well: bool = False, attempt: int = 1) -> dict[str, Any]:
    return {"over": attempt, "well": well, "facts": facts, "seconds": 100.0, "ago": 0.0}


def cleared(leads: Leader, names: str, now: float, attempt: int = 1) -> None:
    for name in names:
        leads.take(name, {"cleared": attempt, "checkpoints": [], "open": []}, now)


def ended(facts: list[dict[str, Any]], there: str = "abcx", reports: str = "abc") -> Leader:
    leads = leader()
    for name in reports:
        leads.take(name, over(facts), 100.0)
    tick(leads, 100.0, {*there})
    tick(leads, 104.0, {*there})
    return leads


def test_a_run_that_ended_well_is_done() -> None:
    leads = leader()
    leads.take("b", over([], well=True), 100.0)
    tick(leads, 100.0, {*"bcx"})
    tick(leads, 100.3, {*"bcx"})
    assert leads.over and leads.well
    assert hosts(taken(leads), "done") == "abcx"


def test_all_hosts_end_what_is_left_before_the_next_attempt_begins() -> None:
    leads = ended([rank("RuntimeError: closed")])
    assert hosts(taken(leads), "clear") == "abcx"
    cleared(leads, "abc", 105.0)
    tick(leads, 105.0, {*"bcx"})
    assert taken(leads) == []  # x has not said so
    cleared(leads, "x", 106.0)
    tick(leads, 106.0, {*"bcx"})
    orders = taken(leads)
    assert (hosts(orders, "story"), hosts(orders, "start")) == ("abcx", "abc")
    for name in "abc":
        leads.take(name, {"ready": 2, "port": 40000}, 108.0)
    assert taken(leads) == [(name, {"hub": ["10.0.0.97", 40000]}) for name in "abc"]
    assert (leads.state, leads.attempt) == ("watch", 2)


def test_a_spare_takes_the_place_of_a_lost_host_once_that_must_have_ended_its_ranks() -> None:
    leads = ended([LOST], there="acx", reports="ac")
    taken(leads)
    cleared(leads, "acx", 105.0)
    tick(leads, 106.0, {*"cx"})
    assert taken(leads) == []
    tick(leads, 104.0 + FENCE, {*"cx"})
    orders = taken(leads)
    assert hosts(orders, "start") == "axc"
    story = next(order["story"] for _, order in orders if "story" in order)
    assert (story["attempt"], story["hosts"]) == (2, ["a", "x", "c"])


def test_of_hosts_that_share_a_folder_one_lays_out_the_checkpoint() -> None:
    leads = ended([rank("RuntimeError: closed")])
    leads.night["sheets"]["b"]["work"] = leads.night["sheets"]["a"]["work"]
    parts = {"a": {"sha": "5a", "list": 90}}
    told = {"name": "out/c-5", "order": [1, 1], "age": 3.0, "parts": parts, "held": ["5a"]}
    for name in "abcx":
        said = {"cleared": 1, "checkpoints": [told], "open": [], "port": 40000}
        leads.take(name, said, 105.0)
    taken(leads)
    tick(leads, 106.0, {*"bcx"})
    orders = taken(leads)
    lays = {name: order["lay"] for name, order in orders if "start" in order}
    assert [name for name, lay in lays.items() if lay] == ["a", "c"] and "b" in lays
    story = next(order["story"] for _, order in orders if "story" in order)
    assert story["age"] == 4.0  # as old as it is when the attempt starts


def test_a_host_that_is_gone_is_lost_though_no_host_noted_it() -> None:
    leads = ended([], there="acx", reports="ac")
    assert hosts(taken(leads), "clear") == "abcx"
    leads = ended([])
    assert leads.over and not leads.well


def test_a_host_that_is_only_silent_has_the_lease_to_end_its_ranks() -> None:
    leads = ended([rank("RuntimeError: closed")], there="acx", reports="ac")
    taken(leads)
    cleared(leads, "acx", 105.0)
    tick(leads, 104.0 + FENCE, {*"cx"})
    assert taken(leads) == []
    tick(leads, 104.1 + FENCE + LEASE, {*"cx"})
    assert hosts(taken(leads), "start") == "axc"


def test_the_lease_of_silent_hosts_began_when_the_attempt_ended_on_another() -> None:
    leads = leader(every="abcxy")
    leads.take("a", over([LOST]) | {"ago": LEASE}, 100.0)
    tick(leads, 100.0, {*"xy"})
    tick(leads, 104.0, {*"xy"})
    cleared(leads, "axy", 105.0)
    tick(leads, 103.9 + FENCE, {*"xy"})
    assert hosts(taken(leads), "start") == ""
    tick(leads, 104.0 + FENCE, {*"xy"})
    orders = taken(leads)
    assert hosts(orders, "start") == "axy"
    assert next(o["story"]["why"] for _, o in orders if "story" in o) == "b, c: lost"


@pytest.mark.parametrize("there", ["acx", "abcx"])
def test_a_host_that_is_back_while_the_others_clear_is_told_to_and_takes_part(there: str) -> None:
    """`there`: at the decision; the connection of its process before may not have ended."""
    leads = ended([LOST], there=there, reports="ac")
    taken(leads)
    cleared(leads, "acx", 105.0)
    leads.follows("b")
    tick(leads, 106.0, {*"bcx"})
    assert hosts(taken(leads), "clear") == "b"
    cleared(leads, "b", 106.5)
    tick(leads, 106.6, {*"bcx"})
    assert hosts(taken(leads), "start") == "abc"


def test_a_checkpoint_on_hosts_that_are_away_is_waited_for_a_while() -> None:
    leads = leader()
    for name in "ac":
        leads.take(name, over([LOST]) | {"complete": "out/c-5"}, 100.0)
    for now in (100.0, 104.0):
        tick(leads, now, {*"cx"})
    cleared(leads, "acx", 105.0)
    tick(leads, 104.0 + AWAY - 1.0, {*"cx"})
    assert hosts(taken(leads), "start") == ""
    tick(leads, 104.0 + AWAY, {*"cx"})
    orders = taken(leads)
    assert hosts(orders, "start") == "axc"
    assert next(o["story"]["away"] for _, o in orders if "story" in o) == "out/c-5"


def test_too_few_hosts_wait_for_one_that_comes_back() -> None:
    leads = ended([LOST], there="acx", reports="ac")
    taken(leads)
    cleared(leads, "ac", 105.0)
    tick(leads, 104.0 + AWAY - 1.0, {*"cx"})
    assert taken(leads) == [] and not leads.over
    cleared(leads, "x", 104.0 + AWAY - 1.0)
    tick(leads, 104.0 + AWAY - 0.5, {*"cx"})
    assert hosts(taken(leads), "start") == "axc"


def test_too_few_hosts_end_the_run_after_a_while() -> None:
    leads = ended([LOST], there="acx", reports="ac")
    leads.weak = {"x"}
    leads.night["least"] = 4
    cleared(leads, "acx", 105.0)
    tick(leads, 104.0 + AWAY, {*"cx"})
    assert leads.over and not leads.well


def test_nothing_is_started_by_half_of_the_hosts() -> None:
    leads = ended([LOST], there="acx", reports="ac")
    taken(leads)
    cleared(leads, "acx", 105.0)
    tick(leads, 104.0 + FENCE, {*"c"})
    assert taken(leads) == []  # two of four
    tick(leads, 300.0, {*"c"})
    assert leads.resigned and taken(leads) == []


def test_a_leader_waits_for_keepers_that_never_met_the_one_before() -> None:
    leads = leader()
    tick(leads, MEET + ALONE, set())
    assert not leads.resigned
    tick(leads, MEET + ALONE + 0.1, set())
    assert leads.resigned


def test_a_leader_without_majority_for_a_while_resigns() -> None:
    leads = leader()
    tick(leads, MEET, {*"bcx"})
    tick(leads, MEET + LEASE + ALONE, set())
    assert not leads.resigned
    tick(leads, MEET + LEASE + ALONE + 0.1, set())
    assert leads.resigned


def test_a_leader_says_so_unless_it_has_lost_the_majority() -> None:
    leads = leader()
    tick(leads, 1.0, {*"b"})
    assert hosts(leads.orders, "leads") == "ab"
    tick(leads, 2.0, {*"bcx"})
    assert hosts(leads.orders, "leads") == "abcx"
    leads.led.discard("b")  # which followed another one meanwhile
    leads.majority_at = 99.0
    leads.orders.clear()
    tick(leads, 100.0, {*"b"})
    assert leads.orders == []
    tick(leads, 102.0, {*"bx"})
    assert leads.orders == [("b", {"leads": True})]


def test_a_host_that_cannot_begin_is_lost_and_the_attempt_counts() -> None:
    leads = ended([rank("RuntimeError: closed")])
    cleared(leads, "abcx", 105.0)
    tick(leads, 106.0, {*"bcx"})
    taken(leads)
    leads.take("b", {"failed": 2, "why": "a full disk"}, 107.0)
    tick(leads, 107.0, {*"acx"})
    tick(leads, 111.0, {*"acx"})
    assert hosts(taken(leads), "clear") == "abcx" and leads.attempt == 2


def test_a_host_that_could_not_begin_is_chosen_only_where_there_is_no_other() -> None:
    leads = ended([rank("RuntimeError: closed")])
    cleared(leads, "abcx", 105.0)
    tick(leads, 106.0, {*"bcx"})
    leads.take("b", {"failed": 2, "why": "no guardian"}, 107.0)
    tick(leads, 107.0, {*"bcx"})
    tick(leads, 111.0, {*"bcx"})
    cleared(leads, "abcx", 112.0, attempt=2)
    taken(leads)
    tick(leads, 160.0, {*"bcx"})
    assert hosts(taken(leads), "start") == "axc"
    leads.take("x", {"failed": 3, "why": "a full disk"}, 161.0)
    tick(leads, 161.0, {*"bcx"})
    tick(leads, 165.0, {*"bcx"})
    cleared(leads, "abcx", 166.0, attempt=3)
    taken(leads)
    tick(leads, 260.0, {*"bcx"})
    orders = taken(leads)
    assert hosts(orders, "start") == "axc"
    assert "a full disk" in next(o["story"]["why"] for _, o in orders if "story" in o)


def test_the_number_of_restarts_is_limited() -> None:
    leads = leader(restarts=0)
    leads.take("a", over([rank("RuntimeError: closed")]), 100.0)
    tick(leads, 100.0, {*"bcx"})
    tick(leads, 104.0, {*"bcx"})
    cleared(leads, "abcx", 105.0)
    tick(leads, 105.0, {*"bcx"})
    assert leads.over and not leads.well


def test_a_run_that_a_user_stops_is_not_started_again() -> None:
    leads = leader()
    leads.take("b", {"stop": "me"}, 10.0)
    tick(leads, 10.0, {*"bcx"})
    assert not leads.over  # its hub ends what runs
    leads.take("a", over([rank("RuntimeError: closed")]), 11.0)
    tick(leads, 11.0, {*"bcx"})
    tick(leads, 15.0, {*"bcx"})
    assert leads.over and not leads.well
    between = ended([rank("RuntimeError: closed")])
    between.take("x", {"stop": "me"}, 104.5)
    between.tick(105.0, {*"bcx"})
    assert between.over and not between.well


def test_another_host_may_know_of_an_attempt_that_the_leader_before_began() -> None:
    leads = ended([rank("RuntimeError: closed")])
    taken(leads)
    known = {"attempt": 2, "hosts": [*"axc"], "run_id": "run-1-r02", "lasted": 100.0}
    leads.catch_up([{"attempt": 1, "hosts": [*"abc"], "run_id": "run-1"}, known], 105.0)
    assert (leads.state, leads.attempt, leads.hosts) == ("watch", 2, [*"axc"])
    leads.take("c", over([rank("RuntimeError: closed")]), 106.0)
    assert not leads.reports  # that was the first attempt
    leads.take("c", over([rank("RuntimeError: closed")], attempt=2), 106.0)
    tick(leads, 106.0, {*"bcx"})
    tick(leads, 110.0, {*"bcx"})
    assert [order for _, order in taken(leads)] == [{"clear": 2}] * 4


def test_a_leader_that_was_frozen_first_sees_which_hosts_have_gone() -> None:
    leads = leader()
    leads.take("b", over([], well=True), 1.0)
    leads.tick(1.0, {*"bcx"})
    for now in (60.0, 60.3, 60.9):  # it seems that all are there
        leads.tick(now, {*"bcx"})
    assert leads.state == "gather"
    for now in (61.1, 61.4):
        leads.tick(now, set())
    assert leads.resigned and not leads.over
    assert [order for _, order in leads.orders][-3:] == [{"leads": False}] * 3


def test_the_orders_of_a_host_that_is_back() -> None:
    leads = leader(places=[["a", "10.0.0.97", 1], ["b", "10.0.0.98", 2]])
    found = {name: leads.orders_of_returned(name) for name in "bcz"}
    assert found["b"]["night"] == leads.night
    assert found["c"]["spare"] is True
    assert not {"sheets", "common"} & found["c"]["night"].keys()
    assert found["z"] == {}


def test_a_host_that_comes_late_has_time_to_end_what_is_left() -> None:
    leads = leader(every="abcxy")
    for name in "ac":
        leads.take(name, over([LOST]), 100.0)
    for now in (100.0, 104.0):
        tick(leads, now, {*"cy"})
    cleared(leads, "acy", 105.0)
    taken(leads)
    late = 104.0 + CLEAR + 1.0
    leads.cleared.pop("y")  # it is slow
    tick(leads, late - 2.0, {*"cy"})
    tick(leads, late, {*"cxy"})
    assert not leads.over
    assert taken(leads) == [("x", {"clear": 1})]
    cleared(leads, "xy", late + 0.2)
    tick(leads, late + 0.3, {*"cxy"})
    assert hosts(taken(leads), "start") == "axc"
