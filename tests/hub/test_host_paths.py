"""Which hosts of a run do not reach each other: sockets that get no answer, and the hub's link."""

from __future__ import annotations

import pytest

from ipexctl.common.run_events import Noted, Unanswered
from ipexctl.remote.hub.host_paths import HostPaths, UnansweredAddresses
from tests.hub.test_judge import up

HOSTS = [("a", "10.0.0.1"), ("b", "10.0.0.2"), ("c", "host-c")]
B_C = "ranks on b and c get no answer from each other"


def reported(own: dict[str, list[str]], peers: dict[str, dict[str, float]]) -> HostPaths:
    paths = HostPaths(HOSTS)
    for host in sorted({*own, *peers}):
        paths.take(host, own.get(host, []), list(peers.get(host, {}).items()), 100.0)
    return paths


@pytest.mark.parametrize(
    ("own", "peers", "quiet", "cut"),
    [
        ({}, {"c": {"10.0.0.2": 12.0}}, "", [(B_C, 12.0)]),
        (
            {"c": ["10.0.0.3"]},
            {"b": {"10.0.0.3": 11.0}, "c": {"10.0.0.2": 12.0}},
            "",
            [(B_C, 12.0)],
        ),
        (
            {},
            {"b": {"10.0.0.1": 12.0}},
            "",
            [("ranks on a and b get no answer from each other", 12.0)],
        ),
        ({}, {"b": {"10.9.9.9": 12.0}}, "", []),  # of no host of the run
        ({"b": ["10.0.0.9"], "c": ["10.0.0.9"]}, {"a": {"10.0.0.9": 12.0}}, "", []),  # of two
        ({"b": ["10.0.0.9"]}, {"b": {"10.0.0.9": 12.0}}, "", []),  # its own
        ({}, {"c": {"10.0.0.2": 12.0}}, "b", [("a hears nothing from b", 15.0)]),  # b may be off
    ],
)
def test_who_does_not_reach_whom(
    own: dict[str, list[str]],
    peers: dict[str, dict[str, float]],
    quiet: str,
    cut: list[tuple[str, float]],
) -> None:
    paths = reported(own, peers)
    if quiet:
        paths.listen(quiet, 15.0, 100.0)
    said = paths.news(100.0)
    assert [row for _, row in said] == [cut] * bool(cut)
    assert paths.news(101.0) == []  # once


def test_what_is_over_is_said_with_how_long_it_was() -> None:
    paths = reported({}, {"c": {"10.0.0.2": 12.0}})
    paths.news(100.0)
    paths.take("c", [], [], 140.0)
    ((text, left),) = paths.news(140.0)
    assert (left, "52 s" in text, "again" in text) == ([], True, True)


def test_a_short_silence_is_not_told_and_a_lost_host_is_forgotten() -> None:
    paths = HostPaths(HOSTS)
    paths.listen("b", 9.0, 100.0)
    assert paths.news(100.0) == []
    paths.listen("b", 11.0, 102.0)
    paths.forget("b")
    assert paths.news(103.0) == []
    paths.listen("c", 11.0, 104.0)
    assert len(paths.news(104.0)) == 1
    paths.forget("c")  # told before: it is not heard again
    assert paths.news(105.0) == []


def test_the_judge_notes_it_and_the_run_goes_on() -> None:
    judge = up()
    judge.facts.clear()
    judge.take("b", Unanswered([], [("c", 12.0)]), 20.0)
    judge.tick(20.0)
    (fact,) = judge.facts
    assert isinstance(fact.event, Noted)
    assert (fact.event.cut, judge.decided) == ([(B_C, 12.0)], False)


KEY, OTHER = ("10.0.0.2", 40001, "10.0.0.3", 40002), ("10.0.0.2", 40003, "10.0.0.1", 40004)


def test_an_address_is_told_when_it_has_not_answered_for_long_and_when_it_has() -> None:
    watch = UnansweredAddresses()
    first = watch.report([(KEY, 0), (OTHER, 0)], 0.0)
    assert first == Unanswered(["10.0.0.2"], [])
    for now, retries in ((1.0, 1), (5.0, 3), (10.5, 4)):
        assert watch.report([(KEY, retries), (OTHER, 0)], now) is None
    told = watch.report([(KEY, 5), (OTHER, 0)], 11.5)
    assert told is not None
    assert told.peers == [("10.0.0.3", 10.5)]
    assert watch.report([(KEY, 6), (OTHER, 0)], 20.0) is None
    healed = watch.report([(KEY, 0), (OTHER, 0)], 30.0)
    assert healed is not None
    assert healed.peers == []


@pytest.mark.parametrize("retries", [[1, 0, 1, 2, 0, 1, 2, 0] * 5, [2] * 60])
def test_a_path_that_loses_some_packets_is_not_told(retries: list[int]) -> None:
    watch = UnansweredAddresses()
    watch.report([(KEY, 0)], 0.0)
    assert [watch.report([(KEY, n)], float(now)) for now, n in enumerate(retries)] == [None] * len(
        retries
    )
