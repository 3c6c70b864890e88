"""What is said of the attempts of a run, from what its hosts have noted."""

from __future__ import annotations

import pytest

from ipexctl.common.attempt_record import AttemptBegins, AttemptEnded
from ipexctl.run.follow_attempts import (
    describe_attempt,
    describe_attempts,
    filter_attempts,
    find_last_step,
    read_record,
)

NONE_LEFT = "no earlier checkpoint is complete"


def read_attempts(said: list[object]) -> list[AttemptBegins]:
    return filter_attempts(read_record(said))


FIRST = {"attempt": 1, "run_id": "run-1", "hosts": ["node01", "node02"]}
SECOND = {
    "attempt": 2, "run_id": "run-1-r02", "hosts": ["node01", "node03"], "why": "node02: lost",
    "lasted": 80.0, "kept": True, "checkpoint": "out/c-4", "age": 9.0, "open": ["out/c-5"],
}  # fmt: skip


def test_an_attempt_names_its_checkpoint_its_age_and_what_was_not_complete() -> None:
    _, second = read_attempts([FIRST, SECOND])
    for text in ("out/c-4", "9 s", "out/c-5", "node[01,03]"):
        assert text in describe_attempt(second)
    (many,) = read_attempts([SECOND | {"open": [f"out/c-{n}" for n in range(5, 12)]}])
    assert "out/c-8, and 3 more" in describe_attempt(many)
    bare = SECOND | {"checkpoint": "", "open": []}
    kept, not_kept = read_attempts([bare, bare | {"kept": False}])
    assert describe_attempt(kept).startswith(describe_attempt(not_kept)) and describe_attempt(
        kept
    ) != describe_attempt(not_kept)
    (away,) = read_attempts([bare | {"away": "out/c-9"}])
    assert "out/c-9" in describe_attempt(away)


def test_an_attempt_names_the_checkpoints_that_were_skipped_and_why() -> None:
    why = "out/c-9: rank 1 on node02: FileNotFoundError: 'out/c-9/b'"
    (earlier, none) = read_attempts(
        [SECOND | {"skipped": [why]}, SECOND | {"skipped": [why], "checkpoint": ""}]
    )
    assert f"from out/c-4, 9 s old; skipped: {why}" in describe_attempt(earlier)
    assert describe_attempt(none).endswith(f"from the beginning: {NONE_LEFT}; skipped: {why}")


def test_the_summary_has_how_each_attempt_but_the_last_ended() -> None:
    first, second = read_attempts([FIRST, SECOND])
    ending = AttemptEnded(1, True, True, "node02: lost", "", ["node02"], 80.0, "")
    (line,) = describe_attempts({2: second, 1: first}, {1: ending})
    assert "node[01-02]" in line and "1 min 20 s" in line and second.why in line


def test_the_last_step_is_that_of_the_rank_that_came_furthest() -> None:
    tails = [("step 3/10 loss 0.5", "step 4/10 loss 0.4"), ("step 5/10 loss 0.4", "Traceback")]
    assert find_last_step(tails) == 5
    assert find_last_step([("up",), ()]) is None


@pytest.mark.parametrize(
    "odd",
    [
        {"attempt": "x", "hosts": 3, "age": "soon", "lasted": -1, "open": None},
        SECOND | {"lasted": float("inf")},
        {"attempt": 3},
        {"later": 1},
        7,
    ],
)
def test_a_line_that_is_not_as_declared_is_left_out(odd: object) -> None:
    (line,) = read_attempts([odd, SECOND])
    assert line.attempt == 2
