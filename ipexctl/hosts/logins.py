"""Which sites want to know who asks. What they are told stays on this machine."""

from __future__ import annotations

import netrc
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from ipexctl.hosts.indexes import Indexes

_UV = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS")
_NAMED = re.compile(r"UV_INDEX_\w+_(USERNAME|PASSWORD)")


class Logins:
    """As far as options, the environment of pip and uv, and .netrc tell."""

    def __init__(self, indexes: Indexes, environ: Mapping[str, str]) -> None:
        said = [indexes.index_url, *indexes.extra, *indexes.find_links]
        for name in _UV:
            said += environ.get(name, "").replace(",", " ").split()
        # uv takes NAME=URL too
        urls = [urlsplit(word.partition("=")[2] if "=" in word.partition("://")[0] else word)
                for word in said]  # fmt: skip
        self._sites = {url.hostname for url in urls if url.username}
        # which index these are for, only uv's own files know
        self._any = any(_NAMED.fullmatch(name) and environ[name] for name in environ)
        self._netrc = _netrc(environ)

    def wants(self, url: str) -> bool:
        """An address with a query counts: it may hold a key that was made for whoever asked."""
        parts = urlsplit(url)
        return (
            self._any
            or bool(parts.username or parts.query)
            or parts.hostname in self._sites
            or bool(self._netrc and self._netrc.authenticators(parts.hostname or ""))
        )


def _netrc(environ: Mapping[str, str]) -> netrc.netrc | None:
    path = environ.get("NETRC") or str(Path(environ.get("HOME") or Path.home()) / ".netrc")
    with suppress(OSError, netrc.NetrcParseError, UnicodeDecodeError):
        return netrc.netrc(path)
    return None
