"""HTTP as package indexes need it.

A login goes to the site that it is for, and to no other. Whose certificate need not be a good one,
only the user says; the files' sha256 are checked anyway.
"""

from __future__ import annotations

import base64
import http.client
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from email.message import Message
from typing import IO
from urllib.parse import urlsplit

from ipexctl.errors import InputError, reason_of
from ipexctl.packages.index_logins import Logins, bare, origin
from ipexctl.packages.indexes import Indexes


class Opener:
    def __init__(self, indexes: Indexes, environ: Mapping[str, str]) -> None:
        self._logins = Logins(indexes, environ)
        https = _Https(_checked(environ.get("SSL_CERT_FILE") or indexes.cert), indexes)
        self._director = urllib.request.build_opener(https, _Redirects())

    def open(self, request: urllib.request.Request, timeout: float) -> http.client.HTTPResponse:
        """Raises what urllib does, in whose words there is no login."""
        if pair := self._logins.of(request.full_url):
            said = base64.b64encode(":".join(pair).encode()).decode()
            # an ordinary header would go along to wherever the answer points
            request.add_unredirected_header("Authorization", f"Basic {said}")
        request.full_url = bare(request.full_url)
        answer: http.client.HTTPResponse = self._director.open(request, timeout=timeout)
        return answer


class _Https(urllib.request.HTTPSHandler):
    """Asked for every address of a chain of redirects: each site's own certificate counts."""

    def __init__(self, checked: ssl.SSLContext, indexes: Indexes) -> None:
        super().__init__()
        self._checked, self._indexes = checked, indexes
        self._unchecked = ssl.create_default_context()
        self._unchecked.check_hostname = False
        self._unchecked.verify_mode = ssl.CERT_NONE

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        # not of req.host, which may be a proxy
        trusted = self._indexes.trusts(req.full_url)
        context = self._unchecked if trusted else self._checked
        try:
            return self.do_open(http.client.HTTPSConnection, req, context=context)
        except urllib.error.URLError as e:
            e.filename = req.full_url  # whose fault it is, at the end of redirects
            raise


class _Redirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str,
        headers: Message, newurl: str,
    ) -> urllib.request.Request | None:  # fmt: skip
        fp.close()  # urllib would read its body, however long that is
        if urlsplit(newurl).scheme not in ("http", "https"):
            return None
        new = super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]
        said = req.get_header("Authorization")
        if new and said and origin(new.full_url) == origin(req.full_url):
            new.add_unredirected_header("Authorization", said)
        return new


def _checked(cafile: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=cafile or None)
    except OSError as e:
        raise InputError(
            f"cannot read the CA certificates in {cafile}",
            why=reason_of(e),
            hint="PIP_CERT=FILE, or SSL_CERT_FILE=FILE   # in PEM",
            slug="ca-unreadable",
        ) from None
