"""Bytes in words."""

from __future__ import annotations

RATE = 100  # Mbit/s: what a time to fetch is told for, where nobody has measured


def gigabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e8 else f"{size / 1e6:.0f} MB"


def minutes(size: int) -> str:
    """How long that many bytes take at RATE."""
    return f"about {max(1, round(size * 8 / RATE / 1e6 / 60))} min at {RATE} Mbit/s"
