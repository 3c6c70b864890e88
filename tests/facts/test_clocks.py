"""The offset of a host's clock, from one question and its answer."""

from __future__ import annotations

import pytest

from ipexctl.facts.clocks_facts import ClockFacts, estimate_clock


def test_the_clock_is_judged_at_the_middle_of_the_question():
    assert estimate_clock(sent=10.0, received=12.0, now=1000.0, remote=1004.0) == ClockFacts(
        5.0, 1.0
    )


@pytest.mark.parametrize("remote", [None, "now", -1, True, float("nan"), float("inf")])
def test_a_clock_that_is_no_number_is_unknown(remote):
    assert estimate_clock(sent=0.0, received=1.0, now=1000.0, remote=remote) is None
