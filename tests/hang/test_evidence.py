"""Looks come from hosts: whatever is odd in one is left out, and nothing is raised."""

from __future__ import annotations

from typing import Any

import pytest

from ipexctl.run.hang.cause_kinds import CAUSES
from ipexctl.run.hang.diagnosis import diagnose_run
from ipexctl.run.hang.diagnosis_layout import diagnosis_lines
from ipexctl.run.hang.evidence import read_look

from .looks import BACKWARD, call, calls, late, row, situation, waits

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


def test_a_look_is_read() -> None:
    raw = waits(5, blocked_on={"what": "file", "path": "/data/x", "fs": "nfs"})
    raw["connections"] = [["10.0.0.1:1", "10.0.0.2:2", 5, 6, 7, 8.5]]
    raw["children"] = [{"pid": 1, "name": "pt", "state": "D", "frames": BACKWARD, "exited": True}]
    (look,) = read_look("node03", [raw])
    assert (look.rank, look.host, look.state, look.syscall[0]) == (5, "node03", "S", 202)
    assert [f.function for f in look.frames][-1] == "<module>"
    assert look.blocked_on and look.blocked_on.fs == "nfs"
    assert look.collectives and look.collectives[-1].sizes == ((1048576,),)
    assert [(c.seq, c.done) for c in look.collectives] == [(411, True), (412, False)]
    assert look.connections[0].unanswered == 8.5
    assert look.children[0].exited and look.children[0].cpu is None


def test_the_prefix_of_the_backend_is_not_a_part_of_the_operation() -> None:
    (look,) = read_look("a", [row(0, collectives=calls(call(1, "gloo:all_reduce")))])
    assert look.collectives and look.collectives[0].op == "all_reduce"


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: repr(odd)[:20])
def test_odd_values_are_left_out(odd: Any) -> None:
    assert isinstance(read_look("node01", odd), tuple)
    rows = [waits(0), waits(1), waits(2)]
    for key in late(3):
        (*_, look) = read_look("node02", [late(3) | {key: odd}]) or (None,)
        assert look is None or look.rank == 3
        given = situation(rows, looks=(*read_look("node01", rows[:2]), *([look] if look else [])))
        for line in diagnosis_lines(diagnose_run(given), 80):
            assert len(line) <= 80 and line.isprintable()


def test_odd_values_inside_are_left_out() -> None:
    for odd in ODD:
        for key in call(1):
            raw = late(3, collectives=calls(call(1) | {key: odd}))
            given = situation([waits(0), waits(1), waits(2), raw])
            assert diagnosis_lines(diagnose_run(given), 80)
        raw = late(3, [[odd, odd, odd], *BACKWARD], children=[{"pid": odd, "frames": odd}])
        raw["source"] = [odd, odd, odd, odd]
        raw["connections"] = [[odd] * 6]
        given = situation([waits(0), raw])
        assert diagnose_run(given).kind.name in CAUSES


def test_control_characters_do_not_reach_the_screen() -> None:
    blocked = {"what": "file", "path": "/a\x1b]0;x\x07\nb", "fs": "n\rfs"}
    given = situation([waits(0), late(1, state="D", blocked_on=blocked)], 2)
    assert all(line.isprintable() for line in diagnosis_lines(diagnose_run(given), 80))


def test_a_rank_counts_once() -> None:
    assert len(read_look("a", [row(1), row(1), row(2)])) == 2
