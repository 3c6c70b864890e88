"""Format bytes, seconds, counts and ranges."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ipexctl.common.sizes import format_bytes as format_bytes

_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
RATE = 100  # Mbit/s: assumed for download times if nothing was measured


def short_size(number: float) -> str:
    """Return bytes in the shortest readable form."""
    for unit in ("B", "kB", "MB"):
        if number < 999.5:
            return f"{number:.0f} {unit}"
        number /= 1000
    return f"{number:.1f} GB" if number < 100 else f"{number:.0f} GB"


def bit_rate(rate: float) -> str:
    """Return the rate of a network: "94 Mbit/s", "2.5 Gbit/s"."""
    if rate >= 1e9:
        return f"{rate / 1e9:.1f} Gbit/s"
    return f"{rate / 1e6:.0f} Mbit/s" if rate >= 1e6 else f"{rate / 1e3:.0f} kbit/s"


def duration(seconds: float) -> str:
    """Return `12 s`, `3 min 20 s` or `2 h 5 min`: at most two units, rounded."""
    rest = max(0, round(seconds))
    largest = next((n for n, (size, _) in enumerate(_UNITS) if rest >= size), len(_UNITS) - 1)
    smallest = _UNITS[min(largest + 1, len(_UNITS) - 1)][0]
    rest = (rest + smallest // 2) // smallest * smallest
    texts = list[str]()
    for size, unit in _UNITS:
        count, rest = divmod(rest, size)
        if count or (unit == "s" and not texts):
            texts.append(f"{count} {unit}")
        if texts and not rest:
            break
    return " ".join(texts)


def short_duration(seconds: float) -> str:
    """Return the same with a tenth of a second below a minute: `12.3 s`."""
    return f"{seconds:.1f} s" if seconds < 59.95 else duration(seconds)


_NUMBER = r"[0-9]{1,9}(?:\.[0-9]{1,6})?"
_TYPED = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def seconds_of(text: str) -> float | None:
    """Return the seconds of 90, 90s, 10m, 2h or 1h30m; None for other text."""
    if re.fullmatch(_NUMBER, text):
        return float(text)
    if not re.fullmatch(f"(?:{_NUMBER}[smhd]){{1,4}}", text):
        return None
    amounts = re.findall(f"({_NUMBER})([smhd])", text)
    return sum(float(number) * _TYPED[unit] for number, unit in amounts)


def transfer_minutes(size: int) -> str:
    """Return how long a download of this size takes at RATE."""
    return f"about {max(1, round(size * 8 / RATE / 1e6 / 60))} min at {RATE} Mbit/s"


GIB = 1 << 30

MIB = 1 << 20


def binary_size(count: int) -> str:
    """Return bytes for people: 64 KiB, 512 MiB, 1.5 GiB, 503 GiB."""
    if count < MIB:
        return f"{count // 1024} KiB"
    if count < GIB:
        return (
            f"{count / MIB:.1f} MiB" if count % MIB and count < 10 * MIB else f"{count // MIB} MiB"
        )
    return f"{count / GIB:.1f} GiB" if count < 10 * GIB else f"{count // GIB} GiB"


def count(n: int, noun: str) -> str:
    """Return "1 rank" or "2,048 ranks"."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def fold_numbers(numbers: Iterable[int]) -> str:
    """Return numbers as ranges: "0-2,5" for 0, 1, 2 and 5."""
    ranges: list[list[int]] = []
    for number in sorted(set(numbers)):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def rank_text(numbers: Iterable[int]) -> str:
    """Return "rank 3" or "ranks 0-2,5"."""
    ranks = sorted(numbers)
    return f"rank{'s' * (len(ranks) > 1)} {fold_numbers(ranks)}"
