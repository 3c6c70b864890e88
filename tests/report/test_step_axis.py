"""Where a printed value stands: from the lines of a rank, as a script prints them."""

from __future__ import annotations

import pytest

from ipexctl.report.material.report_material import Attempt, Material
from ipexctl.report.run_report import with_output
from ipexctl.report.sections import loss, metrics
from ipexctl.run.jobs.metrics import MetricReader, RankPoint
from tests.report.made_run import made

ID = made().id


def lines(*texts: str, rank: int = 0) -> list[RankPoint]:
    reader = MetricReader(named=True)
    reader.add_lines(made(), "node01", rank, texts)
    return reader.points


def curves(*attempts: list[RankPoint]) -> dict[str, tuple]:
    """Title -> axis, and (x, value) of each series."""
    ids = [ID, *(f"{ID}-r{n:02d}" for n in range(2, len(attempts) + 1))]
    runs = [Attempt(made(id=one)) for one in ids]
    found = with_output(runs, dict(zip(ids, attempts, strict=True)))
    of = Material(tuple(found), made="")
    charts = [
        {"title": "loss", **(loss.section_document(of)["loss"] or {})},
        *metrics.section_document(of)["metrics"],
    ]
    return {
        chart["title"]: (chart["axis"], *map(dict, _series(chart)))
        for chart in charts
        if "axis" in chart
    }


def _series(chart: dict) -> list:
    ys = (series["y"] for series in chart["series"])
    return [
        [(x, y) for x, y in zip(chart["x"], values, strict=True) if y is not None] for values in ys
    ]


def bar(step: int, total: int = 30, *, title: str = "", more: str = "") -> str:
    return f"{title}{100 * step // total:3}%|##   | {step}/{total} [00:01<00:09,  1.00it/s{more}]"


def test_trainer_logs_have_the_step_of_the_bar_below():
    logs = [bar(0)]
    for step in (5, 10):
        logs.append(bar(step - 2))  # tqdm draws at most every 0.1 s
        logs.append(f"{{'loss': '{step / 10}', 'grad_norm': '1.5', 'epoch': '{step / 10}'}}")
        logs.append(bar(step))
    logs += [bar(2, 3), "{'eval_loss': '0.7', 'eval_accuracy': '0.45', 'epoch': '1'}", bar(10)]
    found = curves(lines(*logs))
    assert found["loss"] == ("step", {5: 0.5, 10: 1.0}, {10: 0.7})
    assert found["grad_norm"] == ("step", {5: 1.5, 10: 1.5})
    assert found["eval_accuracy"] == ("step", {10: 0.45})


def test_trainer_without_a_bar_has_epochs():
    logs = ("{'loss': 0.5, 'epoch': 0.5}", "{'loss': 0.4, 'epoch': 1.0}")
    found = curves(lines(*logs, "{'eval_loss': 0.7, 'epoch': 1.0}"))
    assert found["loss"] == ("epoch", {0.5: 0.5, 1: 0.4}, {1: 0.7})


def test_losses_alone_are_counted():
    assert curves(lines("loss 0.5", "loss 0.4"))["loss"] == ("logged value n", {1: 0.5, 2: 0.4})
    same = curves(lines("epoch 1 loss 0.5", "epoch 1 loss 0.4"))
    assert same["loss"][0] == "logged value n"
    last = lines("loss 0.4", rank=1)  # it prints what it has at the end alone
    assert curves(lines("loss 0.5", "loss 0.4") + last)["loss"][1] == {1: 0.5, 2: 0.4}


def test_each_epoch_of_lightning_goes_on_where_the_last_one_ended():
    logs = []
    for epoch in range(3):
        logs.append(bar(0, 2, title=f"Epoch {max(0, epoch - 1)}: ", more=", train_loss=9.0"))
        for step in (1, 2):
            loss = epoch + step / 10
            stale = f", train_loss={loss - 0.1:.1f}"
            logs.append(bar(step, 2, title=f"Epoch {epoch}: ", more=stale))
            logs.append(bar(step, 2, title=f"Epoch {epoch}: ", more=f", train_loss={loss:.1f}"))
    axis, loss = curves(lines(*logs))["loss"]
    assert axis == "step" and [loss[x] for x in (1, 3, 5, 6)] == [0.1, 1.1, 2.1, 2.2]


def test_epochs_without_a_total_are_counted():
    logs = ("[1,  2000] loss: 2.2", "[1,  4000] loss: 2.1", "[2,  2000] loss: 2.0")
    axis, loss = curves(lines(*logs))["loss"]
    assert axis != "step" and len(loss) == 3


def test_an_evaluation_has_its_own_step_where_that_fits():
    logs = ("step 10 loss 0.5", "step 10 val_loss 0.6", "step 20 loss 0.4", "step 3 val_loss 0.7")
    found = curves(lines(*logs))
    assert found["loss"] == ("step", {10: 0.5, 20: 0.4})
    assert found["evaluation loss"][0] == "last printed step"
    assert curves(lines(*logs[:3]))["loss"] == ("step", {10: 0.5, 20: 0.4}, {10: 0.6})


def test_results_of_an_epoch_stand_at_the_epoch():
    logs = ("step 4: loss=0.5", "epoch 0: {'accuracy': 0.8, 'f1': 0.7}", "step 8: loss=0.4")
    found = curves(lines(*logs, "epoch 1: {'accuracy': 0.9, 'f1': 0.75}"))
    assert found["accuracy"] == ("epoch", {0: 0.8, 1: 0.9}) and found["f1"][1] == {0: 0.7, 1: 0.75}


def test_attempts_are_lines_of_one_chart():
    first = lines("step 1 loss 0.9 acc 0.1", "step 2 loss 0.8 acc 0.2")
    second = lines("step 2 loss 0.7 acc 0.3", "step 3 loss nan acc 0.4")
    found = curves(first, second)
    assert found["loss"] == ("step", {1: 0.9, 2: 0.8}, {2: 0.7})
    assert found["acc"] == ("step", {1: 0.1, 2: 0.2}, {2: 0.3, 3: 0.4})


@pytest.mark.parametrize("value", ["nan", "inf", "1.7e308", "-1e300"])
def test_odd_values_break_no_curve(value: str):
    axis, loss = curves(lines("step 1 loss 0.5", f"step 2 loss {value}"))["loss"]
    assert axis == "step" and loss[1] == 0.5
