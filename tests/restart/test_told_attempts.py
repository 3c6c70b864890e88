"""What is said of the attempts of a run, from what its hosts have noted."""

from __future__ import annotations

from typing import Any

import pytest

from ipexctl.base.host_answer import read_messages
from ipexctl.common.attempt_record import AttemptBegins, AttemptEnded, AttemptRuns, RecordLine
from ipexctl.run.follow_attempts import (
    describe_attempt,
    describe_attempts,
    filter_attempts,
    find_last_step,
)

NONE_LEFT = "no earlier checkpoint is complete"


FIRST = AttemptBegins(1, ["node01", "node02"], "run-1")
SECOND = AttemptBegins(
    2, ["node01", "node03"], "run-1-r02", why="node02: lost", lasted=80.0, kept=True,
    checkpoint="out/c-4", age=9.0, open=["out/c-5"],
)  # fmt: skip


def told(line: AttemptBegins, **more: Any) -> str:
    """What a command says of it once its host has sent it."""
    (read,) = read_messages(RecordLine, [line.replace(**more).document()])
    assert read == line.replace(**more) and isinstance(read, AttemptBegins)
    return describe_attempt(read)


def test_an_attempt_names_its_checkpoint_its_age_and_what_was_not_complete() -> None:
    for text in ("out/c-4", "9 s", "out/c-5", "node[01,03]"):
        assert text in told(SECOND)
    many = told(SECOND, open=[f"out/c-{n}" for n in range(5, 12)])
    assert "out/c-8, and 3 more" in many
    kept, not_kept = (told(SECOND, checkpoint="", open=[], kept=kept) for kept in (True, False))
    assert kept.startswith(not_kept) and kept != not_kept
    assert "out/c-9" in told(SECOND, checkpoint="", open=[], away="out/c-9")


def test_an_attempt_names_the_checkpoints_that_were_skipped_and_why() -> None:
    why = "out/c-9: rank 1 on node02: FileNotFoundError: 'out/c-9/b'"
    assert f"from out/c-4, 9 s old; skipped: {why}" in told(SECOND, skipped=[why])
    none = told(SECOND, skipped=[why], checkpoint="")
    assert none.endswith(f"from the beginning: {NONE_LEFT}; skipped: {why}")


def test_the_summary_has_how_each_attempt_but_the_last_ended() -> None:
    ending = AttemptEnded(1, True, True, "node02: lost", "", ["node02"], 80.0, "")
    (line,) = describe_attempts({2: SECOND, 1: FIRST}, {1: ending})
    assert "node[01-02]" in line and "1 min 20 s" in line and SECOND.why in line


def test_the_last_step_is_that_of_the_rank_that_came_furthest() -> None:
    tails = [("step 3/10 loss 0.5", "step 4/10 loss 0.4"), ("step 5/10 loss 0.4", "Traceback")]
    assert find_last_step(tails) == 5
    assert find_last_step([("up",), ()]) is None


RIGHT = SECOND.document()


@pytest.mark.parametrize(
    "odd",
    [
        RIGHT | {"attempt": "x"}, RIGHT | {"hosts": 3}, RIGHT | {"hosts": ["a", 3]},
        RIGHT | {"age": "soon"}, RIGHT | {"lasted": -1}, RIGHT | {"open": None},
        RIGHT | {"lasted": float("inf")}, RIGHT | {"attempt": None},
        {"kind": "AttemptBegins", "attempt": 3}, {"kind": "AttemptBegins"},
        RIGHT | {"kind": "Later"}, RIGHT | {"kind": "RecordLine"}, RIGHT | {"kind": "HostReported"},
        RIGHT | {"kind": 7}, RIGHT | {"kind": None}, RIGHT | {"kind": ["AttemptBegins"]},
        {name: value for name, value in RIGHT.items() if name != "kind"},
        {}, 7, None, "AttemptBegins", [RIGHT],
    ],
)  # fmt: skip
def test_a_line_that_is_not_as_declared_is_left_out(odd: object) -> None:
    lines: list[RecordLine] = [SECOND, AttemptRuns(2)]
    raw = [odd, *(line.document() for line in lines), odd]
    assert [*read_messages(RecordLine, raw)] == lines
    assert filter_attempts(read_messages(RecordLine, raw)) == [SECOND]
    assert read_messages(RecordLine, [RIGHT | {"later": 1}]) == (SECOND,)


@pytest.mark.parametrize("odd", [None, 7, "", {}, {"0": RIGHT}])
def test_a_record_that_is_no_list_has_no_lines(odd: object) -> None:
    assert read_messages(RecordLine, odd) == ()
