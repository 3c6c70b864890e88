"""Curves of what the ranks print: loss, speed, and every other named number.

The position of a value is its step, its epoch, or its position in the output.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any

from ipexctl.report.material import curves
from ipexctl.report.material.curves import Point
from ipexctl.report.material.host_record import Printed, group_by_rank
from ipexctl.report.material.report_material import Attempt, Material

STEP, EPOCH, LAST, COUNT = "step", "epoch", "last printed step", "logged value n"
ENOUGH = 0.75  # of the values have a step: others are left out
Value = tuple[Printed, float]


def with_steps(attempts: Sequence[Sequence[Printed]]) -> list[tuple[Printed, ...]]:
    """Count steps from the start of training where each epoch counts from 0, and add steps to lines
    whose step is in a neighbouring line. The order of a rank's lines is kept."""
    ranks = [group_by_rank((line.rank, line) for line in lines).values() for lines in attempts]
    all_rows = [row for rows in ranks for row in rows]
    first: float | None = None
    if any(start != 0 for row in all_rows for start in _epoch_starts(row)):
        epochs = [line.epoch for row in all_rows for line in row if line.step is not None]
        first = min((e for e in epochs if e is not None), default=None)
    return [
        tuple(line for row in rows for line in _number_lines(row, _epoch_starts(row, first)))
        for rows in ranks
    ]


def _epoch_starts(lines: Sequence[Printed], first_epoch: float | None = None) -> list[int | None]:
    """Return for each line the step at which its count began; None if lines do not show it."""
    start: int | None = 0
    previous = begin = None
    starts = list[int | None]()
    for line in lines:
        if line.step is not None:
            if previous is None and first_epoch is not None and line.epoch and line.total:
                start = int(line.epoch - first_epoch) * line.total
            if previous is not None and begin is not None and _begins_again(line, previous, begin):
                start = None if start is None or not previous.total else start + previous.total
                begin = line
            previous, begin = line, begin or line
        starts.append(start)
    return starts


def _begins_again(line: Printed, previous: Printed, begin: Printed) -> bool:
    """Decide if a new epoch restarts the count; a script may also go back for other reasons."""
    assert line.step is not None and previous.step is not None and begin.step is not None
    if line.step >= previous.step:
        return False
    later = line.epoch is not None and previous.epoch is not None and line.epoch > previous.epoch
    return later or line.step <= begin.step


def _number_lines(lines: Sequence[Printed], starts: Sequence[int | None]) -> list[Printed]:
    """Add steps to lines: a line above a progress bar gets the step of the bar, which tqdm redraws
    below it. An evaluation's own step counts if it fits between its neighbours."""
    printed: list[int | None] = []  # the step printed last before each line
    last: int | None = None
    for line in lines:
        printed.append(last)
        last = last if line.step is None else line.step
    following: Printed | None = None
    numbered = list[Printed]()
    for line, start, previous in reversed([*zip(lines, starts, printed, strict=True)]):
        step = line.step
        if step is None:
            step = _fitting_step(line, previous, following.step if following else None)
        if step is None and following and following.bar and following.loss is None:
            step = following.step
        following = following if line.step is None else line
        line = replace(line, total=line.total if start == 0 and starts[-1] == 0 else None)
        if start is None:
            numbered.append(replace(line, step=None, last=None))
            continue
        steps = [start + number for number in (step, previous) if number is not None]
        numbered.append(
            replace(line, step=steps[0] if step is not None else None, last=(*steps, None)[0])
        )
    return numbered[::-1]


def _fitting_step(line: Printed, previous: int | None, following: int | None) -> int | None:
    step = dict(line.numbers).get("step")
    fits = step is not None and (previous or 0) <= step and (following is None or step <= following)
    return int(step) if fits and step is not None else None


def common_axis(rows: Sequence[Sequence[Value]]) -> str:
    """Return the best axis that all values share. `rows`: of one name and attempt each."""
    lines = [line for row in rows for line, _ in row]
    with_step = sum(line.step is not None for line in lines)
    if lines and with_step >= ENOUGH * len(lines):
        return STEP
    if all(line.epoch is not None for line in lines) and all(map(_epochs_differ, rows)):
        return EPOCH
    return LAST if all(line.last is not None for line in lines) else COUNT


def _epochs_differ(values: Sequence[Value]) -> bool:
    """Decide whether each value of a rank has an epoch of its own."""
    places = {(line.rank, line.epoch) for line, _ in values}
    return len(places) == len(values)


def points_along(values: Sequence[Value], axis: str) -> list[Point]:
    """Return points of one attempt's values. A bar is drawn repeatedly at a step: the last value
    counts. Along a count, only ranks that print most are used: what another rank prints only at the
    end is not its first value.
    """
    if axis == COUNT:
        printed = Counter(line.rank for line, _ in values)
        highest = max(printed.values(), default=0)
        values = [v for v in values if printed[v[0].rank] == highest]
    counts: dict[int, int] = {}
    points = list[Point]()
    bars: dict[tuple[int, float], float] = {}
    for line, value in values:
        counts[line.rank] = counts.get(line.rank, 0) + 1
        place = {STEP: line.step, EPOCH: line.epoch, LAST: line.last}.get(axis, counts[line.rank])
        if place is not None and line.bar:
            bars[line.rank, float(place)] = value
        elif place is not None:
            points.append((float(place), value))
    return [*points, *((place, value) for (_, place), value in bars.items())]


def without_repeats(values: Sequence[Value]) -> list[Value]:
    """Drop repeated evaluations: a bar repeats the last value until there is a new one."""
    last: dict[int, float] = {}
    changed = list[Value]()
    for line, value in values:
        if not line.bar or last.get(line.rank) != value:
            changed.append((line, value))
        last[line.rank] = value
    return changed


EVALUATIONS = ("eval", "val", "test")
Row = tuple[str, Sequence[Sequence[Value]]]  # name, and the values of each attempt


def share_an_axis(material: Material) -> bool:
    """Decide whether the loss and the evaluation loss share an axis."""
    losses, other = (field_values(material.attempts, name) for name in ("loss", "eval_loss"))
    return any(losses) and common_axis(losses) == common_axis(other if any(other) else losses)


def field_values(attempts: Sequence[Attempt], name: str) -> list[list[Value]]:
    rows = ([(line, getattr(line, name)) for line in attempt.printed] for attempt in attempts)
    return _known_values(rows, name)


def metric_values(attempts: Sequence[Attempt], name: str) -> list[list[Value]]:
    rows = ([(p, dict(p.numbers).get(name)) for p in attempt.printed] for attempt in attempts)
    return _known_values(rows, name)


def _known_values(
    rows: Iterable[Sequence[tuple[Printed, float | None]]], name: str
) -> list[list[Value]]:
    known = ([(line, value) for line, value in row if value is not None] for row in rows)
    shorten = without_repeats if name.startswith(EVALUATIONS) else list[Value]
    return [shorten(row) for row in known]


def attempts_chart(rows: Sequence[Row]) -> dict[str, Any] | None:
    """Chart each attempt as a line of its own: a later one repeats steps of an earlier one."""
    axis = common_axis([values for _, attempts in rows for values in attempts])
    series = []
    for name, attempts in rows:
        for number, values in enumerate(attempts, 1):
            suffix = f", attempt {number}" if len(attempts) > 1 else ""
            if curve := points_along(values, axis):
                series.append((name + suffix, curve))
    if not series:
        return None
    x = curves.thin_values(place for _, points in series for place, _ in points)
    places = [place for _, points in series for place, value in points if not isfinite(value)]
    note = f"nan or inf first at {axis.removesuffix(' n')} {min(places):,.6g}" if places else ""
    return {**curves.make_chart(axis, "", x, series, band=True), "note": note}
