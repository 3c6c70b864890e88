"""The comparison of two runs as lines of text, and as a document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ipexctl.report.recorded_inputs import Speed
from ipexctl.report.run_difference import Difference, Growth, RunComparison


def comparison_headline(found: RunComparison) -> str:
    run, other = found.run.name, found.other.name
    if found.factor is None:
        missing = run if found.run.speed is None else other
        why = f"{missing} printed its steps for less than some 15 s"
        return f"{run} and {other} cannot be compared by speed: {why}"
    speeds = f"{_rate_text(found.run.speed)}, against {_rate_text(found.other.speed)}"
    if not found.speed_differs:
        return f"no difference in speed beyond noise between {run} and {other}: {speeds}"
    how = f"{found.factor:.2f} times as fast as"
    return f"{run} is {how} {other}: {speeds}"


def comparison_lines(found: RunComparison) -> Iterator[str]:
    yield comparison_headline(found)
    if found.noise is not None:
        yield f"  up to {found.noise - 1:.0%} is noise, by the spread of both runs' step times"
    yield from step_cost_lines(found)
    if found.grown:
        yield from _longer_parts(found, found.grown)
    if others := [one for one in found.differences if not one.explains]:
        yield "also different:" if found.grown else "what differs:"
        yield from (f"  {one.text}" for one in others)
    if unknown := [one.name for one in (found.run, found.other) if one.inputs is None]:
        yield f"not known: code, packages and data of {' and '.join(unknown)}; its first host was"
        yield "not reached, or an earlier ipexctl started it"
    elif not found.differences:
        yield "their code, packages, plans, hosts and data are the same"


def _longer_parts(found: RunComparison, grown: Growth) -> Iterator[str]:
    slow = found.run if (found.factor or 0) < 1 else found.other
    for part in grown.parts:
        yield f"longer in {slow.name} on {grown.host}: {PARTS[part]}"
        texts = [one.text for one in found.differences if one.part == part]
        yield from (f"  {text}" for text in texts or ["no recorded difference explains it"])


LEAST_MS = 0.1
PARTS = {
    "computing": "computing", "waited": "waiting for a CPU", "sending": "exchanging data",
    "idle": "other waits",
}  # fmt: skip


def step_cost_lines(found: RunComparison) -> Iterator[str]:
    """Yield where the time of a step goes."""
    if not found.step:
        return
    host, *costs = found.step
    parts = []
    for part, words in PARTS.items():
        now, was = (1000 * getattr(cost, part) for cost in costs)
        if max(now, was) >= LEAST_MS:
            parts.append(f"{words} {now:.3g}, against {was:.3g}")
    yield f"  ms of a step on {host}: {'; '.join(parts)}"


def comparison_document(found: RunComparison) -> dict[str, Any]:
    return {
        "run": found.run.name,
        "compared_with": found.other.name,
        "speed_differs": found.speed_differs if found.factor is not None else None,
        "times_as_fast": found.factor,
        "measured": found.is_measured,
        "noise": found.noise and found.noise - 1,
        "steps_per_second": [_speed_document(one.speed) for one in (found.run, found.other)],
        "step_seconds": _step_document(found),
        "differences": [_difference_document(one) for one in found.differences],
    }


def _step_document(found: RunComparison) -> dict[str, Any] | None:
    if not found.step:
        return None
    host, *costs = found.step
    return {"host": host, **{part: [vars(c)[part] for c in costs] for part in PARTS}}


def _difference_document(one: Difference) -> dict[str, Any]:
    blank = {"host": one.host or None, "part": one.part or None}
    return {**vars(one), "explains": one.explains, **blank}


def _speed_document(speed: Speed | None) -> dict[str, float] | None:
    return dict(vars(speed)) if speed else None


def _rate_text(speed: Speed | None) -> str:
    return f"{speed.rate:.3g} ± {speed.spread:.0%} steps/s" if speed else "unknown"
