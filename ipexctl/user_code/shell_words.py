"""Shell text -> simple commands, each word with its place: what launcher lines need of sh and bash.

Loops and functions are read as the commands in them; here-documents are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import dropwhile

from ipexctl.user_code.typed_word import Word

_KEYWORDS = frozenset(
    {"then", "do", "else", "{", "(", "!", "if", "while", "until", "elif", "fi", "done"}
)
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")
_BLANK = re.compile(r"(?:[ \t]|\\\r?\n)*")
_OPERATORS = ("&&", "||", ";;", ";", "|", "&", "\n", "\r", "(", ")")
_PAIRS = {"$(": ")", "${": "}", "`": "`"}


def commands(text: str) -> Iterator[tuple[Word, ...]]:
    """In order; those of loops and conditions, too."""
    at, words, waiting = 0, list[Word](), list[str]()
    while at < len(text):
        at = _BLANK.match(text, at).end()  # type: ignore[union-attr]
        if at >= len(text):
            break
        if text[at] == "#":
            at = _line_end(text, at)
            continue
        operator = next((o for o in _OPERATORS if text.startswith(o, at)), "")
        if operator:
            yield from _made(words)
            words = []
            at += len(operator)
            if operator == "\n":
                at = _behind(text, at, waiting)
            continue
        if heredoc := _HEREDOC.match(text, at):
            waiting.append(heredoc[2])
            at = heredoc.end()
            continue
        word = _word(text, at)
        words.append(word)
        at = word.end
    yield from _made(words)


def _made(words: list[Word]) -> Iterator[tuple[Word, ...]]:
    if words := list(dropwhile(_KEYWORDS.__contains__, words)):
        yield tuple(words)


def _behind(text: str, at: int, waiting: list[str]) -> int:
    """Behind the here-documents that begin here."""
    while waiting:
        mark = waiting.pop(0)
        ended = re.compile(rf"^\t*{re.escape(mark)}\r?$", re.MULTILINE).search(text, at)
        at = len(text) if not ended else min(ended.end() + 1, len(text))
    return at


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _word(text: str, start: int) -> Word:
    at, value = start, ""
    while at < len(text) and not text[at].isspace():
        letter = text[at]
        if letter in ";|&()" and not (letter == "&" and at > start and text[at - 1] == ">"):
            break
        if letter == "\\":
            if text[at + 1 : at + 3] == "\r\n" or text[at + 1 : at + 2] == "\n":
                break
            value, at = value + text[at + 1 : at + 2], at + 2
        elif letter in "'\"":
            inner, at = _quoted(text, at)
            value += inner
        elif closing := next((c for o, c in _PAIRS.items() if text.startswith(o, at)), ""):
            end = _closed(text, at, closing)
            value, at = value + text[at:end], end
        else:
            value, at = value + letter, at + 1
    at = max(at, start + 1)
    return Word(value, text[start:at], start, at)


def _quoted(text: str, at: int) -> tuple[str, int]:
    quote, start, value = text[at], at + 1, ""
    at = start
    while at < len(text) and text[at] != quote:
        if quote == '"' and text[at] == "\\" and text[at + 1 : at + 2] in '"\\$`':
            value, at = value + text[at + 1 : at + 2], at + 2
        elif quote == '"' and text.startswith("$(", at):
            end = _closed(text, at, ")")
            value, at = value + text[at:end], end
        else:
            value, at = value + text[at], at + 1
    return value, min(at + 1, len(text))


def _closed(text: str, at: int, closing: str) -> int:
    """The offset after $(...), ${...} or `...`, including nested ones."""
    at += 1 if closing == "`" else 2
    opening = {")": "(", "}": "{"}.get(closing, "")
    depth = 1
    while at < len(text) and depth:
        letter = text[at]
        if letter == "\\":
            at += 1
        elif letter in "'\"" and closing == ")":
            end = text.find(letter, at + 1)
            at = end if end > 0 else at
        elif letter == closing:
            depth -= 1
        elif opening and letter == opening:
            depth += 1
        at += 1
    return min(at, len(text))
