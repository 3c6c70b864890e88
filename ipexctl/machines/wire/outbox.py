"""What is sent to a host that may read nothing: only a thread of its own waits for the host."""

from __future__ import annotations

import queue
import threading
import time

from ipexctl.machines.wire.transport import Channel

LIMIT = 8 << 20  # bytes that wait for the host to read them


class Outbox:
    """Takes bytes at once. Raises OSError when the host has read nothing for `patience` seconds,
    or when too much waits for it."""

    def __init__(self, channel: Channel, patience: float) -> None:
        self._channel, self._patience = channel, patience
        self._queue: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._waiting = 0
        self._since: float | None = None  # when the write began that has not ended
        self._error: OSError | None = None
        threading.Thread(target=self._write_all, daemon=True).start()

    def write(self, data: bytes) -> None:
        with self._lock:
            if self._error:
                raise self._error
            stuck = time.monotonic() - self._since if self._since is not None else 0.0
            if stuck > self._patience:
                raise TimeoutError(f"it has read nothing for {stuck:.0f} s")
            if self._waiting + len(data) > LIMIT:
                raise TimeoutError(f"it has not read {self._waiting:,} bytes")
            self._waiting += len(data)
        self._queue.put(data)

    def _write_all(self) -> None:
        while True:
            data = self._queue.get()
            with self._lock:
                self._since = time.monotonic()
            try:
                self._channel.write(data)
            except OSError as e:
                with self._lock:
                    self._error = e
                return
            with self._lock:
                self._since = None
                self._waiting -= len(data)
