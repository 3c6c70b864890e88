"""Which sites want to know who asks, and what they are told. It stays on this machine."""

from __future__ import annotations

import netrc
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ipexctl.hosts.indexes import Indexes

_UV = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS")
_NAMED = re.compile(r"UV_INDEX_\w+_(USERNAME|PASSWORD)")
_PORTS = {"http": 80, "https": 443}

Pair = tuple[str, str]  # name and password


class Logins:
    """As far as options, the environment of pip and uv, and .netrc tell."""

    def __init__(self, indexes: Indexes, environ: Mapping[str, str]) -> None:
        said = [indexes.index_url, *indexes.extra, *indexes.find_links]
        given = [(url, pair) for url in said if (pair := pair_in(url))]
        self._given = tuple((origin(url), _folders(url), pair) for url, pair in given)
        for name in _UV:
            said += environ.get(name, "").replace(",", " ").split()
        # uv takes NAME=URL too
        urls = [urlsplit(word.partition("=")[2] if "=" in word.partition("://")[0] else word)
                for word in said]  # fmt: skip
        self._sites = {url.hostname for url in urls if url.username}
        # which index these are for, only uv's own files know
        self._any = any(_NAMED.fullmatch(name) and environ[name] for name in environ)
        self._netrc = _netrc(environ)

    def of(self, url: str) -> Pair | None:
        """The address' own login, else that of the index beside which it lies: same scheme, host
        and port, and of several the one with which it shares the longest path."""
        site, folders = origin(url), _folders(url)
        beside = [
            (_shared(folders, path), pair) for known, path, pair in self._given if known == site
        ]
        nearest = max(beside, key=lambda found: found[0])[1] if beside else None
        return pair_in(url) or nearest

    def wants(self, url: str) -> bool:
        """An address with a query counts: it may hold a key that was made for whoever asked."""
        parts = urlsplit(url)
        return (
            self._any
            or bool(parts.username or parts.query)
            or parts.hostname in self._sites
            or bool(self._netrc and self._netrc.authenticators(parts.hostname or ""))
        )


def pair_in(url: str) -> Pair | None:
    with suppress(ValueError):
        parts = urlsplit(url)
        if parts.username or parts.password:
            return unquote(parts.username or ""), unquote(parts.password or "")
    return None


def bare(url: str) -> str:
    """The same address without a login."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def origin(url: str) -> tuple[str, str, int]:
    """Scheme, host and port."""
    with suppress(ValueError):
        parts = urlsplit(url)
        return parts.scheme, parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0)
    return "", "", 0


def _folders(url: str) -> list[str]:
    return [part for part in urlsplit(url).path.split("/") if part]


def _shared(one: list[str], other: list[str]) -> int:
    """How many folders two paths begin with in common."""
    pairs = zip(one, other, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _netrc(environ: Mapping[str, str]) -> netrc.netrc | None:
    path = environ.get("NETRC") or str(Path(environ.get("HOME") or Path.home()) / ".netrc")
    with suppress(OSError, netrc.NetrcParseError, UnicodeDecodeError):
        return netrc.netrc(path)
    return None
