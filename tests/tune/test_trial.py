"""When a trial ends its run, and what its run is."""

from __future__ import annotations

import time

import pytest

from ipexctl.base.option import Seconds
from ipexctl.local.run_options import RunOptions
from ipexctl.run.outcome.run_result import Tally
from ipexctl.run.plan.launch import PlannedHost, RunRequest
from ipexctl.run.plan.launch_plan import make_launch_plan
from ipexctl.run.watch.run_watchers import Interrupts
from ipexctl.run.watch.start_request import Orders
from ipexctl.tune.trial import TrialView, of_trial
from ipexctl.tune.tune_search import Ask
from ipexctl.tune.tune_space import Profile, SettingChange
from tests import made
from tests.tune.test_step_rate import line

BEST = Profile().replaced("threads", SettingChange("8", (("A", "8"), ("B", None)), (("ppn", 4),)))


def view(floor: float = 0.0, seconds: float = 60.0) -> TrialView:
    shown = TrialView(Ask(Profile(), "noise", 2.0, floor), time.monotonic() + seconds, Interrupts())
    shown.rates.ranks = 1
    return shown


def planned():
    nodes = [PlannedHost(made.host(n), made.facts(n), made.prepared()) for n in ("n1", "n2")]
    return make_launch_plan(nodes, RunRequest(("t.py",)), "r1")


def test_a_trial_ends_its_run_at_once_when_enough_is_measured() -> None:
    shown = view()
    shown.lines("n1", 0, [line(1, 0.0), line(50, 1.0), "loss 0.3"])
    assert (shown.ended, shown.interrupts.count) == ("", 0)
    shown.lines("n1", 0, [line(150, 3.0)])
    assert (shown.ended, shown.interrupts.count, shown.interrupts.hits) == ("measured", 2, 0)
    shown.lines("n1", 0, [line(250, 5.0)])
    assert shown.interrupts.count == 2


@pytest.mark.parametrize(
    ("more", "ended"), [({"floor": 60.0}, "stopped"), ({"seconds": -1.0}, "out-of-time")]
)
def test_a_trial_ends_early(more, ended) -> None:
    shown = view(**more)
    shown.lines("n1", 0, [line(1, 0.0), line(50, 1.0), line(80, 1.6)])
    shown.tick(Tally(1, 1, 0, 0, 1.0))
    assert (shown.ended, shown.interrupts.count) == (ended, 2)


def test_a_users_interrupt_ends_it_too() -> None:
    shown = view()
    shown.interrupts.hits = shown.interrupts.count = 1
    shown.tick(Tally(1, 1, 0, 0, 1.0))
    assert (shown.ended, shown.interrupts.count) == ("interrupted", 3)


def test_the_run_of_a_trial_has_the_profile_and_keeps_nothing() -> None:
    typed = RunOptions("t.py", env={"B": "1", "C": "2"}, fetch=("x",), name="n", lives_on=True)
    run = of_trial(typed, Ask(BEST, "threads", 2.0))
    assert (run.env, run.ppn, run.trial, run.stall) == ({"A": "8", "C": "2"}, 4, True, Seconds(0))
    assert (run.fetch, run.name, run.lives_on) == ((), "", False)


def test_only_trials_and_chosen_buckets_bring_modules_of_tune() -> None:
    def modules(**more) -> set[str]:
        orders = Orders(planned(), "20260101-000000-abcdef", RunOptions("t.py", **more))
        return set(orders.compose_start_order("n1", "/w").modules)

    usual, asked = {"sitecustomize", "python_exit"}, {"thread_waits", "rank_groups"}
    assert modules() == usual | asked
    assert modules(no_inspect=True) == usual
    assert modules(env={"IPEXCTL_BUCKET_MB": "100"}) == {*usual, *asked, "ddp_bucket"}
    assert modules(trial=True, no_inspect=True) == {*usual, "ddp_bucket", "step_meter"}
