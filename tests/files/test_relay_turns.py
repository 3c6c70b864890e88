"""Who gets which files from whom, without hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ipexctl.base.blob import Blob
from ipexctl.blobs import blob_relay
from ipexctl.blobs.blob_relay import Turn, Turns


def blobs(*sizes: int) -> list[Blob]:
    return [Blob(str(n), str(n), size) for n, size in enumerate(sizes)]


def everything(blob: Blob) -> bool:
    return True


def turn_of(turns: Turns, host: str) -> Turn:
    turn = turns.next(host, everything)
    assert turn
    return turn


def names(turn: Turn) -> list[str]:
    return [b.name for b in turn.blobs]


def test_small_files_go_together_and_large_ones_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blob_relay, "UNIT", 10)
    turns, wanted = Turns("a", ""), blobs(4, 30, 5, 5, 1)
    turns.join("a", wanted, wanted)
    found = []
    while turns.lacks("a"):
        turn = turn_of(turns, "a")
        found.append(names(turn))
        turns.done(turn)
    assert found == [["0"], ["1"], ["2", "3"], ["4"]]


def test_a_host_gives_one_file_while_it_is_sent_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blob_relay, "UNIT", 1)
    turns, wanted = Turns("ab", ""), blobs(2, 2)
    for host in "ab":
        turns.join(host, wanted, wanted)
    first = turn_of(turns, "a")
    assert turns.next("b", everything) is None  # a will have it
    turns.gives("a")
    turns.done(first)
    assert turn_of(turns, "a") == Turn("a", "", (wanted[1],))
    assert turn_of(turns, "b") == Turn("b", "a", (wanted[0],))


def test_what_is_still_fetched_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blob_relay, "UNIT", 1)
    turns, wanted = Turns("a", ""), blobs(2, 2)
    turns.join("a", wanted, wanted)
    turn = turns.next("a", lambda blob: blob.name == "1")
    assert turn
    assert names(turn) == ["1"]
    turns.done(turn)
    assert turns.next("a", lambda blob: False) is None
    assert turns.lacks("a")


@settings(max_examples=400, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 5), min_size=1, max_size=6),
    hosts=st.integers(1, 6),
    mute=st.sets(st.integers(0, 5)),
    broken=st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5))),
    had=st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5))),
    ending=st.dictionaries(st.integers(0, 5), st.integers(0, 8)),
    order=st.randoms(use_true_random=False),
)
def test_every_host_that_stays_gets_everything(
    sizes: Sequence[int], hosts: int, mute: set[int], broken: set[tuple[int, int]],
    had: set[tuple[int, int]], ending: Mapping[int, int], order: object,
) -> None:  # fmt: skip
    """Whoever is mute, fails or goes, and in whatever order turns end: nobody waits for ever."""
    wanted, all_hosts = blobs(*sizes), [str(n) for n in range(hosts)]
    was, blob_relay.UNIT = blob_relay.UNIT, 4
    try:
        turns = Turns(all_hosts, [str(n) for n in mute])
        _play(turns, wanted, all_hosts, broken, had, ending, order)
    finally:
        blob_relay.UNIT = was


def _play(
    turns: Turns, wanted: Sequence[Blob], hosts: Sequence[str], broken: set[tuple[int, int]],
    had: set[tuple[int, int]], ending: Mapping[int, int], order: object,
) -> None:  # fmt: skip
    have = {h: {b for n, b in enumerate(wanted) if (int(h), n) in had} for h in hosts}
    left = {h for h in hosts if have[h] != set(wanted)}
    for host in left:
        turns.join(host, wanted, [b for b in wanted if b not in have[host]])
        if have[host] and turns.is_wanted_by_others(host):
            turns.gives(host)
    now: dict[str, Turn] = {}
    for step in range(1000):
        before = len(left)
        for host in sorted(left - now.keys()):
            if ending.get(int(host)) == step:
                turns.leave(host, gone=True)
                left.discard(host)
            elif turn := turns.next(host, everything):
                now[host] = turn
        givers = [t.giver for t in now.values() if t.giver]
        assert len(givers) == len(set(givers))
        if not left:
            break
        if not now and len(left) < before:
            continue  # those that wait look again when one leaves
        assert now, "all wait"
        host = order.choice(sorted(now))  # type: ignore[attr-defined]
        turn = now.pop(host)
        if turn.giver:
            assert set(turn.blobs) <= have[turn.giver]
            if (int(host), int(turn.giver)) in broken:
                turns.failed(turn)
                continue
        have[host] |= set(turn.blobs)
        if turns.is_wanted_by_others(host):
            turns.gives(host)
        turns.done(turn)
        if not turns.lacks(host):
            turns.leave(host)
            left.discard(host)
    assert not left


def test_where_nothing_fails_this_machine_sends_every_file_once() -> None:
    turns, wanted, hosts = Turns("abcdefgh", ""), blobs(*[1 << 25] * 5), "abcdefgh"
    for host in hosts:
        turns.join(host, wanted, wanted)
    now: dict[str, Turn] = {}
    sent = rounds = 0
    while any(turns.lacks(h) for h in hosts):
        rounds += 1
        for host in hosts:
            if turns.lacks(host) and (turn := turns.next(host, everything)):
                now[host] = turn
        for turn in now.values():
            sent += not turn.giver
            turns.gives(turn.host)
            turns.done(turn)
        now.clear()
    assert sent == len(wanted)
    assert rounds < 3 * len(wanted)  # with one file after the other, each would take four
