"""What is said of the attempts of a run, from what its hosts have noted."""

from __future__ import annotations

from ipexctl.run.follow_attempts import last_step, read_story, summary

FIRST = {"attempt": 1, "run_id": "run-1", "hosts": ["node01", "node02"]}
SECOND = {
    "attempt": 2, "run_id": "run-1-r02", "hosts": ["node01", "node03"], "why": "node02: lost",
    "lasted": 80.0, "kept": True, "checkpoint": "out/c-4", "age": 9.5, "open": ["out/c-5"],
}  # fmt: skip


def test_an_attempt_names_its_checkpoint_its_age_and_what_was_not_complete() -> None:
    _, second = read_story([FIRST, SECOND])
    for text in ("out/c-4", "9 s", "out/c-5", "node[01,03]"):
        assert text in second.told
    (many,) = read_story([SECOND | {"open": [f"out/c-{n}" for n in range(5, 12)]}])
    assert "out/c-8, and 3 more" in many.told
    bare = SECOND | {"checkpoint": "", "open": []}
    kept, not_kept = read_story([bare, bare | {"kept": False}])
    assert kept.told.startswith(not_kept.told) and kept.told != not_kept.told
    (away,) = read_story([bare | {"away": "out/c-9"}])
    assert "out/c-9" in away.told


def test_the_summary_has_how_each_attempt_but_the_last_ended() -> None:
    first, second = read_story([FIRST, SECOND])
    (line,) = summary({2: second, 1: first})
    assert "node[01-02]" in line and "1 min 20 s" in line and second.why in line


def test_the_last_step_is_that_of_the_rank_that_came_furthest() -> None:
    tails = [("step 3/10 loss 0.5", "step 4/10 loss 0.4"), ("step 5/10 loss 0.4", "Traceback")]
    assert last_step(tails) == 5
    assert last_step([("up",), ()]) is None


def test_odd_values_of_a_story_are_empty() -> None:
    (line,) = read_story([{"attempt": "x", "hosts": 3, "age": "soon", "lasted": -1, "open": None}])
    assert (line.attempt, line.hosts, line.age, line.lasted, line.open) == (0, (), 0.0, 0.0, ())
    (line,) = read_story([SECOND | {"lasted": float("inf")}])
    assert line.lasted == 0.0
