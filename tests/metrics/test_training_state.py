"""Where a training is, from the lines of its ranks."""

from __future__ import annotations

import pytest

from ipexctl.run.command.run_text import progress_words
from ipexctl.run.output.training_state import READ_EVERY, SETTLE, Training
from ipexctl.run.watch.metric_formats import metric_formats


def test_lines_of_the_past_make_no_rate():
    training = Training(metric_formats())
    for step in range(50):
        training.lines(0, [f"step {step}/120 loss 0.5"], 100.0 + step / 100)
    assert training.progress(100.6).rate is None
    for step in range(50, 60):
        training.lines(0, [f"step {step}/120 loss 0.5"], 100.0 + SETTLE + step)
    now = training.progress(162.0)
    assert now.rate == pytest.approx(1.0) and now.eta == pytest.approx(61.0)


def test_a_line_that_comes_too_soon_is_read_a_little_later():
    training = Training(metric_formats())
    training.lines(0, ["epoch 1 loss 0.9"], 10.0)
    training.lines(0, ["epoch 2 loss 0.5"], 10.1)
    assert training.progress(10.1).epoch == 1
    assert training.progress(10.1 + READ_EVERY).epoch == 2


def test_a_loss_that_is_none_names_its_rank_and_leaves_the_mean_alone():
    training = Training(metric_formats())
    for rank, loss in enumerate(("0.5", "nan", "0.7")):
        training.lines(rank, [f"step 3/9 loss {loss}"], 1.0)
    said = list(progress_words(training.progress(1.0)))
    assert said == ["step 3/9", "loss 0.6", "loss nan on r1"]


def test_time_left_of_an_epochs_bar_says_so():
    training = Training(metric_formats())
    training.lines(0, ["Epoch 2/3:  30%|##  | 19/60 [00:02<00:06, 6.8it/s]"], 1.0)
    said = list(progress_words(training.progress(1.0)))
    assert said == ["epoch 2/3", "step 19/60", "6.8 it/s", "eta 6 s (epoch)"]
    training.lines(0, [" 30%|##  | 90/300 [00:02<00:06, 7.0it/s]"], 2.0)
    assert "eta 30 s" in list(progress_words(training.progress(2.0)))


def test_of_ranks_without_steps_the_loss_is_that_of_one():
    training = Training(metric_formats())
    training.lines(0, ["epoch 1 loss 1.0"], 1.0)
    training.lines(1, ["epoch 1 loss 0.5"], 1.0)
    assert training.progress(1.0).loss == 1.0


def test_the_trainers_last_words_are_no_loss_of_a_step():
    training = Training(metric_formats())
    training.lines(0, ["{'loss': 0.2, 'epoch': 1.0}"], 1.0)
    training.lines(0, ["{'train_runtime': 41.0, 'train_loss': 1.0, 'epoch': 1.0}"], 2.0)
    assert training.progress(3.0).loss == 0.2
