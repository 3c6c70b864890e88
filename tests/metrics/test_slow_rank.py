"""Which rank the others wait for."""

import pytest

from ipexctl.core.output.slow_rank import RankLoads, Slow


def loads(*busy: float, samples: int = 6) -> RankLoads:
    made = RankLoads()
    for _ in range(samples):
        made.add(enumerate(busy))
    return made


@pytest.mark.parametrize(
    ("busy", "slow"),
    [
        ((0.4, 0.4, 1.0, 0.4), Slow((2,), 0.6)),
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


def test_nothing_is_said_of_a_few_samples_or_of_ranks_that_have_ended():
    assert loads(0.4, 1.0, samples=3).slow() is None
    some = loads(0.4, 1.0, 0.4)
    some.ended(1)
    assert some.slow() is None
