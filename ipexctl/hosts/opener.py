"""HTTP as package indexes need it: a login goes to the site that it is for, and to no other."""

from __future__ import annotations

import base64
import http.client
import ssl
import urllib.request
from collections.abc import Mapping
from email.message import Message
from typing import IO

from ipexctl.hosts.indexes import Indexes
from ipexctl.hosts.logins import Logins, bare, origin


class Opener:
    def __init__(self, indexes: Indexes, environ: Mapping[str, str]) -> None:
        self._logins = Logins(indexes, environ)
        context = ssl.create_default_context(
            cafile=environ.get("SSL_CERT_FILE") or indexes.cert or None
        )
        https = urllib.request.HTTPSHandler(context=context)
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


class _Redirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str,
        headers: Message, newurl: str,
    ) -> urllib.request.Request | None:  # fmt: skip
        new = super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]
        said = req.get_header("Authorization")
        if new and said and origin(new.full_url) == origin(req.full_url):
            new.add_unredirected_header("Authorization", said)
        return new
