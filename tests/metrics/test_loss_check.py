"""A loss that becomes nan or infinite: since when, and what is no such loss."""

from __future__ import annotations

import pytest

from ipexctl.run.output.loss_check import LossWatch, bad_loss
from ipexctl.run.output.metric_lines import LineReader
from ipexctl.run.watch.metric_formats import metric_formats


def read(lines: list[str]) -> str:
    reader = LineReader(metric_formats())
    return str(bad_loss(point for line in lines if (point := reader.point(line))) or "")


GOOD = [f"step {i} loss 0.{9 - i}" for i in range(5)]
NAN = [f"step {i} loss nan" for i in range(5, 9)]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([*GOOD, *NAN], "nan since step 5"),
        ([*GOOD, NAN[0]], "nan at step 5"),
        ([*GOOD, "step 5 loss inf", *NAN], "nan since step 5"),
        ([*GOOD, "step 5: loss=-inf", "step 6: loss=-inf"], "inf since step 5"),
        (["epoch 1 loss 0.5", "epoch 2 loss nan", "epoch 3 loss nan"], "nan since epoch 2"),
        (["loss 0.5", "loss nan", "loss nan"], "nan"),
        # as Transformers' Trainer prints them
        (["{'loss': 'nan', 'grad_norm': 'nan', 'epoch': 0.5}"] * 2, "nan at epoch 0.5"),
    ],
)
def test_a_loss_that_stays_bad(lines: list[str], said: str) -> None:
    assert read(lines) == said


@pytest.mark.parametrize(
    "lines",
    [
        [],
        GOOD,
        [*NAN[:2], "step 9 loss 0.5"],  # it came back
        ["step 0 loss nan", *GOOD],  # the mean of nothing
        [*GOOD, "loss nan"],  # alone, and of no step
        [*GOOD, *["eval_loss nan"] * 3],  # an empty split
        [*GOOD, *[f"step {i} val_loss: nan" for i in range(5, 9)]],
        [*GOOD, *[f"step {i} loss 0.1 grad_norm inf" for i in range(5, 9)]],  # a gradient scaler
        [*GOOD, "info: nan_to_num is used", "nandini: loss"],
        [*GOOD, *["step 5 loss nan", "step 6 loss 0.1"] * 4],
    ],
)
def test_what_is_no_bad_loss(lines: list[str]) -> None:
    assert read(lines) == ""
    watch = LossWatch(metric_formats)
    assert not any(watch.lines(0, [line]) for line in lines) and not watch.end(0)


def test_a_run_that_goes_on_is_noted_once_when_it_stays_bad() -> None:
    watch = LossWatch(metric_formats)
    said = [watch.lines(rank, [line]) for line in [*GOOD, *NAN, *NAN] for rank in (0, 1)]
    assert [str(one) for one in said if one] == ["nan since step 5"]
    assert watch.end(0) is None


def test_a_bar_that_is_drawn_again_at_the_same_step_counts_once() -> None:
    watch = LossWatch(metric_formats)
    bar = " 5%|#         | 5/100 [00:01<00:20,  4.9it/s, loss=nan]"
    assert not any(watch.lines(0, [bar]) for _ in range(9))
    assert str(watch.end(0)) == "nan at step 5"
