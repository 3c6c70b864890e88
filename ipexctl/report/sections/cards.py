"""The numbers of a run on the first screen: speed, loss, best metrics, time, waiting."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from statistics import median
from typing import Any

from ipexctl.base.sizes import duration, short_duration
from ipexctl.inventory.nodeset import fold
from ipexctl.report.material.metric_summary import (
    better_end,
    metric_names,
    script_names,
    summarize_metric,
)
from ipexctl.report.material.report_material import Attempt, Material
from ipexctl.report.material.training_curves import STEP, common_axis, field_values, points_along
from ipexctl.report.sections.waiting import is_crowded, name_parts

MOST_BEST = 3  # metrics


def section_document(material: Material) -> dict[str, Any]:
    last = material.last
    cards = [_speed_card(material), _loss_card(material), *_best_cards(material)]
    cards.append(_time_card(material))
    more = [*_checkpoint_cards(material)]
    # where other programs hold the CPUs, what the ranks wait for is not the run's own doing
    (more if is_crowded(last) else cards).append(_waiting_card(last))
    return {"cards": [*cards, *more]}


def _make_card(label: str, value: str, note: str = "", tone: str = "") -> dict[str, str]:
    return {"label": label, "value": value, "note": note, "tone": tone}


def _speed_card(material: Material) -> dict[str, str]:
    last, other = material.last, material.other
    speed = last.speed
    if speed is None:
        return _make_card("Speed", "unknown", "too few numbered steps or epochs in the output")
    note = f"{speed.unit_time} {'an' if speed.unit == 'epoch' else 'a'} {speed.unit}"
    note += f" in attempt {last.run.attempt}" if len(material.attempts) > 1 else ""
    if other and other.speed and other.speed.unit == speed.unit:
        note = f"{other.speed} in {material.other_name}"
        if speed.is_comparable and other.speed.is_comparable:
            note = f"{speed.rate / other.speed.rate - 1:+.0%} against {note}"
    return _make_card("Speed", str(speed), note)


def _loss_card(material: Material) -> dict[str, str]:
    last = material.last
    end = _loss_ends([last])
    if end is None:
        return _make_card("Loss", "unknown", "the output has no losses")
    axis, place, value = end
    total = max((line.total for line in last.printed if line.total is not None), default=None)
    note = f"at {axis.removesuffix(' n')} {place:,.6g}"
    note += f" of {total:,}" if total and axis == STEP else ""
    if material.other and (other_end := _loss_ends([material.other])):
        note += f"; {other_end[2]:.4g} in {material.other_name}"
    elif first := _loss_ends(material.attempts, first=True):
        note += f"; {first[2]:.4g} at first"
    if last.bad_loss:
        return _make_card("Loss", str(last.bad_loss), note, "warm")
    return _make_card("Loss", f"{value:.4g}", note)


def _time_card(material: Material) -> dict[str, str]:
    last = material.last
    note = "no step was printed"
    if last.training:
        note = f"{short_duration(last.training[0])} until the first printed step"
    if len(material.attempts) > 1:
        text = duration(last.run.seconds)
        between = f", {duration(material.seconds_between)} between them"
        note = f"all attempts{between}; {text} in attempt {last.run.attempt}: {note}"
    if material.other:
        note = f"{duration(material.other.run.seconds)} in {material.other_name}"
    return _make_card("Time", duration(material.seconds), note)


def _waiting_card(last: Attempt) -> dict[str, str]:
    shares = last.time_shares
    if shares is None:
        return _make_card("Waiting", "unknown", "too few samples of the ranks' CPUs")
    waits = 1 - shares["computing"]
    cores = sum(len(h.ranks) * (h.threads or 0) for h in last.plan.hosts) if last.plan else 0
    since, until = last.training or (0.0, last.run.seconds)
    hours = cores * (until - since) * waits / 3600
    cost = f"{hours:,.1f} core hours" if hours >= 0.1 else f"{hours * 60:.1f} core minutes"
    most = max((kind for kind in shares if kind != "computing"), key=lambda kind: shares[kind])
    name = name_parts(last)[most]
    note = f"of the time of the ranks' cores: {cost}; mostly {name[0].lower()}{name[1:]}"
    return _make_card("Waiting", f"{waits:.0%}", note)


def _best_cards(material: Material) -> list[dict[str, str]]:
    """Return the best value of each metric but the loss of training."""
    last = material.last
    names = script_names(last.printed)
    cards = list[dict[str, str]]()
    for name in metric_names(last.printed):
        summary = summarize_metric(last, name) if name != "loss" and better_end(name) else None
        if summary is None or summary["best"] is None:
            continue
        note = f"at {summary['axis'].removesuffix(' n')} {summary['best_at']:,.6g}"
        if summary["last"] is None:
            note += f"; {summary['ends']} at the end"
        elif summary["last"] != summary["best"]:
            note += f"; {summary['last']:.4g} at the end"
        cards.append(_make_card(f"Best {names.get(name, name)}", f"{summary['best']:.4g}", note))
    return cards[:MOST_BEST]


def _checkpoint_cards(material: Material) -> list[dict[str, str]]:
    last = next((item for item in material.checkpoints if item.is_complete), None)
    if last is None:
        return [_make_card("Checkpoint", "none complete")] if material.checkpoints else []
    step = last.name if last.step is None else f"step {last.step:,}"
    return [_make_card("Last checkpoint", step, f"{last.name} on {fold(last.hosts)}")]


def _loss_ends(
    attempts: Sequence[Attempt], *, first: bool = False
) -> tuple[str, float, float] | None:
    """Return the axis, the position of the last loss, and the median of the ranks' losses there."""
    rows = field_values(attempts, "loss")
    axis = common_axis(rows)
    points = next((row_points for row in rows if (row_points := points_along(row, axis))), [])
    if not points:
        return None
    end = (min if first else max)(place for place, _ in points)
    values = [value for place, value in points if place == end]
    return axis, end, next((v for v in values if not isfinite(v)), median(values))
