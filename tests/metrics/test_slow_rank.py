"""Which rank the others wait for."""

import os
import subprocess
import time

import pytest

from ipexctl.remote.run.health_sampler import Sampler
from ipexctl.run.output.slow_rank import RankLoads, Slow


def loads(*busy: float, samples: int = 6) -> RankLoads:
    made = RankLoads()
    for _ in range(samples):
        made.add(enumerate(busy))
    return made


@pytest.mark.parametrize(
    ("busy", "slow"),
    [
        ((0.4, 0.4, 1.0, 0.4), Slow((2,), 0.6)),
        ((0.04, 0.2, 0.04), None),  # all sleep: they may wait for a disk of one of them
        ((2.0, 4.0, 2.0, 2.0, 4.0, 2.0, 2.0, 2.0), Slow((1, 4), 0.5)),
        ((1.0, 0.9, 1.0, 0.95), None),  # all compute, or wait by spinning
        ((1.0, 1.0, 0.3, 0.3), None),  # half of them: not the exception
        ((0.3, 1.0), Slow((1,), 0.7)),
        ((1.0,), None),
        ((0.0, 0.0), None),
    ],
)
def test_slow(busy: tuple[float, ...], slow: Slow | None):
    found = loads(*busy).slow()
    assert (found and found.ranks) == (slow and slow.ranks)
    if slow and found:
        assert found.waits == pytest.approx(slow.waits)


def test_who_was_slow_most_of_the_time():
    mostly = loads(0.4, 1.0, 0.4, samples=9).find_mostly_slow()
    assert mostly and mostly.ranks == (1,) and mostly.waits == pytest.approx(0.6)
    changed = loads(0.4, 1.0, 0.4)
    for _ in range(30):
        changed.add(enumerate((1.0, 1.0, 1.0)))
    assert changed.find_mostly_slow() is None


def test_the_start_of_a_run_in_which_all_are_busy_does_not_count():
    made = loads(1.0, 1.0, 1.0, samples=40)
    assert made.find_mostly_slow() is None
    for _ in range(20):
        made.add(enumerate((0.1, 1.0, 0.1)))
    mostly = made.find_mostly_slow()
    assert mostly and mostly.ranks == (1,)


def test_nothing_is_said_of_a_few_samples_or_of_ranks_that_have_ended():
    assert loads(0.4, 1.0, samples=3).slow() is None
    some = loads(0.4, 1.0, 0.4)
    some.ended(1)
    assert some.slow() is None


def test_the_cpus_of_ranks_are_those_of_their_processes():
    sampler = Sampler(None)
    idle = subprocess.Popen(["sleep", "60"])
    try:
        sampler.add(0, os.getpid())
        sampler.add(1, idle.pid)
        assert sampler.measure_rank_cpus() == {}  # nothing to compare with yet
        until = time.process_time() + 0.3
        while time.process_time() < until:
            pass
        busy = sampler.measure_rank_cpus()
    finally:
        idle.kill()
        idle.wait()
    assert busy["1"] < 0.1 < busy["0"]
    assert set(sampler.measure_rank_cpus()) == {"0"}
