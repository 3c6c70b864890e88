"""Which sites want to know who asks, and what they are told. It stays on this machine."""

from __future__ import annotations

import netrc
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from ipexctl.base import toml
from ipexctl.packages.indexes import Indexes

HINT = (
    "machine {} login USER password PASSWORD   # a line for ~/.netrc; or put them into "
    "PIP_INDEX_URL"
)
_VARIABLES = (
    "UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS",
)  # fmt: skip
_NAMED = re.compile(r"UV_INDEX_(\w+)_(?:USERNAME|PASSWORD)")
_PORTS = {"http": 80, "https": 443}

Pair = tuple[str, str]  # name and password


class Logins:
    """As far as options, pip's and uv's environment and files, and .netrc tell."""

    def __init__(self, indexes: Indexes, environ: Mapping[str, str]) -> None:
        given = [
            *(("", url) for url in (indexes.index_url, *indexes.extra, *indexes.find_links)),
            *_in_variables(environ),
            *_in_files(environ),
        ]
        pairs = ((url, _named(name, environ) or pair_in(url)) for name, url in given)
        self._given = [(origin(url), _folders(url), pair) for url, pair in pairs if pair]
        # for an index that nothing here knows by its name
        self._any = bool(_names(environ) - {_in_a_variable(name) for name, _ in given})
        self._netrc = _netrc(environ)

    def of(self, url: str) -> Pair | None:
        """The address' own login, else that of the index beside which it lies: same scheme, host
        and port, and of several the one with which it shares the longest path. Else .netrc's."""
        site, folders = origin(url), _folders(url)
        beside = [
            (_shared(folders, path), pair) for known, path, pair in self._given if known == site
        ]
        nearest = max(beside, key=lambda found: found[0])[1] if beside else None
        found = pair_in(url) or nearest
        if found and found[1]:
            return found
        said = self._in_netrc(url)
        return said if said and (not found or found[0] == said[0]) else found

    def wants(self, url: str) -> bool:
        """An address with a query counts: it may hold a key that was made for whoever asked."""
        parts = _split(url)
        return (
            self._any
            or bool(parts.username or parts.query)
            or any(parts.hostname == host for (_, host, _), _, _ in self._given)
            or bool(self._in_netrc(url))
        )

    def _in_netrc(self, url: str) -> Pair | None:
        """It tells hosts apart, and no ports."""
        said = self._netrc.authenticators(_split(url).hostname or "") if self._netrc else None
        return (said[0], said[2] or "") if said else None


def pair_in(url: str) -> Pair | None:
    parts = _split(url)
    if parts.username or parts.password:
        return unquote(parts.username or ""), unquote(parts.password or "")
    return None


def bare(url: str) -> str:
    """The same address without a login."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def origin(url: str) -> tuple[str, str, int]:
    """Scheme, host and port."""
    parts = _split(url)
    with suppress(ValueError):
        return parts.scheme, parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0)
    return "", "", 0


def _split(url: str) -> SplitResult:
    """What is no address has no parts: whoever uses it will say so."""
    with suppress(ValueError):
        return urlsplit(url)
    return urlsplit("")


def _folders(url: str) -> list[str]:
    return [part for part in _split(url).path.split("/") if part]


def _shared(one: list[str], other: list[str]) -> int:
    """How many folders two paths begin with in common."""
    pairs = zip(one, other, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


# --- what uv and .netrc know ---------------------------------------------------------------------


def _in_variables(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """(name or "", address): uv takes NAME=URL too."""
    for variable in _VARIABLES:
        for word in environ.get(variable, "").replace(",", " ").split():
            name, equals, url = word.partition("=")
            yield (name, url) if equals and ":" not in name else ("", word)


def _in_files(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for path in _uv_files(environ):
        said: Any = {}
        with suppress(OSError, ValueError):  # uv says what is wrong with it
            said = toml.loads(path.read_text("utf-8"))
        for table in (said, _table(said.get("pip"))):
            for index in map(_table, _list(table.get("index"))):
                yield str(index.get("name", "")), str(index.get("url", ""))
            for key in ("index-url", "extra-index-url", "find-links"):
                yield from (("", str(url)) for url in _list(table.get(key)))


def _uv_files(environ: Mapping[str, str]) -> Iterator[Path]:
    if own := environ.get("UV_CONFIG_FILE"):
        yield Path(own)
    elif not environ.get("UV_NO_CONFIG"):
        yield Path(environ.get("XDG_CONFIG_HOME") or _home(environ) / ".config") / "uv" / "uv.toml"
        for folder in environ.get("XDG_CONFIG_DIRS", "/etc/xdg").split(":"):
            yield Path(folder) / "uv" / "uv.toml"
        yield Path("/etc/uv/uv.toml")


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value] if value else []


def _named(name: str, environ: Mapping[str, str]) -> Pair | None:
    variable = f"UV_INDEX_{_in_a_variable(name)}_"
    pair = environ.get(variable + "USERNAME", ""), environ.get(variable + "PASSWORD", "")
    return pair if name and any(pair) else None


def _names(environ: Mapping[str, str]) -> set[str]:
    """The indexes for which uv has a name or password, as variables call them."""
    return {found[1] for name in environ if (found := _NAMED.fullmatch(name)) and environ[name]}


def _in_a_variable(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]", "_", name).upper()


def _netrc(environ: Mapping[str, str]) -> netrc.netrc | None:
    path = environ.get("NETRC") or str(_home(environ) / ".netrc")
    with suppress(OSError, netrc.NetrcParseError, UnicodeDecodeError):
        return netrc.netrc(path)
    return None


def _home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME") or Path.home())
