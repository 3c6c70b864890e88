"""The comparison of two runs as lines of text."""

from __future__ import annotations

from collections.abc import Iterator

from ipexctl.report.comparison.run_difference import RunComparison
from ipexctl.report.comparison.step_costs import PARTS, Growth
from ipexctl.run.pace.run_speed import Speed


def comparison_headline(comparison: RunComparison) -> str:
    run, other = comparison.run.name, comparison.other.name
    if comparison.factor is None:
        return f"{run} and {other} cannot be compared by speed: {_explain_no_speed(comparison)}"
    speeds = f"{_rate_text(comparison.run.speed)}, against {_rate_text(comparison.other.speed)}"
    if not comparison.speed_differs:
        return f"no difference in speed beyond noise between {run} and {other}: {speeds}"
    how = f"{comparison.factor:.2f} times as fast as"
    return f"{run} is {how} {other}: {speeds}"


def _explain_no_speed(comparison: RunComparison) -> str:
    now, was = comparison.run.speed, comparison.other.speed
    if now and was and now.unit != was.unit:
        return f"one prints {now.unit}s, the other {was.unit}s"
    missing = comparison.other if now and now.is_comparable else comparison.run
    if missing.speed is None:
        return f"{missing.name} printed no steps or epochs, or too few"
    return f"{missing.name} printed its {missing.speed.unit}s for less than some 15 s"


def comparison_lines(comparison: RunComparison) -> Iterator[str]:
    yield comparison_headline(comparison)
    if comparison.noise is not None:
        yield f"  up to {comparison.noise - 1:.0%} is noise, by the spread of both runs' step times"
    yield from step_cost_lines(comparison)
    if comparison.grown:
        yield from _longer_parts(comparison, comparison.grown)
    if unexplained := [item for item in comparison.differences if not item.explains]:
        yield "also different:" if comparison.grown else "what differs:"
        yield from (f"  {item.text}" for item in unexplained)
    if unknown := [item.name for item in (comparison.run, comparison.other) if item.inputs is None]:
        yield f"not known: code, packages and data of {' and '.join(unknown)}; its first host was"
        yield "not reached"
    elif not comparison.differences:
        yield "their code, packages, plans, hosts and data are the same"


def _longer_parts(comparison: RunComparison, grown: Growth) -> Iterator[str]:
    slower = comparison.run if (comparison.factor or 0) < 1 else comparison.other
    for part in grown.parts:
        yield f"longer in {slower.name} on {grown.host}: {PARTS[part]}"
        texts = [item.text for item in comparison.differences if item.part == part]
        yield from (f"  {text}" for text in texts or ["no recorded difference explains it"])


LEAST_MS = 0.1


def step_cost_lines(comparison: RunComparison) -> Iterator[str]:
    """Yield where the time of a step goes."""
    if not comparison.step:
        return
    host, *costs = comparison.step
    texts = []
    for part, words in PARTS.items():
        current, earlier = (1000 * getattr(cost, part) for cost in costs)
        if max(current, earlier) >= LEAST_MS:
            texts.append(f"{words} {current:.3g}, against {earlier:.3g}")
    unit = comparison.run.speed.unit if comparison.run.speed else "step"
    yield f"  ms of {'an' if unit == 'epoch' else 'a'} {unit} on {host}: {'; '.join(texts)}"


def _rate_text(speed: Speed | None) -> str:
    return speed.with_spread if speed else "unknown"
