"""Which package index stalls: it takes a connection or a request, and then sends next to nothing.

uv notices only a server that sends nothing at all, and asks it again: that takes a minute and a
half, and one that sends a byte now and then holds it up for ever.
"""

from __future__ import annotations

import http.client
import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterable
from urllib.parse import urljoin

from ipexctl.packages.http_opener import Opener
from ipexctl.packages.indexes import plain
from ipexctl.quick_dataclass import dataclass

SLOW = 8.0  # seconds after which uv is late, and its indexes are asked by us, too
PATIENCE = 18.0  # seconds for the answer; UV_HTTP_TIMEOUT makes it longer
LEAST = 1000  # bytes per second of a server that is only slow
ENOUGH = 1 << 20  # bytes of one page
_LINK = re.compile(rb"<a [^<>]*href=[\"']([^\"'#]+)")


@dataclass(frozen=True)
class Stall:
    page: str  # by which it was found
    url: str  # the page, or the file; both without a login
    how: str

    def __str__(self) -> str:
        return f"{self.url} stalls: {self.how}"


class StallWatch:
    """Asks for each page, and for a file that it has a link to, again and again."""

    def __init__(self, pages: Iterable[str], opener: Opener, patience: float) -> None:
        self._pages, self._opener, self._patience = tuple(pages), opener, patience
        self._ask()

    def _ask(self) -> None:
        self._probes = [_Probe(page, self._opener, self._patience) for page in self._pages]
        self._asked = time.monotonic()

    def found(self) -> Stall | None:
        if time.monotonic() - self._asked < self._patience:
            return None
        stalls = [stall for probe in self._probes if (stall := probe.stall())]
        self._ask()
        return stalls[0] if stalls else None


class _Probe:
    def __init__(self, page: str, opener: Opener, patience: float) -> None:
        self._page, self._opener, self._patience = page, opener, patience
        self._url = page
        self._how, self._came, self._over = "", 0, False
        # a daemon: a header that comes byte by byte can take for ever
        threading.Thread(target=self._run, daemon=True).start()

    def stall(self) -> Stall | None:
        if self._over or self._came > LEAST * self._patience:
            return None
        how = f"{self._came} bytes" if self._came else "no answer"
        how = f"{self._how or how} in {self._patience:.0f} s"
        return Stall(plain(self._page), plain(self._url), how)

    def _run(self) -> None:
        try:
            text = self._read(ENOUGH)
            if link := _LINK.search(text):
                self._url, self._came = urljoin(self._url, link[1].decode("utf-8", "replace")), 0
                self._read(1)
            self._over = True
        except TimeoutError:
            pass
        except urllib.error.URLError as e:
            if isinstance(e.reason, TimeoutError):
                self._how = "no connection"
            else:
                self._over = True
        except (OSError, http.client.HTTPException, ValueError):
            self._over = True  # an answer, or a failure that uv names itself

    def _read(self, most: int) -> bytes:
        came = []
        with self._opener.open(urllib.request.Request(self._url), timeout=self._patience) as answer:
            while self._came < most and (piece := answer.read1(1 << 16)):
                came.append(piece)
                self._came += len(piece)
        return b"".join(came)
