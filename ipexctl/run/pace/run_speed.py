"""The speed of a run, from the steps or epochs that a rank prints: every command's number of it.

Times of printed lines are known to within some tenths of a second to some seconds. How wrong a
speed may be is part of it, and no more digits are shown than are known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import floor, log10, sqrt

from ipexctl.quick_dataclass import dataclass

WINDOW = 5.0  # seconds: for shorter ones the times of printed lines are too inexact
LEAST = 3  # windows from which on the first one, a warm-up, is left out
FEW = 8  # steps: a speed of fewer is said to be rough
EXACT, GOOD, WORST = 0.02, 0.1, 0.5  # relative errors: three digits, two, and none at all
MINUTE, HOUR = 60.0, 3600.0


@dataclass(frozen=True)
class Counted:
    """A step or an epoch that a rank printed. `within`: seconds by which `at` may be off."""

    at: float
    number: float
    within: float = 0.0


@dataclass(frozen=True)
class Speed:
    """`rate`: units per second. `spread`: half the range of the middle 80 % of its windows, as a
    share of the rate; 0 for fewer than two windows. `error`: the share by which the rate may be
    wrong, as the times of lines are inexact. `counted`: how many units were measured."""

    rate: float
    spread: float
    windows: int
    unit: str = "step"
    error: float = 0.0
    counted: float = 0.0

    @property
    def is_comparable(self) -> bool:
        """Whether its spread is known: one window has none."""
        return self.windows > 1

    @property
    def steps_per_second(self) -> float | None:
        return self.rate if self.unit == "step" else None

    def __str__(self) -> str:
        """Return `8.89 steps/s`, `about 3 steps/s`, `31 epochs/min`, `4.2 epochs/h`."""
        seconds, per = self._period
        return f"{round_known(self.rate * seconds, self._doubt)} {self.unit}s/{per}"

    @property
    def with_spread(self) -> str:
        """Return `24.8 ± 13% steps/s`."""
        seconds, per = self._period
        number = round_known(self.rate * seconds, 0.0)
        return f"{number} ± {self.spread:.0%} {self.unit}s/{per}"

    @property
    def _period(self) -> tuple[float, str]:
        if self.unit == "step":
            return 1.0, "s"
        return (MINUTE, "min") if self.rate * MINUTE >= 1 else (HOUR, "h")

    @property
    def unit_time(self) -> str:
        """How long one takes: `112 ms`, `about 0.2 s`, `1.35 s`."""
        return self.time_of(1.0)

    def time_of(self, share: float) -> str:
        """Return how long this share of one takes."""
        seconds = share / self.rate
        if seconds < 1:
            return f"{round_known(seconds * 1e3, self._doubt)} ms"
        if seconds < 2 * MINUTE:
            return f"{round_known(seconds, self._doubt)} s"
        return f"{round_known(seconds / MINUTE, self._doubt)} min"

    @property
    def _doubt(self) -> float:
        doubt = max(self.error, self.spread / sqrt(max(1, self.windows)))
        return max(doubt, 2 * GOOD) if 0 < self.counted < FEW and self.unit == "step" else doubt

    def document(self) -> dict[str, object]:
        """Return it for JSON. `spread` None: it is not known, and the speed not comparable."""
        return {
            "text": str(self),
            "unit": self.unit,
            "rate": self.rate,
            "error": round(self.error, 4),
            "spread": round(self.spread, 4) if self.is_comparable else None,
            "windows": self.windows,
        }


def round_known(value: float, error: float) -> str:
    """Return the digits of a value that are known if it may be wrong by this share of it."""
    digits = 3 if error <= EXACT else 2 if error <= GOOD else 1
    about = "about " if digits == 1 else ""
    if value <= 0:
        return f"{about}0"
    rounded = float(f"{value:.{digits}g}")
    return f"{about}{rounded:,.{max(0, digits - 1 - floor(log10(rounded)))}f}"


def measure_speed(
    steps: Sequence[Counted], epochs: Sequence[Counted] = (), rates: Iterable[float] = ()
) -> Speed | None:
    """Measure one rank's speed: by windows of its steps; by the rates that it prints; from its
    first to its last step; by its epochs. None if none of these says anything."""
    windows = _speed_of_windows(steps, WINDOW, "step")
    printed = list(rates)
    if windows is None and (exact := _speed_of_rates(printed)) is not None:
        return exact
    whole = windows or _speed_of_span(steps, "step")
    return whole or _speed_of_windows(epochs, 0.0, "epoch") or _speed_of_span(epochs, "epoch")


def _speed_of_rates(rates: Sequence[float]) -> Speed | None:
    """Return what the script itself says. Its own number is taken at its word."""
    values = sorted(rates[1:] if len(rates) > LEAST else rates)
    if not values or values[len(values) // 2] <= 0:
        return None
    return Speed(*_middle_and_spread(values), len(values))


def _speed_of_windows(steps: Sequence[Counted], least: float, unit: str) -> Speed | None:
    """Return the median of windows of at least so many seconds; None for fewer than two."""
    windows = list(_read_windows(steps, least))
    windows = windows[1:] if len(windows) > LEAST else windows
    values = sorted(count / seconds for count, seconds, _ in windows)
    if len(values) < 2 or values[len(values) // 2] <= 0:
        return None
    seconds = sum(seconds for _, seconds, _ in windows)
    error = max(within for _, _, within in windows) / seconds
    counted = sum(count for count, _, _ in windows)
    return Speed(*_middle_and_spread(values), len(values), unit, error, counted)


def _middle_and_spread(values: Sequence[float]) -> tuple[float, float]:
    margin, middle = len(values) // 10, values[len(values) // 2]
    return middle, (values[-1 - margin] - values[margin]) / 2 / middle


def _read_windows(steps: Sequence[Counted], least: float) -> Iterator[tuple[float, float, float]]:
    """Yield (units, seconds, their error) of windows, without those in which the count restarts."""
    if not steps:
        return
    window = max(least, (steps[-1].at - steps[0].at) / 100)
    begin = last = steps[0]
    for step in steps[1:]:
        if step.number < last.number:
            begin = step
        elif step.at - begin.at >= window and step.at > begin.at and step.number > begin.number:
            error = max(begin.within, step.within)
            yield step.number - begin.number, step.at - begin.at, error
            begin = step
        last = step


def _speed_of_span(steps: Sequence[Counted], unit: str) -> Speed | None:
    """Return the speed from the first to the last step, without the gaps in which the count
    restarts; None if it may be wrong by half."""
    counted = seconds = error = 0.0
    begin = last = None
    for step in steps:
        if begin is None or last is None or step.number < last.number:
            begin = step
        elif step.number > last.number:
            counted += step.number - last.number
            seconds += step.at - last.at
            error = max(error, begin.within, step.within)
        last = step
    if counted <= 0 or seconds <= 0 or error > WORST * seconds:
        return None
    return Speed(counted / seconds, 0.0, 1, unit, error / seconds, counted)
