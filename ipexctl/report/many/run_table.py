"""The data that the page of many runs shows, as one JSON document. Pure."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any

from ipexctl.base.secret_mask import SecretMask
from ipexctl.base.sizes import duration
from ipexctl.inventory.nodeset import fold
from ipexctl.quick_dataclass import dataclass
from ipexctl.report.material import curves
from ipexctl.report.material.host_record import Printed
from ipexctl.report.material.report_material import Attempt
from ipexctl.report.material.training_curves import (
    common_axis,
    field_values,
    metric_values,
    points_along,
)
from ipexctl.report.sections.metrics import COUNTERS, MOST_CURVES
from ipexctl.report.sections.settings import read_arguments, split_script
from ipexctl.run.outcome.listed_runs import ListedRun, ListedState
from ipexctl.run.pace.run_speed import Speed

MOST_SETTINGS = 16  # columns
POINTS = 150  # of a curve
LONGEST = 200  # characters of a value
OWN_METRICS = ("loss", "eval_loss")
_LOWER = re.compile(
    r"(?:^|[_/.-])(?:\w*loss|\w*err(?:or)?|nll|ppl|perplexity|mae|r?mse|wer|cer|fid)(?:$|[_/.-])",
    re.I,
)
_HIGHER = re.compile(
    r"(?:^|[_/.-])(?:acc\w*|\w*f1|auc|auroc|bleu|rouge\w*|m?ap|m?iou|precision|recall|r2|psnr|ssim"
    r"|\w*reward|\w*score|top\d)(?:$|[_/.@-])",
    re.I,
)


@dataclass(frozen=True)
class KnownRun:
    """What is known of a run. A part is None if nothing recorded it."""

    run: ListedRun
    parts: Mapping[str, Mapping[str, str] | None]  # arguments, variables, versions, hosts, ...
    printed: tuple[Printed, ...] = ()
    speed: Speed | None = None
    tree: str = ""  # the hash of what was sent
    links: tuple[tuple[str, str], ...] = ()  # what was found in its folder here: name, address
    only_here: bool = False  # its hosts do not have it, or were not reached
    attempts: int = 1
    given: frozenset[str] = frozenset()  # variables that the user set


def runs_document(runs: Sequence[KnownRun], mask: SecretMask) -> dict[str, Any]:
    """Return the document, without what is the same for all pages. The newest run is first."""
    tables: dict[str, int] = {}  # as JSON: most runs share their packages and files
    rows = []
    names = dict.fromkeys(name for known in runs for name in metric_names(known.printed))
    for known in runs:
        parts = dict[str, int | None]()
        for part, values in known.parts.items():
            parts[part] = None
            if values is not None:
                shown = mask.mask_document({key: text[:LONGEST] for key, text in values.items()})
                parts[part] = tables.setdefault(json.dumps(shown), len(tables))
        rows.append({**_row_document(known, list(names), mask), "parts": parts})
    return {
        "settings": differing_settings(runs),
        "metrics": [{"name": name, "better": better_end(name)} for name in names],
        "runs": rows,
        "tables": [*map(json.loads, tables)],
    }


def differing_settings(runs: Sequence[KnownRun]) -> list[tuple[str, str]]:
    """Return (part, name) of the arguments, and of the user's variables, whose values differ."""
    found, given = [], frozenset[str]().union(*(run.given for run in runs))
    for part in ("arguments", "variables"):
        known = [values for run in runs if (values := run.parts.get(part)) is not None]
        for name in dict.fromkeys(name for values in known for name in values):
            own = part == "arguments" or name in given
            if own and len({values.get(name) for values in known}) > 1:
                found.append((part, name))
    return found[:MOST_SETTINGS]


def arguments_of(argv: Sequence[str]) -> dict[str, str]:
    """Return the script and its arguments with their values; one may be given repeatedly."""
    script, arguments = split_script(argv)
    found = {"script": " ".join(script)}
    for name, value in read_arguments(arguments):
        found[name] = " ".join(filter(None, (found.get(name), value)))
    return found


def better_end(name: str) -> str:
    """Return which values of a metric are better: "low", "high", or "" if its name does not say."""
    return "low" if _LOWER.search(name) else "high" if _HIGHER.search(name) else ""


def metric_names(printed: Iterable[Printed]) -> list[str]:
    lines = list(printed)
    own = [name for name in OWN_METRICS if any(getattr(p, name) is not None for p in lines)]
    others = dict.fromkeys(name for line in lines for name, _ in line.numbers)
    return [*own, *(name for name in others if name not in (*COUNTERS, *own))][:MOST_CURVES]


def _row_document(known: KnownRun, names: Sequence[str], mask: SecretMask) -> dict[str, Any]:
    run, speed = known.run, known.speed
    unknown = known.only_here and run.state is ListedState.LOST  # it may also go on
    attempt = Attempt(run, printed=known.printed, speed=speed)
    metrics = {name: values for name in names if (values := metric_document(attempt, name))}
    return {
        "id": run.id,
        "name": run.about.name,
        "state": "unknown" if unknown else run.state.value,
        "cause": mask.mask_text(run.cause),
        "began": run.began or None,
        "when": run.began and time.strftime("%Y-%m-%d %H:%M", time.localtime(run.began)),
        "seconds": round(run.seconds, 1) or None,
        "took": duration(run.seconds) if run.seconds else "",
        "commit": run.about.commit,
        "tree": known.tree[:8],
        "command": mask.mask_text(run.about.command),
        "hosts": fold(run.about.hosts),
        "ranks": run.about.ranks,
        "speed": speed and speed.document(),
        "metrics": metrics,
        "links": known.links,
        "only_here": known.only_here,
        "attempts": known.attempts,
    }


def metric_document(attempt: Attempt, name: str) -> dict[str, Any] | None:
    """Return the last and the best value of a metric, where that is, and its curve; None without
    values. `last` None: it is nan or infinite, as `ends` says."""
    rows = (field_values if name in OWN_METRICS else metric_values)([attempt], name)
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
