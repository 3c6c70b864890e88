"""Which names belong to secrets (`HF_TOKEN`, `dbPassword`), and which values look random."""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache


class Named(Enum):
    SECRET = "secret"  # by its name
    MAYBE = "maybe"  # if the value looks random
    NO = "no"


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_ALWAYS = words(
    "password passwords passwd passphrase passcode pwd pw psk secret secrets credential"
    " credentials creds cred apikey apikeys authorization cookie cookies jwt mnemonic otp totp"
    " webhook sessionid sessid sid phrase dsn passkey"
)
_ENDS = (
    "password", "passwd", "passphrase", "passcode", "secret", "token", "apikey", "accesskey",
    "secretkey", "privatekey", "authkey", "sharedkey", "accountkey", "pwd", "pass", "sessid",
    "sessionid", "requireauth", "masterauth", "bindpw", "rootpw",
)  # fmt: skip
_NO_PASS = words("bypass compass encompass surpass trespass overpass multipass")
# what a secret's name may have after its word; others describe it: token_count, password_file
_AFTER = words(
    "base b data material value val hex raw text string str plain plaintext new old current"
    " prod production dev test live staging main primary secondary backup header id key token"
    " hash secret password auth phrase enc encoded"
)
_ONLY_END_SO = words("monkey donkey turkey hockey jockey whiskey smokey hotkey pubkey publickey")
_NO_KEY = words(
    "public pub host primary foreign sort cache dict metric missing unexpected state group"
    " index row column query attention attn param config map lookup routing partition object"
    " store hot arrow press value num layer per kv self cross each every next first last this"
    " that the a any same wrong other hostkey environment env lock known barrier"
)
_KINDS = words(  # in prose: the API key
    "api access secret private auth account encryption signing master storage shared subscription"
    " service license ssh deploy bearer refresh session recovery seed backup client security id"
)
_NO_TOKEN = words(
    "pad eos bos unk sep cls mask special image audio video stop start end begin next last"
    " first prev max min num per total input output prompt completion generated train vocab"
    " each every by n mfile think unexpected single one decoder forced"
)
_SWITCHES = words("use no with without enable disable allow require ask has is")


@lru_cache(4096)
def named(name: str, before: str = "") -> Named:
    """`before`: the word before it, as in "API key"."""
    parts = [word.lower() for word in _WORDS.findall(name)]
    if "error" in parts:
        return Named.NO
    if len(parts) == 1 and before.lower() in _KINDS | _NO_TOKEN | _NO_KEY:
        parts.insert(0, before.lower())
    places = [i for i, word in enumerate(parts) if _is_secret(parts, i)]
    if not places:
        maybe = {"token", "tokens", "key", "keys", "auth", "pass", "session", "sig", "signature"}
        return Named.MAYBE if maybe & {*parts} and not _plain(parts) else Named.NO
    if parts[0] in _SWITCHES and name[:1] == "-":
        return Named.NO
    after = parts[places[-1] + 1 :]
    return Named.SECRET if all(word in _AFTER for word in after) else Named.MAYBE


def _is_secret(parts: list[str], i: int) -> bool:
    word, before = parts[i], parts[i - 1] if i else ""
    if word == "token":
        return before not in _NO_TOKEN
    if word == "key":
        return bool(before) and before not in _NO_KEY
    if word == "keys":
        return before in ("api", "access", "secret", "private")
    if word == "tokens":
        return before in ("access", "refresh", "auth", "api", "id", "bearer")
    if word == "auth":
        return i == len(parts) - 1
    if word == "phrase":
        return before in ("seed", "recovery", "pass", "backup")
    if word.endswith("key") and word not in _NO_KEY | _ONLY_END_SO:
        return True
    return word in _ALWAYS or word == "pass" or word.endswith(_ENDS) and word not in _NO_PASS


def _plain(parts: list[str]) -> bool:
    """public_key, cache_key: their values are no secrets, even if they look random."""
    return any(
        word in ("key", "keys") and before in ("public", "pub", "host", "cache", "environment")
        for before, word in zip(parts, parts[1:], strict=False)
    )


_SEGMENT = re.compile(r"[A-Za-z0-9]+")
_CHANGE = re.compile(r"[a-z](?=[A-Z0-9])|[A-Z](?=[0-9])|[0-9](?=[A-Za-z])")
_HEX = re.compile(r"[0-9a-fA-F]{20,}")
_CHARACTERS = (re.compile("[a-z]"), re.compile("[A-Z]"), re.compile("[0-9]"))
_LOOKED_AT = 96  # characters of a word


def looks_random(word: str) -> bool:
    """Whether a value looks random; only for values whose name may belong to a secret."""
    word = word[:_LOOKED_AT]
    if _HEX.search(word):
        return True
    return any(
        len(part) >= 8 and len(_CHANGE.findall(part)) >= max(3, len(part) / 5)
        for part in _SEGMENT.findall(word)
    )


def is_random(word: str) -> bool:
    """Whether a word without a name looks like a secret: letters of both cases and digits that
    alternate too often for a name, but not a hexadecimal hash."""
    if word.islower() or word.isupper():
        return False
    parts = _SEGMENT.findall(word[:_LOOKED_AT])
    longest = max(parts, key=len, default="")
    return len(longest) >= 16 and is_mixed(longest, len(longest) / 3)


def is_mixed(word: str, changes: float = 5) -> bool:
    return len(_CHANGE.findall(word)) >= changes and all(kind.search(word) for kind in _CHARACTERS)
