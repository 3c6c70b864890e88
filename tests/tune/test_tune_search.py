"""The search on simulated clusters: the planted best is found, noise is not taken for a gain."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ipexctl.tune.command.tune_text import outcome_lines
from ipexctl.tune.tune import Tuned
from ipexctl.tune.tune_search import BASELINE, FINAL, NOISE, Search
from ipexctl.tune.tune_space import Dimension, SettingChange
from tests.tune.simulated import SPACE, START, Cluster, drive, labels, planted


@pytest.mark.parametrize("seed", range(20))
def test_a_planted_best_is_found_across_dimensions(seed: int) -> None:
    found = Cluster(planted(T8=1.6, T7=1.2, B100=1.3, Atcmalloc=0.8), seed=seed).search()
    assert found.wins
    assert {"threads 8", "bucket 100"} <= labels(found.best)
    assert found.gain == pytest.approx(1.6 * 1.3 - 1, abs=0.15)
    assert found.rounds == 3
    assert found.untried == ()


def test_pure_noise_is_nothing_to_gain() -> None:
    wins = sum(Cluster(planted(), noise=0.05, seed=seed).search().wins for seed in range(100))
    assert wins <= 5


@pytest.mark.parametrize("noise", [0.02, 0.04])
def test_later_pairs_of_runs_are_within_the_spread(noise: float) -> None:
    """By design 95 of 100; each run has its own rate, as in a cluster."""
    within, count = 0, 0
    for seed in range(100):
        cluster = Cluster(planted(T8=1.6, B100=1.3), noise, seed)
        found = cluster.search()
        for _ in range(10):
            before, after = (cluster.random.gauss(1.0, noise) for _ in range(2))
            ratio = cluster.speed(found.best.env) / cluster.speed({}) * after / before
            within += abs(ratio - 1 - (found.gain or 0)) <= found.spread
            count += 1
    assert 0.9 < within / count < 0.99


def test_a_clear_gain_wins_on_busy_hosts_too() -> None:
    """Where another pair of runs is uncertain, the mean of the rounds may be clear."""
    found = [Cluster(planted(T8=1.8), 0.1, seed).search() for seed in range(50)]
    assert sum(one.wins for one in found) > 45
    assert max(one.spread for one in found) > 0.8


def test_an_offered_setting_is_measured_and_never_used() -> None:
    half = SettingChange("--compress bf16", (("C", "bf16"),))
    space = (Dimension("compression", (half,), offered=True), *SPACE)
    found = Cluster(planted(Cbf16=1.5, T8=1.3)).search(space=space)
    assert labels(found.best) == {"threads 8"}
    ((change, gain),) = found.offers
    assert change == half and gain == pytest.approx(0.5, abs=0.1)
    text = "\n".join(outcome_lines(Tuned(found, 80.0, 360.0)))
    assert "--compress bf16" in text and "--allow numerics" in text
    assert Cluster(planted(T8=1.3)).search(space=space).offers == ()


def test_where_the_first_candidate_wins_the_others_are_not_tried() -> None:
    kinds = tuple(SettingChange(kind, (("C", kind),)) for kind in ("bf16", "fp16"))
    space = (Dimension("compression", kinds, first_wins=True),)
    both = Cluster(planted(Cbf16=1.5, Cfp16=1.6)).search(space=space)
    assert labels(both.best) == {"bf16"}
    assert "fp16" not in {str(trial.profile) for trial in both.trials}
    assert labels(Cluster(planted(Cfp16=1.6)).search(space=space).best) == {"fp16"}


def test_without_noise_equal_settings_are_no_gain() -> None:
    found = Cluster(planted(), noise=0.0).search()
    assert (found.wins, found.best, found.gain) == (False, BASELINE, None)


def test_all_settings_slower_leaves_the_baseline() -> None:
    slower = {"T8": 0.5, "T2": 0.4, "T7": 0.9, "B100": 0.8, "B5": 0.7, "Atcmalloc": 0.9}
    found = Cluster(planted(**slower)).search()
    assert (found.wins, found.best, found.rounds) == (False, BASELINE, 0)
    assert FINAL not in {trial.part for trial in found.trials}


def test_the_baseline_is_measured_first_and_both_take_turns_at_the_end() -> None:
    cluster = Cluster(planted(T8=2.0))
    found = cluster.search()
    assert [ask.part for ask in cluster.asked[:3]] == [NOISE] * 3
    last = [ask.profile for ask in cluster.asked if ask.part == FINAL]
    best = found.best
    assert last == [BASELINE, best, best, BASELINE, BASELINE, best]


@pytest.mark.parametrize("budget", [30.0, 60.0, 120.0, 360.0, 900.0])
@pytest.mark.parametrize("seed", range(5))
def test_the_budget_is_kept(budget: float, seed: int) -> None:
    cluster = Cluster(planted(T8=1.5, B5=1.2), seed=seed)
    cluster.search(budget)
    longest = START + max(8.0, budget / 15)
    assert cluster.seconds <= max(budget, 2 * longest)


def test_what_was_not_tried_for_want_of_time_is_said() -> None:
    found = Cluster(planted(T8=1.5)).search(budget=75.0)
    tried = {label for trial in found.trials for label in labels(trial.profile)}
    every = {change.label for dimension in SPACE for change in dimension.candidates}
    assert found.untried
    assert set(found.untried) | tried == every
    assert set(found.untried) & tried == set()


def test_a_candidate_that_cannot_win_is_stopped_early() -> None:
    cluster = Cluster(planted(T2=0.3, T8=1.1))
    found = cluster.search()
    slow = [t for t in found.trials if "threads 2" in labels(t.profile)]
    assert [t.ended for t in slow] == ["stopped"]
    assert slow[0].seconds < found.trials[0].seconds
    assert all(ask.floor == 0 for ask in cluster.asked if ask.part in (NOISE, FINAL))


def test_a_candidate_that_fails_is_dropped() -> None:
    found = Cluster(planted(T8=0.0, B100=1.5)).search()
    assert labels(found.best) == {"bucket 100"}
    assert [t.ended for t in found.trials if "threads 8" in labels(t.profile)] == ["failed"]


@pytest.mark.parametrize("after", range(3))
def test_a_baseline_without_steps_ends_the_search(after: int) -> None:
    cluster = Cluster(planted())

    def do(ask):
        fails = len(cluster.asked) == after
        made = cluster.trial(ask)
        return replace(made, rate=None, ended="no-steps") if fails else made

    found = drive(Search(lambda seen: SPACE, 360.0), do)
    assert len(found.trials) == after + 1
    assert (found.noise, found.wins) == (None, False)


def test_more_ranks_count_as_more_samples_in_a_step() -> None:
    ranks = (Dimension("ranks", (SettingChange("2 ranks per host", options=(("ppn", 2),)),)),)

    def cluster(rate: float) -> Cluster:
        made = Cluster(planted(), noise=0.01, ranks=lambda options: 4 if options else 2)
        made.speed = lambda env: 10.0 * rate
        return made

    same = cluster(1.0).search(space=ranks)
    assert same.gain == pytest.approx(1.0, abs=0.1), "as many steps with twice the ranks"


def test_slow_steps_are_measured_for_longer_within_the_budget() -> None:
    slow = Cluster(lambda env: 0.5)
    slow.search(budget=1800.0)
    assert slow.asked[0].seconds == 8.0
    assert all(ask.seconds == pytest.approx(40.0, rel=0.2) for ask in slow.asked[1:])
