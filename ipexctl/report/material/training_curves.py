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
from ipexctl.report.material.host_record import Printed
from ipexctl.report.material.report_material import Attempt, Material

STEP, EPOCH, LAST, COUNT = "step", "epoch", "last printed step", "logged value n"
ENOUGH = 0.75  # of the values have a step: others are left out
Value = tuple[Printed, float]


def with_steps(
    attempts: Sequence[Sequence[Printed]],
) -> list[tuple[Printed, ...]]:
    """Count steps from the start of training where each epoch counts from 0, and add steps to lines
    whose step is in a neighbouring line. The order of a rank's lines is kept."""
    ranks = [_by_rank(lines) for lines in attempts]
    every = [own for rows in ranks for own in rows]
    starts = [_epoch_starts(own) for own in every]
    if any(start != 0 for one in starts for start in one):
        epochs = [p.epoch for own in every for p in own if p.step is not None]
        first = min((e for e in epochs if e is not None), default=None)
        starts = [_epoch_starts(own, first) for own in every]
    placed = iter(_number_lines(own, start) for own, start in zip(every, starts, strict=True))
    return [tuple(p for _ in rows for p in next(placed)) for rows in ranks]


def _by_rank(lines: Iterable[Printed]) -> list[list[Printed]]:
    found: dict[int, list[Printed]] = {}
    for one in lines:
        found.setdefault(one.rank, []).append(one)
    return [found[rank] for rank in sorted(found)]


def _epoch_starts(lines: Sequence[Printed], first_epoch: float | None = None) -> list[int | None]:
    """Return for each line the step at which its count began; None if lines do not show it."""
    start: int | None = 0
    before = begin = None
    found = list[int | None]()
    for one in lines:
        if one.step is not None:
            if before is None and first_epoch is not None and one.epoch and one.total:
                start = int(one.epoch - first_epoch) * one.total
            if before is not None and begin is not None and _begins_again(one, before, begin):
                start = None if start is None or not before.total else start + before.total
                begin = one
            before, begin = one, begin or one
        found.append(start)
    return found


def _begins_again(one: Printed, before: Printed, begin: Printed) -> bool:
    """Decide if a new epoch restarts the count; a script may also go back for other reasons."""
    assert one.step is not None and before.step is not None and begin.step is not None
    if one.step >= before.step:
        return False
    later = one.epoch is not None and before.epoch is not None and one.epoch > before.epoch
    return later or one.step <= begin.step


def _number_lines(lines: Sequence[Printed], starts: Sequence[int | None]) -> list[Printed]:
    """Add steps to lines: a line above a progress bar gets the step of the bar, which tqdm redraws
    below it. An evaluation's own step counts if it fits between its neighbours."""
    above: list[int | None] = []  # the step printed last before each line
    last: int | None = None
    for one in lines:
        above.append(last)
        last = last if one.step is None else one.step
    below: Printed | None = None
    found = list[Printed]()
    for one, start, before in reversed([*zip(lines, starts, above, strict=True)]):
        step = one.step
        if step is None:
            step = _fitting_step(one, before, below.step if below else None)
        if step is None and below and below.bar and below.loss is None:
            step = below.step
        below = below if one.step is None else one
        one = replace(one, total=one.total if start == 0 and starts[-1] == 0 else None)
        if start is None:
            found.append(replace(one, step=None, last=None))
            continue
        near = [start + s for s in (step, before) if s is not None]
        found.append(
            replace(one, step=near[0] if step is not None else None, last=(*near, None)[0])
        )
    return found[::-1]


def _fitting_step(one: Printed, before: int | None, after: int | None) -> int | None:
    own = dict(one.numbers).get("step")
    fits = own is not None and (before or 0) <= own and (after is None or own <= after)
    return int(own) if fits and own is not None else None


def common_axis(rows: Sequence[Sequence[Value]]) -> str:
    """Return the best axis that all values share. `rows`: of one name and attempt each."""
    every = [one for row in rows for one, _ in row]
    known = sum(one.step is not None for one in every)
    if every and known >= ENOUGH * len(every):
        return STEP
    if all(one.epoch is not None for one in every) and all(map(_epochs_differ, rows)):
        return EPOCH
    return LAST if all(one.last is not None for one in every) else COUNT


def _epochs_differ(values: Sequence[Value]) -> bool:
    """Decide whether each value of a rank has an epoch of its own."""
    places = {(one.rank, one.epoch) for one, _ in values}
    return len(places) == len(values)


def points_along(values: Sequence[Value], along: str) -> list[Point]:
    """Return points of one attempt's values. A bar is drawn repeatedly at a step: the last value
    counts. Along a count, only ranks that print most are used: what another rank prints only at the
    end is not its first value.
    """
    if along == COUNT:
        printed = Counter(one.rank for one, _ in values)
        most = max(printed.values(), default=0)
        values = [v for v in values if printed[v[0].rank] == most]
    counts: dict[int, int] = {}
    found = list[Point]()
    bars: dict[tuple[int, float], float] = {}
    for one, value in values:
        counts[one.rank] = counts.get(one.rank, 0) + 1
        at = {STEP: one.step, EPOCH: one.epoch, LAST: one.last}.get(along, counts[one.rank])
        if at is not None and one.bar:
            bars[one.rank, float(at)] = value
        elif at is not None:
            found.append((float(at), value))
    return [*found, *((at, value) for (_, at), value in bars.items())]


def without_repeats(values: Sequence[Value]) -> list[Value]:
    """Drop repeated evaluations: a bar repeats the last value until there is a new one."""
    last: dict[int, float] = {}
    found = list[Value]()
    for one, value in values:
        if not one.bar or last.get(one.rank) != value:
            found.append((one, value))
        last[one.rank] = value
    return found


EVALUATIONS = ("eval", "val", "test")
Row = tuple[str, Sequence[Sequence[Value]]]  # name, and the values of each attempt


def share_an_axis(of: Material) -> bool:
    """Decide whether the loss and the evaluation loss share an axis."""
    one, other = (field_values(of.attempts, name) for name in ("loss", "eval_loss"))
    return any(one) and common_axis(one) == common_axis(other if any(other) else one)


def field_values(attempts: Sequence[Attempt], name: str) -> list[list[Value]]:
    rows = ([(one, getattr(one, name)) for one in a.printed] for a in attempts)
    return known_values(rows, name)


def known_values(
    rows: Iterable[Sequence[tuple[Printed, float | None]]], name: str
) -> list[list[Value]]:
    found = ([(one, value) for one, value in row if value is not None] for row in rows)
    shorten = without_repeats if name.startswith(EVALUATIONS) else list[Value]
    return [shorten(row) for row in found]


def attempts_chart(rows: Sequence[Row]) -> dict[str, Any] | None:
    """Chart each attempt as a line of its own: a later one repeats steps of an earlier one."""
    axis = common_axis([values for _, attempts in rows for values in attempts])
    series = []
    for name, attempts in rows:
        for number, values in enumerate(attempts, 1):
            again = f", attempt {number}" if len(attempts) > 1 else ""
            if found := points_along(values, axis):
                series.append((name + again, found))
    if not series:
        return None
    x = curves.thin_values(at for _, points in series for at, _ in points)
    odd = [at for _, points in series for at, value in points if not isfinite(value)]
    note = f"nan or inf first at {axis.removesuffix(' n')} {min(odd):,.6g}" if odd else ""
    return {**curves.make_chart(axis, "", x, series, band=True), "note": note}
