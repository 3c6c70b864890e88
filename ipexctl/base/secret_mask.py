"""Secrets are not shown: neither whole, nor line by line, nor cut, nor as programs quote them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

MASK = "********"
_SHORTEST = 4  # of a part of a secret: shorter ones stand in any text
_CUT = 1000  # hosts cut longer texts, and may cut a secret; what is left of a line may be short
_SHORTEST_END = 8


def masked(text: str, secrets: Iterable[str]) -> str:
    forms = sorted({form for secret in secrets for form in _forms(secret)}, key=len, reverse=True)
    for form in forms:
        text = text.replace(form, MASK)
    for form in forms:
        text = _without_ends(text, form, _SHORTEST if len(text) >= _CUT else _SHORTEST_END)
    return text


def _forms(secret: str) -> Iterator[str]:
    yield from filter(None, (secret, secret.strip()))
    parts = [line.strip() for line in secret.splitlines()]
    for part in (secret.strip(), *(part for part in parts if len(part) >= _SHORTEST)):
        if part:
            yield part
            yield repr(part)[1:-1]
            yield from (part.replace("'", quoted) for quoted in ("'\\''", "'\"'\"'"))


def _without_ends(text: str, secret: str, shortest: int) -> str:
    for size in range(len(secret) - 1, shortest - 1, -1):
        if text.endswith(secret[:size]):
            text = text[:-size] + MASK
        if text.startswith(secret[-size:]):
            text = MASK + text[size:]
    return text
