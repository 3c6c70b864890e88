"""Text for other people: secrets are masked, and hosts, users and addresses have aliases.

The same host has the same alias everywhere. Masking too much is fine, too little is not.
"""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from ipexctl.base.secret_mask import SecretMask

_MOST = 500  # aliases for names that only texts have; others share one
_LONGEST = 8000  # characters of a line
_LONG_LINE = re.compile(rf"^[^\n]{{{_LONGEST + 1},}}", re.M)
_LAST_WORD = re.compile(r"(?<!\S)\S{1,512}\Z")
_OTHER_HOME = re.compile(r"(/(?:home|Users)/)([^/\s:'\"]{1,64})")
_AT = re.compile(r"[\w.+-](?<![\w.+-].)[\w.+-]{0,63}@[A-Za-z][\w-]{0,62}(?:\.[\w-]{1,63}){0,9}")
_IP = re.compile(
    r"[0-9A-Fa-f:](?<![\w.:].)(?:(?<=\d)\d{0,2}(?:\.\d{1,3}){3}(?![\w.]{0,16}\w)"
    r"|[0-9A-Fa-f]{0,3}:?[0-9A-Fa-f]{0,4}:[\w:.]{0,64})"
)
_NOBODYS = frozenset({"localhost", "root"})  # names that say nothing about the user


class Redactor:
    def __init__(self, *, mask: SecretMask, homes: Iterable[str] = ()) -> None:
        self.mask = mask
        self._homes = sorted((h.rstrip("/") for h in homes if len(h) > 1), key=len, reverse=True)
        self._aliases: dict[str, str] = {}
        self._counts: Counter[str] = Counter()
        self._found = 0  # names that only texts have
        self._pattern: re.Pattern[str] | None = None

    def hosts(self, *names: str) -> None:
        for name in names:
            if is_address(name):
                self._alias("addr", name)
                continue
            short = name.partition(".")[0]
            self._alias("host", short)
            if short != name and short.lower() in self._aliases:
                self._give(name, f"{self._aliases[short.lower()]}.domain")

    def users(self, *names: str) -> None:
        for name in names:
            self._alias("user", name)

    def addresses(self, *names: str) -> None:
        """What ssh connects to: an address, or the name of a host."""
        self.hosts(*names)

    def text(self, text: str) -> str:
        text = self.mask.text(_LONG_LINE.sub(_shortened, text))
        for home in self._homes:
            text = re.sub(rf"(?<![\w.-]){re.escape(home)}(?![\w.-])", "~", text)
        text = _OTHER_HOME.sub(lambda m: m[1] + self._seen("user", m[2]), text)
        text = self._known(text)
        if "@" in text:
            text = _AT.sub(self._person, text)
        return _IP.sub(lambda m: self._seen("addr", m[0]) if is_address(m[0]) else m[0], text)

    def value(self, value: Any) -> Any:
        """A JSON document whose keys are ours; only its values are from elsewhere."""
        return self._aliased(self.mask.document(value))

    def _aliased(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: self._aliased(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self._aliased(inner) for inner in value]
        return self.text(value) if isinstance(value, str) else value

    def _known(self, text: str) -> str:
        if self._pattern is None:
            self._pattern = _either(self._aliases)
        return self._pattern.sub(lambda m: self._aliases.get(m[0].lower(), m[0]), text)

    def _person(self, found: re.Match[str]) -> str:
        user, _, host = found[0].partition("@")
        return f"{self._seen('user', user)}@{host if _is_alias(host) else self._seen('host', host)}"

    def _seen(self, kind: str, name: str) -> str:
        """The alias of a name in a text."""
        if name.lower() not in self._aliases:
            self._found += 1
            if self._found > _MOST:
                return kind
            if kind == "host":
                self.hosts(name)
            else:
                self._alias(kind, name)
        return self._aliases.get(name.lower(), name)

    def _alias(self, kind: str, name: str) -> str:
        key = name.lower()
        if not name or key in _NOBODYS or name.isdigit() or _is_alias(name):
            return name
        if key not in self._aliases:
            self._counts[kind] += 1
            self._give(name, f"{kind}{self._counts[kind]}")
        return self._aliases[key]

    def _give(self, name: str, alias: str) -> None:
        if name.lower() not in self._aliases:
            self._aliases[name.lower()] = alias
            self._pattern = None


def _shortened(found: re.Match[str]) -> str:
    """Up to the end of a word: a part of a secret may not look like one."""
    line = found[0][:_LONGEST]
    line = line[:-512] + _LAST_WORD.sub("", line[-512:])
    return f"{line} [... {len(found[0]) - len(line)} more characters]"


def _either(words: Iterable[str]) -> re.Pattern[str]:
    """By first letter, so that other words are skipped fast."""
    begins: dict[str, list[str]] = {}
    for word in sorted(words, key=len, reverse=True):
        begins.setdefault(re.escape(word[0] + word[0].upper()), []).append(re.escape(word[1:]))
    either = "|".join(f"(?<=[{first}])(?i:{'|'.join(rest)})" for first, rest in begins.items())
    any_of = f"[{''.join(begins)}](?<![A-Za-z0-9].)(?:{either})(?![A-Za-z0-9])"
    return re.compile(any_of if begins else r"(?!)")


def _is_alias(word: str) -> bool:
    return bool(re.fullmatch(r"(?:user|host|addr)\d+(?:\.domain)?", word))


@lru_cache(4096)
def is_address(word: str) -> bool:
    """An IP address that says something about the user's network."""
    if "::" not in word and "." not in word and word.count(":") < 7:  # a time of day
        return False
    try:
        found = ipaddress.ip_address(word)
    except ValueError:
        return False
    return not (found.is_loopback or found.is_unspecified)
