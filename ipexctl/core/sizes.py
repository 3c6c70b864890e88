"""Bytes in words."""

from __future__ import annotations

RATE = 100  # Mbit/s: what a time to fetch is told for, where nobody has measured


def human(size: int) -> str:
    """Bytes for people: 900 bytes, 12.3 kB, 4.5 MB, 1,234.5 GB."""
    for unit, one in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= one:
            return f"{size / one:,.1f} {unit}"
    return f"{size} {'byte' if size == 1 else 'bytes'}"


def short(number: float) -> str:
    """Bytes, as short as they can be read."""
    for unit in ("B", "kB", "MB"):
        if number < 999.5:
            return f"{number:.0f} {unit}"
        number /= 1000
    return f"{number:.1f} GB" if number < 100 else f"{number:.0f} GB"


def minutes(size: int) -> str:
    """How long that many bytes take at RATE."""
    return f"about {max(1, round(size * 8 / RATE / 1e6 / 60))} min at {RATE} Mbit/s"
