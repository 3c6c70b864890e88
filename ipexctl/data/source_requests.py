"""What a source is asked about its files."""

from __future__ import annotations

import http.client
import io
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from email.message import Message
from urllib.parse import urlsplit

from ipexctl.data.file_fetch import PullFailed
from ipexctl.packages.download import HEADERS, TIMEOUT, Broken, copy_body
from ipexctl.quick_dataclass import dataclass

MOST = 64 << 20  # bytes of a description
LONGEST = 120.0  # seconds that it may take


@dataclass(frozen=True)
class Answered:
    status: int
    headers: Mapping[str, str] | Message
    body: bytes = b""


def ask(open_url: Callable[..., http.client.HTTPResponse], method: str, url: str) -> Answered:
    """`open_url` adds a token where one is needed. Raises PullFailed without an answer."""
    request = urllib.request.Request(url, headers=HEADERS, method=method)
    body = io.BytesIO()
    try:
        with open_url(request, timeout=TIMEOUT) as answer:
            copy_body(answer, body, lambda count: None, MOST, TIMEOUT, LONGEST)
            return Answered(answer.status, answer.headers, body.getvalue())
    except urllib.error.HTTPError as e:
        e.close()
        return Answered(e.code, e.headers)
    except (Broken, http.client.HTTPException, OSError) as e:
        site = urlsplit(url).hostname
        why = str(getattr(e, "reason", e)) or type(e).__name__
        what = f"{site} did not describe its files" if body.tell() else f"cannot reach {site}"
        raise PullFailed(what, why=why) from None
