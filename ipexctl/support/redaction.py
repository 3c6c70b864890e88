"""Redact text for other people: secrets are masked; hosts, users and addresses get aliases.

A host has the same alias everywhere. Masking too much is acceptable, too little is not.
"""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from ipexctl.base.secret_mask import SecretMask

_OTHER_HOME = re.compile(r"(/(?:home|Users)/)([^/\s:'\"]{1,64})")
_AT = re.compile(r"[\w.+-](?<![\w.+-].)[\w.+-]{0,63}@[A-Za-z][\w-]{0,62}(?:\.[\w-]{1,63}){0,9}")
_IP = re.compile(
    r"[0-9A-Fa-f:](?<![\w.:].)(?:(?<=\d)\d{0,2}(?:\.\d{1,3}){3}(?![\w.]{0,16}\w)"
    r"|[0-9A-Fa-f]{0,3}:?[0-9A-Fa-f]{0,4}:[\w:.]{0,64})"
)
_ALIAS = re.compile(r"(?:user|host|addr)\d+(?:\.domain)?")
_SAYS_NOTHING = frozenset({"localhost", "root"})


class Redactor:
    def __init__(self, *, mask: SecretMask, homes: Iterable[str] = ()) -> None:
        self.mask = mask
        self._homes = sorted((h.rstrip("/") for h in homes if len(h) > 1), key=len, reverse=True)
        self._aliases: dict[str, str] = {}  # by lower-case names
        self._counts: Counter[str] = Counter()

    def add_hosts(self, *names: str) -> None:
        """Add names or addresses of hosts."""
        for name in names:
            if is_address(name):
                self._alias_of("addr", name)
                continue
            short = name.partition(".")[0]
            alias = self._alias_of("host", short)
            if alias != short:
                self._aliases.setdefault(name.lower(), f"{alias}.domain")

    def add_users(self, *names: str) -> None:
        for name in names:
            self._alias_of("user", name)

    def redact_text(self, text: str) -> str:
        """Mask secrets; replace home folders, hosts, users and addresses by aliases."""
        text = self.mask.mask_text(text)
        for home in self._homes:
            text = re.sub(rf"(?<![\w.-]){re.escape(home)}(?![\w.-])", "~", text)
        text = _OTHER_HOME.sub(lambda m: m[1] + self._alias_of("user", m[2]), text)
        text = self._replace_names(text)
        if "@" in text:
            text = _AT.sub(self._redact_login, text)
        return _IP.sub(lambda m: self._alias_of("addr", m[0]) if is_address(m[0]) else m[0], text)

    def redact_document(self, value: Any) -> Any:
        """Redact a JSON document whose keys are our own; only its values are from elsewhere."""
        return self._redact_values(self.mask.mask_document(value))

    def _redact_values(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: self._redact_values(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._redact_values(item) for item in value]
        return self.redact_text(value) if isinstance(value, str) else value

    def _replace_names(self, text: str) -> str:
        names = "|".join(map(re.escape, sorted(self._aliases, key=len, reverse=True)))
        pattern = re.compile(rf"(?<![A-Za-z0-9])(?:{names or '(?!)'})(?![A-Za-z0-9])", re.I)
        return pattern.sub(lambda m: self._aliases.get(m[0].lower(), m[0]), text)

    def _redact_login(self, match: re.Match[str]) -> str:
        user, _, host = match[0].partition("@")
        self.add_hosts(host)
        return f"{self._alias_of('user', user)}@{self._aliases.get(host.lower(), host)}"

    def _alias_of(self, kind: str, name: str) -> str:
        key = name.lower()
        if not name or key in _SAYS_NOTHING or name.isdigit() or _ALIAS.fullmatch(name):
            return name
        if key not in self._aliases:
            self._counts[kind] += 1
            self._aliases[key] = f"{kind}{self._counts[kind]}"
        return self._aliases[key]


@lru_cache(4096)
def is_address(word: str) -> bool:
    """Decide whether a text is an IP address that reveals something about the network."""
    if "::" not in word and "." not in word and word.count(":") < 7:  # a time of day
        return False
    try:
        address = ipaddress.ip_address(word)
    except ValueError:
        return False
    return not (address.is_loopback or address.is_unspecified)
