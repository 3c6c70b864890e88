"""The comparison of two runs as lines of text."""

from __future__ import annotations

from collections.abc import Iterator

from ipexctl.report.comparison.recorded_inputs import Speed
from ipexctl.report.comparison.run_difference import RunComparison
from ipexctl.report.comparison.step_costs import PARTS, Growth


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


def _rate_text(speed: Speed | None) -> str:
    return f"{speed.rate:.3g} ± {speed.spread:.0%} steps/s" if speed else "unknown"
