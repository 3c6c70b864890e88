"""What a source is asked about its files, from this machine or from a host."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from email.message import Message
from urllib.parse import urlsplit

from ipexctl.data.file_fetch import PullFailed
from ipexctl.packages.download import TIMEOUT
from ipexctl.quick_dataclass import dataclass

HEADERS = {"User-Agent": "ipexctl", "Accept-Encoding": "identity"}


@dataclass(frozen=True)
class Hub:
    """Where the token is sent, and nowhere else."""

    site: str = ""
    token: str = ""


@dataclass(frozen=True)
class Answered:
    status: int
    headers: Mapping[str, str] | Message
    body: bytes = b""


NO_HUB = Hub()
Ask = Callable[[str, str, Hub], Answered]  # method, address; raises IpexctlError without an answer


def asked_from_here(open_url: Callable[..., http.client.HTTPResponse]) -> Ask:
    """`open_url` adds a token where one is needed."""

    def ask(method: str, url: str, hub: Hub) -> Answered:
        request = urllib.request.Request(url, headers=HEADERS, method=method)
        try:
            with open_url(request, timeout=TIMEOUT) as answer:
                return Answered(answer.status, answer.headers, answer.read())
        except urllib.error.HTTPError as e:
            e.close()
            return Answered(e.code, e.headers)
        except (http.client.HTTPException, OSError) as e:
            why = str(getattr(e, "reason", e)) or type(e).__name__
            raise PullFailed(f"cannot reach {urlsplit(url).hostname}", why=why) from None

    return ask
