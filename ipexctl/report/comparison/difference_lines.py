"""The comparison of two runs as lines of text."""

from __future__ import annotations

from collections.abc import Iterator

from ipexctl.report.comparison.recorded_inputs import Speed
from ipexctl.report.comparison.run_difference import RunComparison
from ipexctl.report.comparison.step_costs import PARTS, Growth


def comparison_headline(comparison: RunComparison) -> str:
    run, other = comparison.run.name, comparison.other.name
    if comparison.factor is None:
        missing = run if comparison.run.speed is None else other
        why = f"{missing} printed its steps for less than some 15 s"
        return f"{run} and {other} cannot be compared by speed: {why}"
    speeds = f"{_rate_text(comparison.run.speed)}, against {_rate_text(comparison.other.speed)}"
    if not comparison.speed_differs:
        return f"no difference in speed beyond noise between {run} and {other}: {speeds}"
    how = f"{comparison.factor:.2f} times as fast as"
    return f"{run} is {how} {other}: {speeds}"


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
    yield f"  ms of a step on {host}: {'; '.join(texts)}"


def _rate_text(speed: Speed | None) -> str:
    return f"{speed.rate:.3g} ± {speed.spread:.0%} steps/s" if speed else "unknown"
