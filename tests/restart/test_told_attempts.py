"""What is said of the attempts of a run, from what its hosts have noted."""

from __future__ import annotations

import pytest

from ipexctl.common.attempt_record import AttemptBegins
from ipexctl.run.follow_attempts import attempt_lines, attempts_in, in_words, last_step, read_record


def read_attempts(said: list[object]) -> list[AttemptBegins]:
    return attempts_in(read_record(said))


FIRST = {"attempt": 1, "run_id": "run-1", "hosts": ["node01", "node02"]}
SECOND = {
    "attempt": 2, "run_id": "run-1-r02", "hosts": ["node01", "node03"], "why": "node02: lost",
    "lasted": 80.0, "kept": True, "checkpoint": "out/c-4", "age": 9.5, "open": ["out/c-5"],
}  # fmt: skip


def test_an_attempt_names_its_checkpoint_its_age_and_what_was_not_complete() -> None:
    _, second = read_attempts([FIRST, SECOND])
    for text in ("out/c-4", "9 s", "out/c-5", "node[01,03]"):
        assert text in in_words(second)
    (many,) = read_attempts([SECOND | {"open": [f"out/c-{n}" for n in range(5, 12)]}])
    assert "out/c-8, and 3 more" in in_words(many)
    bare = SECOND | {"checkpoint": "", "open": []}
    kept, not_kept = read_attempts([bare, bare | {"kept": False}])
    assert in_words(kept).startswith(in_words(not_kept)) and in_words(kept) != in_words(not_kept)
    (away,) = read_attempts([bare | {"away": "out/c-9"}])
    assert "out/c-9" in in_words(away)


def test_the_summary_has_how_each_attempt_but_the_last_ended() -> None:
    first, second = read_attempts([FIRST, SECOND])
    (line,) = attempt_lines({2: second, 1: first})
    assert "node[01-02]" in line and "1 min 20 s" in line and second.why in line


def test_the_last_step_is_that_of_the_rank_that_came_furthest() -> None:
    tails = [("step 3/10 loss 0.5", "step 4/10 loss 0.4"), ("step 5/10 loss 0.4", "Traceback")]
    assert last_step(tails) == 5
    assert last_step([("up",), ()]) is None


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
