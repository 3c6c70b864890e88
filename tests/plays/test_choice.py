"""Which steps are done, and what a check can say of one."""

import pytest

from ipexctl.errors import InputError
from ipexctl.play.steps import all_steps
from ipexctl.play.text.check_prediction import StepPrediction, predict_state
from ipexctl.play.text.play_options import PlayOptions
from ipexctl.play.text.play_outcome import State
from ipexctl.play.text.play_reader import read_play
from ipexctl.play.text.play_values import chosen_steps

PLAY = read_play(
    "steps:\n"
    "  - {sh: a, name: one}\n"
    "  - {sh: b, name: two, tags: [x]}\n"
    "  - {sh: c, name: three, tags: 'x, y'}\n"
    "  - {sh: d, name: four, tags: always}\n"
    "  - {sh: e, name: five, tags: [never, z]}\n"
    "  - {sh: f, name: '2', tags: [y]}\n",
    "play.yaml",
    all_steps(),
)


@pytest.mark.parametrize(
    ("choice", "numbers"),
    [
        (PlayOptions(), [1, 2, 3, 4, 6]),
        (PlayOptions(tags=("x",)), [2, 3, 4]),
        (PlayOptions(tags=("x", "z")), [2, 3, 4, 5]),
        (PlayOptions(tags=("all",)), [1, 2, 3, 4, 6]),
        (PlayOptions(tags=("never",)), [4, 5]),
        (PlayOptions(tags=("always",)), [4]),
        (PlayOptions(skip_tags=("x",)), [1, 4, 6]),
        (PlayOptions(skip_tags=("always",)), [1, 2, 3, 6]),
        (PlayOptions(tags=("x",), skip_tags=("y",)), [2, 4]),
        (PlayOptions(tags=("z",), skip_tags=("never",)), [4]),
        (PlayOptions(first="three"), [3, 4, 6]),
        (PlayOptions(first="4"), [4, 6]),
        (PlayOptions(first="2"), [2, 3, 4, 6]),  # the number comes first
        (PlayOptions(first="three", tags=("y",)), [3, 4, 6]),
    ],
)
def test_tags_and_from(choice: PlayOptions, numbers: list[int]) -> None:
    assert [step.number for step in chosen_steps(PLAY, choice)] == numbers


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        (PlayOptions(tags=("alwyas",)), "--tags alwyas: no step of play.yaml has this tag"),
        (PlayOptions(skip_tags=("q",)), "--skip-tags q: no step of play.yaml has this tag"),
        (PlayOptions(first="thre"), "--from thre: play.yaml has no such step"),
        (PlayOptions(first="0"), "--from 0: play.yaml has no such step"),
    ],
)  # fmt: skip
def test_what_is_not_in_the_play(choice: PlayOptions, said: str) -> None:
    with pytest.raises(InputError) as e:
        chosen_steps(PLAY, choice)
    assert e.value.what.startswith(said)


X, BELOW, BESIDE = ("path:/x",), ("path:/x/y",), ("path:/xy",)


@pytest.mark.parametrize(
    ("looked", "pending", "state"),
    [
        (StepPrediction(False), (), State.OK),
        (StepPrediction(True), (), State.WOULD_CHANGE),
        (StepPrediction(None), (), State.UNKNOWN),
        (StepPrediction(False, failed=True), (), State.FAILED),
        (StepPrediction(False, reads=X), X, State.UNKNOWN),
        (StepPrediction(False, reads=BELOW), X, State.UNKNOWN),
        (StepPrediction(True, reads=X), X, State.WOULD_CHANGE),
        (StepPrediction(True, reads=("exists:/x",)), ("path:/x",), State.UNKNOWN),
        (StepPrediction(True, reads=("exists:/x",)), ("path:/y",), State.WOULD_CHANGE),
        (StepPrediction(True, reads=("any",)), ("path:/y",), State.UNKNOWN),
        (StepPrediction(True, reads=("any",)), (), State.WOULD_CHANGE),
        (StepPrediction(False, reads=X), BELOW, State.UNKNOWN),
        (StepPrediction(False, reads=BESIDE), X, State.OK),
        (StepPrediction(False, reads=X), ("path:/",), State.UNKNOWN),
        (StepPrediction(False, reads=X), ("any",), State.UNKNOWN),
        (StepPrediction(False, reads=("any",)), ("service:a",), State.UNKNOWN),
        (StepPrediction(False), ("any",), State.OK),  # it reads nothing
        (StepPrediction(False, reads=("service:a",)), ("service:ab",), State.OK),
        (StepPrediction(False, failed=True, reads=X), X, State.UNKNOWN),
        (StepPrediction(True, failed=True, reads=X), (), State.FAILED),
        (StepPrediction(None, failed=True), (), State.FAILED),
        (StepPrediction(False, failed=True), ("packages",), State.UNKNOWN),
        (StepPrediction(False, reads=("packages",)), ("packages",), State.UNKNOWN),
    ],
)
def test_what_a_check_says(looked: StepPrediction, pending: tuple[str, ...], state: State) -> None:
    assert predict_state(looked, pending) is state
