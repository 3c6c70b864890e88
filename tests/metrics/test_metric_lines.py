"""What a line says of a training: each format of the table, and lines that say nothing."""

import time

import pytest

from ipexctl.run.output.metric_lines import Format
from ipexctl.run.output.training_state import Training
from ipexctl.run.watch.metric_formats import metric_formats

FORMATS = metric_formats()


@pytest.mark.parametrize("form", FORMATS.formats, ids=lambda form: form.name)
def test_each_format_has_an_example(form: Format):
    assert form.pattern.search(form.example)
    point = FORMATS.point(form.example)
    assert point is not None and point.says == form.gives


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("::metric step=3 loss=0.1 lr=1e-3", {"step": 3, "loss": 0.1, "lr": 0.001}),
        ("[rank0]: step 15  loss 0.0628", {"step": 15, "loss": 0.0628}),
        ("{'loss': '0.5', 'learning_rate': '5e-05', 'epoch': '0.1'}",
         {"loss": 0.5, "lr": 5e-5, "epoch": 0.1}),
        ("epoch 4 Box Loss: 0.2 Mask Loss: 0.3 Tot Loss: 0.5", {"epoch": 4, "loss": 0.5}),
        ("epoch 4 step 7 Contrastive Loss: 0.25", {"epoch": 4, "step": 7, "loss": 0.25}),
        ("epoch 4 step 7 mlm_loss: 0.25", {"epoch": 4, "step": 7, "loss": 0.25}),
        ("step 9 G loss: 1.5 D loss: 0.1", None),  # which one is the loss?
        ("step 9 lr 0.1 best_loss: 0.3", {"step": 9, "lr": 0.1}),
        ("[Iteration 12] 3 records/s. Loss is 0.75.", {"step": 12, "loss": 0.75}),
        ("step 3 {'total_loss': array(1.25, dtype=float32)}", {"step": 3, "loss": 1.25}),
        ("===== Epoch 3 of 10 =====", {"epoch": 3, "epochs": 10}),
        ("| epoch 3 | valid on 'valid' subset 40 / 90 loss=3.5", {"eval_loss": 3.5}),
    ],
)  # fmt: skip
def test_a_line_unlike_those_of_the_corpus(line: str, says: dict[str, float] | None):
    point = FORMATS.point(line)
    assert (point and point.says) == (says and pytest.approx(says))


@pytest.mark.parametrize(
    "line",
    [
        "", "hello", "num_train_epochs: 3", "Total optimization steps = 1,000", "loss: mse",
        "Map: 100%|###| 100/100 [00:00<00:00, 1234 examples/s]", "torch 2.13.0", "step size 0.1",
        "Downloading: 10%|#| 1.0M/10.0M [00:01<00:09, 1.00MB/s]", "batch size 32",
        "max_steps=100", "Loading checkpoint shards: 50%|##| 1/2 [00:01<00:01, 1.0s/it]",
        "loss_scale: 1024", "in step 3.5.1 of the docs",
    ],
)  # fmt: skip
def test_lines_that_say_nothing(line: str):
    assert FORMATS.point(line) is None


@pytest.mark.parametrize(
    "piece", ["1", "a ", "loss ", "step 1/", "[rank0]: ", "%|", "|", "'", "1,"]
)
def test_any_long_line_is_read_quickly(piece: str):
    began = time.process_time()  # other tests beside it take no CPU time of this process
    for _ in range(200):
        FORMATS.point(piece * 20_000)
        FORMATS.point("loss step 10%|" + piece * 900)
    assert time.process_time() - began < 10


def test_progress_of_ranks():
    training = Training(FORMATS)
    for step in range(1, 11):
        for rank in range(4):
            now = step * 0.5 + rank * 0.001
            training.lines(rank, [f"step {step}/100  loss {rank}.0"], now)
    found = training.progress(5.1)
    assert (found.step, found.total, found.loss) == (10, 100, 1.5)
    assert found.rate == pytest.approx(2.0)
    assert found.eta == pytest.approx(45.0)
    assert training.progress(500.0).rate is None


def test_a_bar_of_bytes_without_a_unit_is_no_training():
    """As torchvision draws the download of a dataset."""
    for bar in ("0/9912422 [00:00<?, ?it/s]", "9912422/9912422 [00:00<00:00, 19824843.31it/s]"):
        assert FORMATS.point(f" 45%|####5     | {bar}") is None
    steps = FORMATS.point(" 50%|#####     | 1000000/2000000 [10:00<10:00, 1666.70it/s]")
    assert steps is not None and (steps.step, steps.total) == (1_000_000, 2_000_000)


def test_of_a_loss_before_and_after_the_last_one_counts():
    point = FORMATS.point("world size 2, loss 14.0837 -> 5.9034")
    assert point and point.loss == 5.9034
