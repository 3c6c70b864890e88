"""HTTP requests with the logins and certificates of package indexes.

A login goes only to the site that it is for. Only the user exempts a site from certificate checks;
the files' sha256 are checked anyway.
"""

from __future__ import annotations

import base64
import http.client
import netrc
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from email.message import Message
from os.path import commonprefix
from pathlib import Path
from typing import IO
from urllib.parse import SplitResult, unquote, urlsplit

from ipexctl.errors import InputError, reason_of
from ipexctl.packages.indexes import Indexes, in_variables

Pair = tuple[str, str]  # name and password
_PORTS = {"http": 80, "https": 443}


class Logins:
    """The logins in addresses of options, of pip's settings and uv's variables, and in .netrc."""

    def __init__(self, indexes: Indexes, environ: Mapping[str, str]) -> None:
        urls = (indexes.index_url, *indexes.extra, *indexes.find_links, *in_variables(environ))
        self._given = [(url, pair_in(url)) for url in urls if pair_in(url)]
        self._netrc = _read_netrc(environ)

    def of(self, url: str) -> Pair | None:
        """Return the address' own login, else that of the index that contains it: same scheme, host
        and port, and of several the one with the longest common path. Else .netrc's."""
        parts = _split_url(url)

        def shared(source: tuple[str, Pair | None]) -> int:
            return len(commonprefix((_split_url(source[0]).path, parts.path)))

        same_origin = [source for source in self._given if url_origin(source[0]) == url_origin(url)]
        login = pair_in(url) or max(same_origin, key=shared, default=("", None))[1]
        if login and login[1]:
            return login
        # .netrc identifies hosts, not ports
        auth = self._netrc.authenticators(parts.hostname or "") if self._netrc else None
        return (auth[0], auth[2] or "") if auth and (not login or login[0] == auth[0]) else login


def pair_in(url: str) -> Pair | None:
    parts = _split_url(url)
    if parts.username or parts.password:
        return unquote(parts.username or ""), unquote(parts.password or "")
    return None


def url_without_login(url: str) -> str:
    """Return the same address without a login."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def url_origin(url: str) -> tuple[str, str, int]:
    """Return scheme, host and port."""
    parts = _split_url(url)
    with suppress(ValueError):
        return parts.scheme, parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0)
    return "", "", 0


def _split_url(url: str) -> SplitResult:
    """Split an address; an invalid one has no parts, and its user reports that."""
    with suppress(ValueError):
        return urlsplit(url)
    return urlsplit("")


def _read_netrc(environ: Mapping[str, str]) -> netrc.netrc | None:
    path = environ.get("NETRC") or str(Path(environ.get("HOME") or Path.home()) / ".netrc")
    with suppress(OSError, netrc.NetrcParseError, UnicodeDecodeError):
        return netrc.netrc(path)
    return None


class Opener:
    def __init__(self, indexes: Indexes, environ: Mapping[str, str]) -> None:
        self._logins = Logins(indexes, environ)
        https = _Https(_ssl_context(environ.get("SSL_CERT_FILE") or indexes.cert), indexes)
        self._director = urllib.request.build_opener(https, _Redirects())

    def open(self, request: urllib.request.Request, timeout: float) -> http.client.HTTPResponse:
        """Open the request. Raises urllib's errors, without the login in their text."""
        if login := self._logins.of(request.full_url):
            credentials = base64.b64encode(":".join(login).encode()).decode()
            # an ordinary header would be sent on to the target of a redirect
            request.add_unredirected_header("Authorization", f"Basic {credentials}")
        request.full_url = url_without_login(request.full_url)
        answer: http.client.HTTPResponse = self._director.open(request, timeout=timeout)
        return answer


class _Https(urllib.request.HTTPSHandler):
    """Used for every address of a chain of redirects: each site's own certificate counts."""

    def __init__(self, checked: ssl.SSLContext, indexes: Indexes) -> None:
        super().__init__()
        self._checked, self._indexes = checked, indexes
        self._unchecked = ssl.create_default_context()
        self._unchecked.check_hostname = False
        self._unchecked.verify_mode = ssl.CERT_NONE

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        # not req.host, which may be a proxy
        trusted = self._indexes.is_trusted(req.full_url)
        context = self._unchecked if trusted else self._checked
        try:
            return self.do_open(http.client.HTTPSConnection, req, context=context)
        except urllib.error.URLError as e:
            e.filename = req.full_url  # the site to blame, at the end of redirects
            raise


class _Redirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str,
        headers: Message, newurl: str,
    ) -> urllib.request.Request | None:  # fmt: skip
        fp.close()  # urllib would read its body, of any length
        if urlsplit(newurl).scheme not in ("http", "https"):
            return None
        new = super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]
        header = req.get_header("Authorization")
        if new and header and url_origin(new.full_url) == url_origin(req.full_url):
            new.add_unredirected_header("Authorization", header)
        return new


def _ssl_context(cafile: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=cafile or None)
    except OSError as e:
        raise InputError(
            f"cannot read the CA certificates in {cafile}",
            why=reason_of(e),
            hint="PIP_CERT=FILE, or SSL_CERT_FILE=FILE   # in PEM",
            slug="ca-unreadable",
        ) from None
