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

    def partition(self, sep: str, /) -> tuple[str, str, str]:
        """What follows `sep` is a Word, too: --nnodes="$N" -> "$N" """
        name, sign, value = super().partition(sep)
        before, _, after = self.raw.partition(sep)
        opened = next((quote for quote in "'\"" if before.count(quote) % 2), "")
        return name, sign, Word(value, opened + after) if sign else value


def is_fixed(word: str) -> bool:
    """Is the value known here, and not only to the shell?"""
    raw = word.raw if isinstance(word, Word) else ""
    return "$" not in raw and "`" not in raw or raw.startswith("'")


def assignment(name: str, value: str) -> str:
    text = f"{name}={value}"
    return Word(text, f"{name}={value.raw}") if isinstance(value, Word) else text


def unsplit(word: str) -> str:
    """NAME=$VALUE before a command: the shell does not split it there, and would elsewhere."""
    if is_fixed(word) or not isinstance(word, Word) or set(word.raw) & set("'\"\\"):
        return word
    name, _, value = word.raw.partition("=")
    return Word(word, f'{name}="{value}"')


def tail(word: str, at: int) -> str:
    """The letters from `at` on: -n$N -> $N"""
    if isinstance(word, Word) and word.raw[:at] == word[:at]:
        return Word(word[at:], word.raw[at:])
    return word[at:]


def as_typed(words: Iterable[str]) -> tuple[Word, ...]:
    """Words of a command line, where the shell has done its part."""
    return tuple(Word(word, quote_for_pasting((word,))) for word in words)


def for_pasting(words: Iterable[str]) -> str:
    """A Word as it was typed; any other word quoted."""
    return " ".join(w.raw if isinstance(w, Word) else quote_for_pasting((w,)) for w in words)
