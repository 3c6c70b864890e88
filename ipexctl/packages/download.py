"""Download files over HTTP: one is resumed where it stopped, and retried if that may help; several
are fetched at a time, and one failure ends all of them."""

from __future__ import annotations

import http.client
import os
import queue
import re
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import suppress
from email.message import Message
from typing import BinaryIO, TypeVar
from urllib.parse import urlsplit

from ipexctl.common.http_body import BodyBroken, TooLarge, read_body_pieces
from ipexctl.quick_dataclass import dataclass

AT_ONCE = 4  # files
TIMEOUT = 30.0
LEAST = 1000  # bytes per second; below that a server counts as stuck
MOST_BYTES = 16 << 30  # bytes of a file of unknown size
TRIES = 3  # in a row without any bytes
LONGEST_PAUSE = 30.0
HEADERS = {"User-Agent": "ipexctl", "Accept-Encoding": "identity"}
AGAIN = "run the same command again: files that are already here are not fetched again"

File = TypeVar("File")
Outcome = TypeVar("Outcome")


@dataclass(frozen=True)
class Download:
    """`longest`: maximum pause that a server may ask for. Tests pass in `wait` and `timeout`."""

    open: Callable[..., http.client.HTTPResponse]
    timeout: float = TIMEOUT
    wait: Callable[[float], None] = time.sleep
    longest: float = LONGEST_PAUSE

    def append_to(
        self, out: BinaryIO, url: str, on_bytes: Callable[[int], None], size: int = 0
    ) -> None:
        """Append all that the server has to `out`. Raises Broken, or OSError for our disk.

        `size`: of the file, 0 if it is not known. A larger file is refused.
        """
        failures = 0
        while True:
            start = out.seek(0, os.SEEK_END)
            try:
                return self._try_once(out, url, on_bytes, size or MOST_BYTES)
            except TooLarge:
                out.truncate(0)
                raise
            except BodyBroken as e:
                count = out.seek(0, os.SEEK_END) - start
                failures = 0 if count > (LEAST * self.timeout if e.stalled else 0) else failures + 1
                if e.final or failures >= TRIES:
                    raise
                self.wait(min(self.longest, float(failures) if e.pause is None else e.pause))

    def _try_once(
        self, out: BinaryIO, url: str, on_bytes: Callable[[int], None], limit: int
    ) -> None:
        """Append the rest of the file in one request."""
        offset = out.seek(0, os.SEEK_END)
        headers = {**HEADERS, "Range": f"bytes={offset}-"} if offset else HEADERS
        answer = self._open_request(urllib.request.Request(url, headers=headers))
        if answer is None:
            return  # all of it is already here; the hash will be checked
        with answer:
            if offset and answer.status != 206:
                out.truncate(0)
                offset = 0
            for piece in read_body_pieces(answer, limit, self.timeout, LEAST, have=offset):
                out.write(piece)
                on_bytes(len(piece))

    def _open_request(self, request: urllib.request.Request) -> http.client.HTTPResponse | None:
        """Send a request; None if the server has no bytes after the offset."""
        try:
            return self.open(request, timeout=self.timeout)
        except urllib.error.HTTPError as e:
            e.close()
            if e.code == 416:
                return None
            raise BodyBroken(f"HTTP {e.code} {e.reason}", e.code, _retry_after(e)) from None
        except TimeoutError:
            raise self._stall_error() from None
        except urllib.error.URLError as e:
            if isinstance(e.reason, ssl.SSLCertVerificationError):
                host = urlsplit(e.filename or request.full_url).hostname or ""
                words = f"the certificate of {host} is not valid: {e.reason.verify_message}"
                raise BodyBroken(words, untrusted=host) from None
            if isinstance(e.reason, TimeoutError):
                raise self._stall_error() from None
            raise BodyBroken(str(e.reason)) from None
        except (http.client.HTTPException, OSError, ValueError) as e:
            raise BodyBroken(str(e) or type(e).__name__) from None

    def _stall_error(self) -> BodyBroken:
        return BodyBroken(f"the server stalls: no answer for {self.timeout:.0f} s", stalled=True)


def _retry_after(e: urllib.error.HTTPError) -> float | None:
    """Return the seconds that the server asks for; dates are not supported."""
    headers = e.headers or Message()
    if re.fullmatch(r"[0-9]{1,9}", headers.get("Retry-After", "")):
        return float(headers["Retry-After"])
    limit = re.search(r";\s*t\s*=\s*([0-9]{1,9})", headers.get("RateLimit", ""))
    return float(limit[1]) if limit else None


# --- several files -------------------------------------------------------------------------------


def fetch_all(
    files: Sequence[File], fetch: Callable[[File], Outcome], over: threading.Event
) -> list[Outcome]:
    """Return what `fetch` returns for each file, as they end. After one failure no other file is
    begun. `over` is set when this returns or raises: a `fetch` that still runs should check it."""
    todo: queue.SimpleQueue[File] = queue.SimpleQueue()
    outcomes: queue.SimpleQueue[Outcome | BaseException] = queue.SimpleQueue()
    for file in files:
        todo.put(file)

    def work() -> None:
        with suppress(queue.Empty):
            while not over.is_set():
                file = todo.get_nowait()
                try:
                    outcomes.put(fetch(file))
                except BaseException as e:  # raised again by the thread that waits for it
                    outcomes.put(e)

    for _ in range(min(AT_ONCE, len(files))):
        # daemons: Ctrl-C must not wait for a silent server
        threading.Thread(target=work, daemon=True).start()
    try:
        return [_result_or_raise(outcomes.get()) for _ in files]
    finally:
        over.set()


def _result_or_raise(outcome: Outcome | BaseException) -> Outcome:
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome
