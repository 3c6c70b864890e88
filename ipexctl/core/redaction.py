"""Text for other people: secrets are masked, and hosts, users and addresses have aliases.

The same host has the same alias everywhere. Masking too much is fine, too little is not.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ipexctl.core.plays.secret_mask import MASK, masked

_NAME = (
    r"[\w.-]*(?:TOKEN|KEY(?!ERROR|BOARD|WORD)|SECRET|PASS(?!ED\b|ES\b|ING\b)|PWD|CREDENTIAL"
    r"|AUTH(?!ORS?\b))[\w.-]*"
)
_QUOTED = r"\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'"
_WORD = rf"(?:{_QUOTED}|\S)+"
_REST = rf"(?:{_QUOTED}|[^\n]+)"
SECRET_NAME = re.compile(_NAME, re.IGNORECASE)
# what is kept is group 1
_SECRETS = [
    re.compile(pattern, flags)
    for pattern, flags in (
        (r"()-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.S),
        (r"(^)[ \t]*[A-Za-z0-9+/=]{60,}[ \t]*$", re.M),  # a line of a key whose head is cut off
        (r"([A-Za-z][A-Za-z0-9+.-]*://)\S*@", 0),
        (r"()(?<![\w.-])[\w.-]+:[^\s@:]+(?=@[\w\[])", 0),
        (r"(\b(?:Bearer|Basic)\s+)(?!-)[\w.~+/=-]{4,}", re.I),
        (rf"((?<![\w-])--?{_NAME}[ \t]+)(?!-){_WORD}", re.I),
        (rf"({_NAME}[\"']?=){_WORD}", re.I),
        (rf"({_NAME}[\"']?(?:[ \t]*:[ \t]*|[ \t]+=>?[ \t]*|=>?[ \t]+)){_REST}", re.I),
        (
            r"()\b(?:hf_|gh[a-z]_|github_pat_|glpat-|sk-|xox[a-z]-|pypi-|dckr_pat_|npm_|AKIA|ASIA"
            r"|AIza|ya29\.|eyJ)[\w.~+/=-]{12,}",
            0,
        ),
    )
]
_FLAGS = frozenset({"auto", "false", "none", "null", "true"})  # TOKENIZERS_PARALLELISM=false
_SHORTEST = 4  # of a variable's value that is looked for in all texts
_OTHER_HOME = re.compile(r"(/(?:home|Users)/)([^/\s:'\"]+)")
_AT = re.compile(r"([\w.+-]+)@([A-Za-z][\w-]*(?:\.[\w-]+)*)")
_IP = re.compile(
    r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.]*\w)|(?<![\w:])[0-9A-Fa-f:]*:[0-9A-Fa-f:]*:[\w:.]*"
)
_NOBODYS = frozenset({"localhost", "root"})  # names that say nothing about the user


def secret_values(variables: Mapping[str, str]) -> frozenset[str]:
    """Of the variables whose names say that they are secret."""
    return frozenset(
        value
        for name, value in variables.items()
        if SECRET_NAME.fullmatch(name) and len(value) >= _SHORTEST and value.lower() not in _FLAGS
    )


class Redactor:
    def __init__(self, *, secrets: Iterable[str] = (), homes: Iterable[str] = ()) -> None:
        self._secrets = frozenset(secrets)
        self._homes = sorted((h.rstrip("/") for h in homes if len(h) > 1), key=len, reverse=True)
        self._aliases: dict[str, str] = {}
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
        text = masked(text, self._secrets)
        for pattern in _SECRETS:
            text = pattern.sub(rf"\1{MASK}", text)
        for home in self._homes:
            text = re.sub(rf"(?<![\w.-]){re.escape(home)}(?![\w.-])", "~", text)
        text = _OTHER_HOME.sub(lambda m: m[1] + self._alias("user", m[2]), text)
        text = self._known(text)
        text = _AT.sub(self._person, text)
        return _IP.sub(lambda m: self._alias("addr", m[0]) if is_address(m[0]) else m[0], text)

    def value(self, value: Any) -> Any:
        """A JSON document whose keys are ours; only its values are from elsewhere."""
        if isinstance(value, Mapping):
            return {
                key: MASK if SECRET_NAME.fullmatch(key) and inner else self.value(inner)
                for key, inner in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.value(inner) for inner in value]
        return self.text(value) if isinstance(value, str) else value

    def _known(self, text: str) -> str:
        if self._pattern is None:
            words = sorted(self._aliases, key=len, reverse=True)
            either = "|".join(map(re.escape, words)) or r"(?!)"
            pattern = rf"(?<![A-Za-z0-9])(?:{either})(?![A-Za-z0-9])"
            self._pattern = re.compile(pattern, re.IGNORECASE)
        return self._pattern.sub(lambda m: self._aliases[m[0].lower()], text)

    def _person(self, found: re.Match[str]) -> str:
        user, host = found.groups()
        self.users(user)
        if not _is_alias(host):
            self.hosts(host)
        return f"{self._known(user)}@{self._known(host)}"

    def _alias(self, kind: str, name: str) -> str:
        key = name.lower()
        if not name or key in _NOBODYS or name.isdigit() or _is_alias(name):
            return name
        if key not in self._aliases:
            count = sum(re.fullmatch(rf"{kind}\d+", a) is not None for a in self._aliases.values())
            self._give(name, f"{kind}{count + 1}")
        return self._aliases[key]

    def _give(self, name: str, alias: str) -> None:
        if name.lower() not in self._aliases:
            self._aliases[name.lower()] = alias
            self._pattern = None


def _is_alias(word: str) -> bool:
    return bool(re.fullmatch(r"(?:user|host|addr)\d+(?:\.domain)?", word))


def is_address(word: str) -> bool:
    """An IP address that says something about the user's network."""
    try:
        found = ipaddress.ip_address(word)
    except ValueError:
        return False
    return not (found.is_loopback or found.is_unspecified)
