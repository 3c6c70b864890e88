"""Parse shell text to simple commands, each word with its position: a subset of sh and bash.

Loops and functions are read as the commands in them; here-documents are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import dropwhile

from ipexctl.base.quoting import quote_for_pasting


class ShellWord(str):
    """The text without quotes; $NAME is kept. `raw`: as typed, at `start` to `end`."""

    raw: str
    start: int
    end: int

    def __new__(cls, value: str, raw: str, start: int = 0, end: int = 0) -> ShellWord:
        word = super().__new__(cls, value)
        word.raw, word.start, word.end = raw, start, end
        return word

    @property
    def is_fixed(self) -> bool:
        """Whether the value is known here, and not only to the shell."""
        return self.raw.startswith("'") or not (set("$`") & set(self.raw) or self.raw[:1] == "~")


def as_typed(words: Iterable[str]) -> tuple[ShellWord, ...]:
    """Return the words of a command line that a shell has already processed."""
    return tuple(ShellWord(word, quote_for_pasting((word,))) for word in words)


def for_pasting(words: Iterable[str]) -> str:
    """Join words: a Word as it was typed, any other word quoted."""
    return " ".join(w.raw if isinstance(w, ShellWord) else quote_for_pasting((w,)) for w in words)


_KEYWORDS = frozenset(
    {"then", "do", "else", "{", "(", "!", "if", "while", "until", "elif", "fi", "done"}
)
_IN_PARENTHESES = r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
# the parts of a word; an unclosed quote extends to the end of the text
_PART = rf"""
    '[^']*'? | "(?:\\.|\${_IN_PARENTHESES}|[^"\\])*"?
    | \${_IN_PARENTHESES} | \$\{{[^}}]*\}} | `[^`]*` | \\(?!\r?\n). | >& | [^\s;|&()\\]
"""
_PARTS = re.compile(_PART, re.X | re.S)
_TOKEN = re.compile(
    rf"""
    (?P<blank>(?:[ \t]|\\\r?\n)+) | (?P<comment>\#[^\n]*)
    | <<-?\s*(?P<quote>['"]?)(?P<heredoc>\w+)(?P=quote)
    | (?P<word>(?:{_PART})+) | (?P<operator>&&|\|\||;;|.)
    """,
    re.X | re.S,
)
_ESCAPED = re.compile(r'\\(["\\$`])')


def split_commands(text: str) -> Iterator[tuple[ShellWord, ...]]:
    """Yield commands in order, including those of loops and conditions."""
    position, words, waiting = 0, list[ShellWord](), list[str]()
    while token := _TOKEN.match(text, position):
        start, position = token.span()
        if token["word"]:
            value = _PARTS.sub(_part_value, token[0])
            words.append(ShellWord(value, token[0], start, position))
        elif token["heredoc"]:
            waiting.append(token["heredoc"])
        elif token["operator"]:
            yield from _without_keywords(words)
            words = []
            if token[0] == "\n":
                position = _skip_heredocs(text, position, waiting)
    yield from _without_keywords(words)


def _without_keywords(words: list[ShellWord]) -> Iterator[tuple[ShellWord, ...]]:
    if words := list(dropwhile(_KEYWORDS.__contains__, words)):
        yield tuple(words)


def _skip_heredocs(text: str, position: int, waiting: list[str]) -> int:
    """Return the position after the here-documents that begin here."""
    while waiting:
        mark = waiting.pop(0)
        match = re.compile(rf"^\t*{re.escape(mark)}\r?$", re.MULTILINE).search(text, position)
        position = len(text) if not match else min(match.end() + 1, len(text))
    return position


def _part_value(part: re.Match[str]) -> str:
    """Return a part of a word without quotes; the shell's expansions are kept."""
    text = part[0]
    if text[0] == "'":
        return text[1:].removesuffix("'")
    if text[0] == '"':
        return _ESCAPED.sub(r"\1", text[1:].removesuffix('"'))
    return text[1:] if text[0] == "\\" else text
