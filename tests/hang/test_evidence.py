"""Looks come from hosts: an odd one is refused with the host's name, or does no harm."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from ipexctl.base.host_answer import Answer
from ipexctl.common.rank_looks import RankLook
from ipexctl.common.run_events import Event, RanksLooked
from ipexctl.errors import HostFailed
from ipexctl.in_ranks import thread_waits
from ipexctl.run.hang.cause_kinds import CAUSES
from ipexctl.run.hang.diagnosis import diagnose_run
from ipexctl.run.hang.diagnosis_layout import diagnosis_lines
from ipexctl.run.hang.evidence import RANKS, looks_of

from .looks import BACKWARD, Raw, calls, child, late, row, situation, waits

ODD: list[Any] = [
    None,
    True,
    -1,
    1 << 80,
    float("nan"),
    float("inf"),
    "x\x1b[31m\n" * 500,
    [],
    {},
    [None, {}, [[]], "a", 1 << 70] * 200,
    {"a": {"ranks": [float("nan")]}, "last": [1], "what": 3, "path": ["x"]},
    [[float("nan")] * 9] * 100,
]


def sent(host: str, rows: Any) -> tuple[RankLook, ...]:
    """The looks of a host as it sends them; none if they are refused."""
    event = {"kind": "RanksLooked", "number": 1, "ranks": rows}
    try:
        read = Answer(host, {"event": event}).value("event", Event)
    except HostFailed as failed:
        assert f"{host}: the agent sent an invalid reply ('event'" in str(failed)
        return ()
    assert isinstance(read, RanksLooked)
    return looks_of(host, read.ranks)


def assert_diagnosed(rows: list[Raw], looks: tuple[RankLook, ...]) -> None:
    found = diagnose_run(situation(rows, looks=(*sent("node01", rows), *looks)))
    assert found.kind.name in CAUSES
    for line in diagnosis_lines(found, 80):
        assert len(line) <= 80 and line.isprintable()


def test_a_look_is_read() -> None:
    raw = waits(5, blocked_on={"what": "file", "path": "/data/x", "fs": "nfs"})
    link = {"here": "10.0.0.1:1", "peer": "10.0.0.2:2", "unsent": 5, "unanswered": 8.5}
    raw |= {"connections": [link], "children": [child(frames=BACKWARD, exited=True, cpu=None)]}
    (look,) = sent("node03", [raw])
    assert (look.rank, look.host, look.state, look.syscall[0]) == (5, "node03", "S", 202)
    assert [f.function for f in look.frames][-1] == "<module>"
    assert look.source and look.frames[-1] == look.source.frame
    assert look.blocked_on and look.blocked_on.fs == "nfs"
    assert look.calls[-1].sizes == ((1048576,),)
    assert [(c.seq, c.done) for c in look.calls] == [(411, True), (412, False)]
    assert look.connections[0].unanswered == 8.5
    assert look.children[0].exited and look.children[0].host == "node03"


def test_the_prefix_of_the_backend_is_not_a_part_of_the_operation() -> None:
    entry = {"profiling_name": "gloo:all_reduce", "collective_seq_id": 1}
    described = thread_waits.describe_collective(entry, time.time())
    (look,) = sent("a", [row(0, collectives=calls(described))])
    assert look.calls[0].op == "all_reduce"


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: repr(odd)[:20])
def test_odd_values_are_refused_or_harmless(odd: Any) -> None:
    sent("node01", odd)
    for key in late(3):
        assert_diagnosed([waits(0), waits(1)], sent("node02", [late(3) | {key: odd}]))


def test_odd_values_inside_are_refused_or_harmless() -> None:
    for odd in ODD:
        whole = late(3, children=[child(frames=BACKWARD)], connections=[{"here": "a", "peer": "b"}])
        for bent in bent_values(json.loads(json.dumps(whole)), odd):
            assert_diagnosed([waits(0), waits(1)], sent("node02", [bent]))


def bent_values(value: Any, odd: Any) -> list[Any]:
    """The document with the odd value in place of one of its values, each once."""
    if isinstance(value, dict):
        return [odd] + [{**value, k: b} for k, v in value.items() for b in bent_values(v, odd)]
    if isinstance(value, list):
        whole = list(enumerate(value))
        return [odd] + [
            [*value[:i], b, *value[i + 1 :]] for i, v in whole for b in bent_values(v, odd)
        ]
    return [odd]


def test_control_characters_do_not_reach_the_screen() -> None:
    blocked = {"what": "file", "path": "/a\x1b]0;x\x07\nb", "fs": "n\rfs"}
    looks = sent("node01", [waits(0), late(1, state="D", blocked_on=blocked)])
    found = diagnose_run(situation([], 2, looks=looks))
    assert looks and all(line.isprintable() for line in diagnosis_lines(found, 80))


def test_a_rank_counts_once_and_only_if_a_run_can_have_it() -> None:
    assert len(sent("a", [row(1), row(1), row(2), row(RANKS)])) == 2
