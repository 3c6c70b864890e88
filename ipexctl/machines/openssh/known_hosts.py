"""known_hosts files, as OpenSSH reads them: which keys are accepted for which host.

Hashed names, `[host]:port`, wildcards, negation, comma lists, `@revoked` and `@cert-authority` are
understood. What a certificate says is judged in machines/openssh/host_certificates.py.
"""

from __future__ import annotations

import base64
import binascii
import fnmatch
import hashlib
import hmac
import re
from collections.abc import Iterable, Sequence
from enum import Enum
from functools import lru_cache

from ipexctl.base.place import Place
from ipexctl.quick_dataclass import dataclass

_HASH_MAGIC = "|1|"


@dataclass(frozen=True)
class Entry:
    """One line. `key` is base64 as it stands there."""

    names: tuple[str, ...]
    key_type: str
    key: str
    marker: str  # "", "@revoked" or "@cert-authority"
    place: Place


class Standing(Enum):
    KNOWN = "known"
    UNKNOWN = "unknown"
    CHANGED = "changed"
    REVOKED = "revoked"


@dataclass(frozen=True)
class Verdict:
    """What the files say about a key, and the lines that say so."""

    standing: Standing
    lines: tuple[Entry, ...] = ()


def parse_known_hosts(text: str, source: str) -> tuple[Entry, ...]:
    """Every readable line. Others are ignored, as OpenSSH does."""
    parsed = (
        _parse_line(line, Place(source, number, 1))
        for number, line in enumerate(text.split("\n"), 1)
    )
    return tuple(entry for entry in parsed if entry)


def lookup_names(host: str, port: int, alias: str = "") -> tuple[str, ...]:
    """The names to look a host up by, the best first."""
    if alias:
        return (alias.lower(),)
    host = host.lower()
    return (host,) if port == 22 else (f"[{host}]:{port}", host)


def fingerprint(blob: bytes) -> str:
    """As `ssh-keygen -l` prints it."""
    digest = hashlib.sha256(blob).digest()
    return "SHA256:" + base64.b64encode(digest).decode("ascii").rstrip("=")


def entry_line(name: str, key_type: str, blob: bytes) -> str:
    return f"{name} {key_type} {base64.b64encode(blob).decode('ascii')}\n"


class KnownHosts:
    """All files together. Plain names are found by dictionary, the rest by looking at each."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._plain: dict[str, list[Entry]] = {}
        self._others: list[Entry] = []
        for entry in entries:
            if any(_is_pattern(name) for name in entry.names):
                self._others.append(entry)
                continue
            for name in entry.names:
                self._plain.setdefault(name.lower(), []).append(entry)

    def find(self, name: str) -> list[Entry]:
        """Every line about this name, certificates' authorities included."""
        return self._plain.get(name, []) + [e for e in self._others if names_match(e.names, name)]

    def types(self, names: Sequence[str]) -> tuple[str, ...]:
        """The key types on record, so that one of them can be asked for."""
        found = (e.key_type for name in names for e in self.find(name) if not e.marker)
        return tuple(dict.fromkeys(found))

    def authorities(self, names: Sequence[str]) -> tuple[Entry, ...]:
        """The lines that accept an authority's certificates for this host."""
        return tuple(e for name in names for e in self.find(name) if e.marker == "@cert-authority")

    def judge_certificate(self, names: Sequence[str], authority: bytes, key: bytes) -> Verdict:
        """Who signed it, and the host's own key in it: KNOWN when that authority may speak here."""
        lines = [e for name in names for e in self.find(name)]
        bad = [e for e in lines if e.marker == "@revoked"]
        revoked = tuple(e for e in bad if _same_key(e, authority) or _same_key(e, key))
        if revoked:
            return Verdict(Standing.REVOKED, revoked)
        vouching = tuple(e for e in self.authorities(names) if _same_key(e, authority))
        return Verdict(Standing.KNOWN if vouching else Standing.UNKNOWN, vouching)

    def judge(self, names: Sequence[str], key_type: str, blob: bytes) -> Verdict:
        """`names` as lookup_names gives them: a further name can vouch, but not accuse."""
        verdict = Verdict(Standing.UNKNOWN)
        for name in reversed(names):
            found = self._judge_one(name, key_type, blob)
            if found.standing is Standing.REVOKED:
                return found
            if name == names[0] and found.standing is not Standing.UNKNOWN:
                return found
            if found.standing is Standing.KNOWN:
                verdict = found
        return verdict

    def _judge_one(self, name: str, key_type: str, blob: bytes) -> Verdict:
        lines = self.find(name)
        same = [e for e in lines if _same_key(e, blob)]
        revoked = tuple(e for e in same if e.marker == "@revoked")
        if revoked:
            return Verdict(Standing.REVOKED, revoked)
        known = tuple(e for e in same if not e.marker)
        if known:
            return Verdict(Standing.KNOWN, known)
        others = tuple(e for e in lines if not e.marker)
        # A host that suddenly has no key of the type on record is as suspicious as another key.
        same_type = tuple(e for e in others if e.key_type == key_type)
        if others:
            return Verdict(Standing.CHANGED, same_type or others)
        return Verdict(Standing.UNKNOWN)


def names_match(patterns: Sequence[str], name: str) -> bool:
    """A line's host field against one name: some pattern fits and no `!pattern` does."""
    name = name.lower()
    fits = False
    for pattern in patterns:
        negated = pattern.startswith("!")
        if _fits(pattern.removeprefix("!"), name):
            if negated:
                return False
            fits = True
    return fits


@lru_cache(maxsize=1024)
def wildcard(pattern: str) -> re.Pattern[str]:
    """OpenSSH's patterns: * and ? only, [ ] are themselves.

    fnmatch makes a pattern that never goes back over a *: ten of them would else take minutes.
    """
    return re.compile(fnmatch.translate(pattern.replace("[", "[[]")))


def _fits(pattern: str, name: str) -> bool:
    if pattern.startswith(_HASH_MAGIC):
        return _hash_fits(pattern, name)
    if "*" in pattern or "?" in pattern:
        return bool(wildcard(pattern.lower()).fullmatch(name))
    return pattern.lower() == name


def _hash_fits(pattern: str, name: str) -> bool:
    salt, _, digest = pattern[len(_HASH_MAGIC) :].partition("|")
    try:
        wanted = base64.b64decode(digest, validate=True)
        made = hmac.digest(base64.b64decode(salt, validate=True), name.encode(), "sha1")
    except (binascii.Error, ValueError):
        return False
    return hmac.compare_digest(wanted, made)


def _is_pattern(name: str) -> bool:
    return name.startswith(("!", "|")) or "*" in name or "?" in name


def _same_key(entry: Entry, blob: bytes) -> bool:
    try:
        return base64.b64decode(entry.key, validate=True) == blob
    except (binascii.Error, ValueError):
        return False


def _parse_line(line: str, place: Place) -> Entry | None:
    words = line.split()
    if not words or words[0].startswith("#"):
        return None
    marker = words.pop(0) if words[0].startswith("@") else ""
    if marker not in ("", "@revoked", "@cert-authority") or len(words) < 3:
        return None
    names, key_type, key = words[:3]
    if not _is_complete_key(key_type, key):
        return None
    return Entry(tuple(n for n in names.split(",") if n), key_type, key, marker, place)


def _is_complete_key(key_type: str, key: str) -> bool:
    """A key is a sequence of length-prefixed strings, its type first; a torn one is not."""
    try:
        rest = base64.b64decode(key, validate=True)
    except (binascii.Error, ValueError):
        return False
    texts: list[bytes] = []
    while len(rest) >= 4:
        size = int.from_bytes(rest[:4], "big")
        texts.append(rest[4 : 4 + size])
        rest = rest[4 + size :] if len(texts[-1]) == size else b"cut"
    return not rest and len(texts) > 1 and texts[0] == key_type.encode("utf-8", "surrogateescape")
