"""A word of shell text: its value without quotes, and its text as typed."""

from __future__ import annotations

from collections.abc import Iterable

from ipexctl.base.quoting import quote_for_pasting


class Word(str):
    """The text without quotes; $NAME stays as it is. `raw`: as typed, at `start` to `end`."""

    raw: str
    start: int
    end: int

    def __new__(cls, value: str, raw: str, start: int = 0, end: int = 0) -> Word:
        word = super().__new__(cls, value)
        word.raw, word.start, word.end = raw, start, end
        return word

    @property
    def is_fixed(self) -> bool:
        """Is the value known here, and not only to the shell?"""
        return self.raw.startswith("'") or not (set("$`") & set(self.raw) or self.raw[:1] == "~")


def as_typed(words: Iterable[str]) -> tuple[Word, ...]:
    """Words of a command line, where the shell has done its part."""
    return tuple(Word(word, quote_for_pasting((word,))) for word in words)


def for_pasting(words: Iterable[str]) -> str:
    """A Word as it was typed; any other word quoted."""
    return " ".join(w.raw if isinstance(w, Word) else quote_for_pasting((w,)) for w in words)
