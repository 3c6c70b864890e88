"""Mask secrets: those that are known, wherever they occur, and those that have a name
(common/secret_names.py): NAME=value, --name value, "name": "value", Name: value, URLs with a login,
bearer tokens and private keys. An unknown secret without a name is not found.

Each pattern begins at one position in a word and reads its match once: the time is linear in the
length of the text.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import quote, unquote

from ipexctl.common.secret_names import is_secret_name

MASK = "********"
_SHORTEST = 4  # of a part of a secret: shorter ones occur in any text
_SHORTEST_ARGUMENT = 6  # of a value in a command line that is searched for elsewhere
_CUT = 1000  # hosts cut longer texts, and may cut a secret; the rest of a line may be short
_SHORTEST_END = 8
_FLAGS = frozenset(("auto", "false", "none", "null", "true"))  # TOKENIZERS_PARALLELISM=false

_KEY_MARK = re.compile(r"-----(BEGIN|END) [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,8}-----")
_URL = re.compile(r"://([^\s\"'<>]+)")
_SCHEME = re.compile(r"(?<![A-Za-z])(?:bearer|basic)[ \t]{1,8}([\w.~+/=-]{16,})", re.I)
_NAME = re.compile(
    r"(?<![\w.-])(?P<dash>--?)?(?P<name>\w[\w.-]*)(?P<close>\\*[\"'`]?)\]?(?:\[[^\[\]\n]{0,40}\])?"
    r"(?:[ \t]*(?:,?[ \t\n]{0,40}(?<!\w)(?:\\*[\"'`])?[Vv]alue(?:\\*[\"'`])?[ \t]*)?"
    r"(?P<is>[:：](?!//)|[-=]>|:=|==?|%3[dD])[ \t]*"
    r"|(?P<gap>(?(dash)[ \t]+|(?!))|(?<=[\"'`]),[ \t\n]*))"
)
_BESIDE = (  # <token>...</token>, and the line of a .netrc
    re.compile(r"<(?P<name>[\w.:-]{1,64})(?: [^<>]{0,200})?>(?P<value>(?:<!\[CDATA\[)?[^<]+)"),
    re.compile(
        r"(?<!\S)login\s{1,9}\S{1,200}\s{1,9}(?:account\s{1,9}\S{1,200}\s{1,9})?"
        r"(?P<name>password)\s{1,9}(?P<value>\"[^\"\n]*\"|\S+)"
    ),
)
_QUOTE = re.compile(r"[bBrRuUfF]{0,2}(\\*[\"'`])")
_SHELL_WORD = re.compile(r"(?:\"[^\"\n]*\"|'[^'\n]*'|\\.|\S)+")
_LONGEST = 8000  # characters of a value in quotes
_BRACKETS = re.compile(r"[\[({]|(?P<close>[\])}])|\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'", re.S)
_GLUED = re.compile(r"[^\s,;)\]}&|<>]")  # after a quote: a shell's word continues
_NOTHING = re.compile(
    r"(?:(?i:none|null|true|false)|\*+|\$\{?[A-Z_][A-Z0-9_]*\}?)(?=[\s,;)\]}\"']|\Z)"
)
_WORD = re.compile(r"[\w.-]+")


def mask_secrets(text: str, secrets: Iterable[str]) -> str:
    """Mask these secrets: complete ones, single lines, cut ones, and as programs quote them."""
    forms = _all_forms(frozenset(secrets))
    for form in forms:
        text = text.replace(form, MASK)
    for form in forms:
        text = _without_ends(text, form, _SHORTEST if len(text) >= _CUT else _SHORTEST_END)
    return text


@lru_cache(8)
def _all_forms(secrets: frozenset[str]) -> list[str]:
    return sorted(
        {form for secret in secrets for form in _secret_forms(secret)}, key=len, reverse=True
    )


def _secret_forms(secret: str) -> Iterator[str]:
    yield from filter(None, (secret, secret.strip()))
    lines = [line.strip() for line in secret.splitlines()]
    for part in (secret.strip(), *(part for part in lines if len(part) >= _SHORTEST)):
        if part:
            yield part
            yield repr(part)[1:-1]
            yield json.dumps(part)[1:-1]
            yield quote(part, safe="")
            yield from (part.replace("'", quoted) for quoted in ("'\\''", "'\"'\"'"))


def _without_ends(text: str, secret: str, shortest: int) -> str:
    """Mask a part of the secret that the text begins or ends with."""
    if text[:shortest] not in secret and text[-shortest:] not in secret:  # nearly always true
        return text
    for size in range(min(len(secret) - 1, len(text)), shortest - 1, -1):
        if text.endswith(secret[:size]):
            text = text[:-size] + MASK
        if text.startswith(secret[-size:]):
            text = MASK + text[size:]
    return text


def secret_values(variables: Mapping[str, str]) -> frozenset[str]:
    """Return the values of variables whose names are those of secrets."""
    return frozenset(
        value
        for name, value in variables.items()
        if is_secret_name(name) and len(value) >= _SHORTEST and value.lower() not in _FLAGS
    )


def secret_arguments(command: str) -> frozenset[str]:
    """Return the secrets in a command line: of named options and assignments, and in URLs."""
    try:
        words = shlex.split(command)
    except ValueError:  # it is cut
        words = command.split()
    secrets: set[str] = set()
    for previous, word in zip(("", *words), words, strict=False):
        name, _, value = word.partition("=")
        if is_secret_name(name):
            secrets.add(value)
        elif _names_next(previous):
            secrets.add(word)
        secrets |= {
            word[start:end].strip("\"'") for start, end in _find_named_secrets(word)
        }  # --config '{"api_key": "..."}'
        secrets |= {scheme[1] for scheme in _SCHEME.finditer(word)}
        for url in _URL.finditer(word):
            login = url[1].rpartition("@")[0]
            password = login.partition(":")[2] or login
            secrets |= {login, password, unquote(password)}
    return frozenset(v for v in secrets if len(v) >= _SHORTEST_ARGUMENT and v.lower() not in _FLAGS)


class SecretMask:
    """Masks secrets in texts and documents: `known` ones, those in `commands`, and those that have
    a name."""

    def __init__(self, known: Iterable[str] = (), *commands: str) -> None:
        self._known = frozenset(known).union(*map(secret_arguments, commands))

    def mask_text(self, text: str) -> str:
        text = _masked_at(
            text, _find_private_keys(text)
        )  # first: lines of a known key are its marks
        text = mask_secrets(text, self._known)
        return _masked_at(text, (*_find_url_logins(text), *_find_named_secrets(text)))

    def mask_document(self, value: Any) -> Any:
        """Mask in all texts of a JSON document, and all values under or after a secret's name."""
        if isinstance(value, Mapping):
            return {
                key: MASK if item and _names_a_secret(key, value) else self.mask_document(item)
                for key, item in value.items()
            }
        if isinstance(value, list | tuple):
            pairs = zip((None, *value), value, strict=False)
            return [self._mask_item(previous, item) for previous, item in pairs]
        return self.mask_text(value) if isinstance(value, str) else value

    def _mask_item(self, previous: Any, value: Any) -> Any:
        """Mask the item of a list after --api-key or HF_TOKEN: it is the secret."""
        if not isinstance(value, str):
            return self.mask_document(value)
        if isinstance(previous, str) and value and _is_name(previous):
            return MASK
        name, sign, _ = value.partition("=")
        return f"{name}={MASK}" if sign and _is_name(name) else self.mask_text(value)


def _masked_at(text: str, spans: Iterable[tuple[int, int]]) -> str:
    pieces: list[str] = []
    position = 0
    for start, end in sorted(spans):
        if start > position or not pieces:
            pieces += [text[position:start], MASK]
        position = max(position, end)
    return "".join((*pieces, text[position:]))


def _is_name(word: str) -> bool:
    return _WORD.fullmatch(word) is not None and is_secret_name(word)


def _names_a_secret(key: str, pairs: Mapping[str, Any]) -> bool:
    """Decide whether the key, or the name beside a "value", is that of a secret."""
    name = pairs.get("name") if key.lower() == "value" else key
    return isinstance(name, str) and is_secret_name(name)


def _names_next(word: str) -> bool:
    return word[:1] == "-" and "=" not in word and is_secret_name(word)


def _find_private_keys(text: str) -> Iterator[tuple[int, int]]:
    """Yield private keys; of one that is cut, everything up to its last mark or after its first."""
    start, is_open = 0, False
    for mark in _KEY_MARK.finditer(text):
        if mark[1] == "END":
            yield start, mark.end()
        start, is_open = mark.start() if mark[1] == "BEGIN" else mark.end(), mark[1] == "BEGIN"
    if is_open:
        yield start, len(text)


def _find_url_logins(text: str) -> Iterator[tuple[int, int]]:
    for url in _URL.finditer(text):
        if length := url[1].rfind("@") + 1:
            yield url.start(1), url.start(1) + length
    for scheme in _SCHEME.finditer(text):
        yield scheme.span(1)
    for pattern in _BESIDE:
        yield from (f.span("value") for f in pattern.finditer(text) if is_secret_name(f["name"]))


def _find_named_secrets(text: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each value that follows the name of a secret."""
    position = 0
    while match := _NAME.search(text, position):
        start, position = match.end(), max(match.end("name"), position + 1)
        if not is_secret_name(match["name"]):
            continue
        gap = match["gap"] or ""
        if gap[:1] == "," and not _QUOTE.match(text, start):  # a list, but not of texts
            continue
        if _NOTHING.match(text, start):
            continue
        end = _value_end(text, match, start)
        if end > start:
            position = end
            yield start, end


def _value_end(text: str, name: re.Match[str], start: int) -> int:
    """Return the position after the value of a named secret."""
    opening = _QUOTE.match(text, start)
    around = text[name.start() - 1 : name.start()]
    if opening is None and around in ("'", '"') and not name["close"]:  # '--token=two words'
        end = text.find(around, start, start + _LONGEST)
        return _shell_word(text, end) if end >= 0 else _end_of_line(text, start)
    if opening is None and text[start : start + 1] in ("[", "(", "{"):
        return _list_end(text, start)
    if opening is None:
        return _end_of_line(text, start) if name["is"] in (":", "：") else _shell_word(text, start)
    end = _after_closing_mark(text, opening[1], opening.end())
    if end < 0 or (name["is"] == ":" and text.startswith(";", end)):  # Cookie: "a"; b
        return _end_of_line(text, start)
    return _shell_word(text, end) if _GLUED.match(text, end) else end


def _after_closing_mark(text: str, mark: str, position: int) -> int:
    """Return the position after the closing mark, or -1."""
    end = text.find(mark, position, position + _LONGEST)
    while end > 0 and mark[0] != "\\" and text[end - 1] == "\\":
        end = text.find(mark, end + 1, position + _LONGEST)
    return end + len(mark) if end >= 0 else -1


def _list_end(text: str, position: int) -> int:
    open_ones = 0
    for bracket in _BRACKETS.finditer(text, position, position + _LONGEST):
        open_ones += -1 if bracket["close"] else bracket[0] in "[({"
        if not open_ones:
            return bracket.end()
    return _end_of_line(text, position)


def _shell_word(text: str, position: int) -> int:
    word = _SHELL_WORD.match(text, position)
    return word.end() if word else position


def _end_of_line(text: str, position: int) -> int:
    end = text.find("\n", position)
    return end if end >= 0 else len(text)
