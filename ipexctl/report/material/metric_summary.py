"""The metrics that ranks print: their names, and the last and the best value of each. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any

from ipexctl.report.material import curves
from ipexctl.report.material.host_record import Printed
from ipexctl.report.material.report_material import Attempt
from ipexctl.report.material.training_curves import (
    EVALUATIONS,
    common_axis,
    field_values,
    metric_values,
    points_along,
)

MOST_METRICS = 40
POINTS = 150  # of a curve
COUNTERS = ("step", "epoch")
LOSSES = ("loss", "eval_loss")  # fields of a printed line
_LOWER = re.compile(
    r"(?:^|[_/.-])(?:\w*loss|\w*err(?:or)?|nll|ppl|perplexity|mae|r?mse|wer|cer|fid)(?:$|[_/.-])",
    re.I,
)
_HIGHER = re.compile(
    r"(?:^|[_/.-])(?:acc\w*|\w*f1|auc|auroc|bleu|rouge\w*|m?ap|m?iou|precision|recall|r2|psnr|ssim"
    r"|\w*reward|\w*score|top\d)(?:$|[_/.@-])",
    re.I,
)


def better_end(name: str) -> str:
    """Return which values of a metric are better: "low", "high", or "" if its name does not say."""
    return "low" if _LOWER.search(name) else "high" if _HIGHER.search(name) else ""


def metric_names(printed: Iterable[Printed]) -> list[str]:
    lines = list(printed)
    losses = [name for name in LOSSES if any(getattr(p, name) is not None for p in lines)]
    others = dict.fromkeys(name for line in lines for name, _ in line.numbers)
    return [*losses, *(name for name in others if name not in (*COUNTERS, *losses))][:MOST_METRICS]


def script_names(printed: Iterable[Printed]) -> Mapping[str, str]:
    """Return what scripts themselves call their losses: {"eval_loss": "val_loss"}."""
    spelled = Counter(pair for line in printed for pair in line.spelled)
    names: dict[str, str] = {}
    for (loss, name), _ in spelled.most_common():
        names.setdefault(loss, name)
    return {loss: name for loss, name in names.items() if list(names.values()).count(name) == 1}


def ranking_metric(names: Sequence[str]) -> str:
    """Return the metric by which runs are compared: an evaluation's if there is one."""
    known = [name for name in names if better_end(name)]
    return next((name for name in known if name.startswith(EVALUATIONS)), next(iter(known), ""))


def summarize_metric(attempt: Attempt, name: str) -> dict[str, Any] | None:
    """Return the last and the best value of a metric, where that is, and its curve; None without
    values. `last` None: it is nan or infinite, as `ends` says."""
    rows = (field_values if name in LOSSES else metric_values)([attempt], name)
    axis = common_axis(rows)
    points = points_along(rows[0], axis)
    if not points:
        return None
    last, end = max(points, key=lambda point: point[0])[1], better_end(name)
    finite = [point for point in points if isfinite(point[1])]
    choose = min if end == "low" else max
    best = choose(finite, key=lambda point: point[1]) if end and finite else None
    x = curves.thin_values((place for place, _ in finite), POINTS)
    return {
        "last": last if isfinite(last) else None,
        "ends": str(last),
        "best": best and best[1],
        "best_at": best and best[0],
        "axis": axis,
        "x": list(x),
        "y": list(curves.make_curve(finite, x).middle),
    }
