"""The orders of a further attempt, put together on a host, are those of a plan made here."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from ipexctl.common.restart_plan import RestartPlan, VoterPlan
from ipexctl.common.run_about import RunAbout
from ipexctl.local.run_options import RunOptions
from ipexctl.remote.restart import attempt_orders
from ipexctl.run.plan import launch_plan
from ipexctl.run.plan.launch import LaunchPlan, PlannedHost, RunRequest
from ipexctl.run.watch import start_request
from ipexctl.run.watch.start_request import Orders, compose_restart_plans
from tests.plan.test_launch import THREE, node

BASE, SECOND = "20261126-120000-abcdef", "20261126-120000-abcdef-r02"
FOUR = (*THREE, node("node04"))
OPTIONS = RunOptions("train.py", restarts=3, spares=("node04",))


def plan(nodes: Sequence[PlannedHost], run_id: str = BASE, **asked: Any) -> LaunchPlan:
    request = RunRequest(("train.py",), **(asked or {"ppn": 2}))
    return launch_plan.make_launch_plan(nodes, request, run_id)


def orders(made: LaunchPlan) -> Orders:
    return Orders(made, made.run_id, OPTIONS, about=RunAbout(command="train.py"))


def restart_plans(**asked: Any) -> dict[str, RestartPlan]:
    """`asked`: the ranks of a queued run, which may be on any of the four hosts."""
    work = {node.host.name: ("/work", "") for node in FOUR}
    first = plan(FOUR, queue=True, **asked) if asked else plan(THREE)
    ppn = len(first.hosts[0].ranks)

    def orders_on(nodes: Sequence[PlannedHost], ranks: int | None = None) -> Orders:
        made = orders(plan(nodes, ppn=ranks or ppn))
        return replace(made, options=replace(OPTIONS, ppn=ranks or ppn))

    return compose_restart_plans(orders(first), FOUR, work, orders_on)


def of_voter(name: str) -> VoterPlan:
    return as_read(restart_plans()[name])


def as_read(given: RestartPlan) -> VoterPlan:
    """Return the plan as its keeper reads it."""
    return VoterPlan.read(json.loads(json.dumps(given.document())))


@pytest.mark.parametrize("chosen", [(0, 1, 2), (0, 3, 2), (3, 1, 2), (1, 2)])
def test_an_attempt_has_the_orders_of_a_plan_with_its_hosts(chosen: tuple[int, ...]) -> None:
    check_orders(of_voter("node01"), chosen, plan([FOUR[i] for i in chosen], SECOND))


def check_orders(given: VoterPlan, chosen: tuple[int, ...], expected_plan: LaunchPlan) -> None:
    names = [FOUR[i].host.name for i in chosen]
    composed = attempt_orders.compose_orders(given.common, given.find_plans(names), 2)
    made = {order.host: order.document() for order in composed}
    wanted = orders(expected_plan)
    assert list(made) == names
    for name in names:
        asked, expected = made[name], wanted.compose_start_order(name, "/work").document()
        for rank in expected["ranks"]:
            rank["env"]["TORCHELASTIC_RESTART_COUNT"] = "1"
        assert asked.pop("about")["hosts"] == names
        expected.pop("about")
        assert asked == {**expected, "host": name}


@pytest.mark.parametrize(
    ("asked", "chosen"),
    [
        ({"n": 1}, (2,)),  # one host uses no network
        ({"n": 3}, (0, 2, 3)),
        ({"n": 5, "ppn": 2}, (1, 2, 3)),  # the last one has one rank
        ({"n": 6}, (0, 1, 2, 3)),  # two, two, one and one
    ],
)
def test_a_queued_run_has_the_orders_of_a_plan_on_the_hosts_that_are_free(
    asked: dict[str, int], chosen: tuple[int, ...]
) -> None:
    plans = restart_plans(**asked)
    given = as_read(plans["node01"])
    assert given.first == ["node01", "node02", "node03", "node04"]
    wanted = plan([FOUR[i] for i in chosen], SECOND, **asked)
    assert given.ranks == [len(host.ranks) for host in wanted.hosts]
    check_orders(given, chosen, wanted)
    assert all(plan.peer != "127.0.0.1" for plan in given.host_plans.values())


def test_the_checkpoint_is_a_variable_of_each_rank() -> None:
    given = of_voter("node01")
    common = given.common.replace(resume=["--resume", "{checkpoint}"])
    (made,) = attempt_orders.compose_orders(common, [given.host_plans["node02"]], 2, "out/c-20")
    for rank in made.ranks:
        assert rank.env["IPEXCTL_CHECKPOINT"] == "/work/out/c-20"
        assert rank.argv[-2:] == ["--resume", "/work/out/c-20"]


def test_only_voters_get_the_host_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start_request, "VOTERS", 3)
    given = restart_plans()
    voters = [name for name, told in given.items() if isinstance(told, VoterPlan)]
    assert voters == ["node01", "node02", "node03"]
    assert all(one.hosts == [node.host.name for node in FOUR] for one in given.values())
