"""How bytes reach a host: one Channel per host, over any transport.

`machines/ssh` carries it over SSH, or over the ssh program (`openssh_transport.py`). LocalTransport
below starts the same command as a child process, so a machine without SSH, and most tests, take the
same path.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from typing import Protocol

from ipexctl.inventory.inventory import Host
from ipexctl.local.environment import user_umask

_DRAIN = 16
FILES_PER_HOST, FILES_BESIDE = 3, 64
WRITE_PATIENCE = 120.0  # as long as a transfer may be silent
SLOWEST = 50_000  # bytes per second of a transfer


def takes_nothing() -> TimeoutError:
    return TimeoutError(f"it has read nothing for {WRITE_PATIENCE:.0f} s")


def check_progress(began: float, written: int) -> None:
    """Raise TimeoutError for a reader that accepts only a few bytes now and then."""
    waited = time.monotonic() - began
    if waited > WRITE_PATIENCE + written / SLOWEST:
        raise TimeoutError(f"it has read {written:,} bytes in {waited:.0f} s")


class ChannelTimeout(Exception):
    """Nothing arrived in time."""


class Channel(Protocol):
    """stdin, stdout and stderr of one command on one host. One thread reads, one writes."""

    def write(self, data: bytes) -> None:
        """Block until all is written. Raises OSError if the other end is gone, TimeoutError if it
        accepts nothing for WRITE_PATIENCE seconds."""
        ...

    def read(self, size: int, timeout: float | None = None) -> bytes:
        """Return at least one byte, or b"" at the end. Raises ChannelTimeout."""
        ...

    def stderr(self) -> bytes:
        """Return what the command wrote to stderr so far (the last 64 KiB)."""
        ...

    def exit_status(self, timeout: float) -> int | None:
        """Return the exit status; None if it is not known in time."""
        ...

    def round_trip(self) -> float | None:
        """Return the fastest round trip so far in seconds, if the kernel knows it, else None."""
        ...

    def close(self) -> None:
        """End the connection; the command on the host sees the end of its stdin."""
        ...


class Transport(Protocol):
    def open(self, host: Host, command: str, timeout: float) -> Channel:
        """Run `command` (a line for the login shell) on the host. Raises Unreachable."""
        ...

    def close(self) -> None: ...


class RemoteTransport(Transport, Protocol):
    def attend(self, host: Host, command: str, timeout: float, *, pty: bool) -> int:
        """Run `command` with our own stdin, stdout and stderr, in a terminal if `pty`, and return
        its exit code. Raises Unreachable; `timeout` is for the login."""
        ...


class PipeChannel:
    """A Channel to a child process. Its process group ends with it."""

    patience = 8.0  # seconds that a command may take to end after the end of its stdin

    def __init__(self, argv: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C in the terminal is the controller's to handle
            umask=user_umask(),
        )
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self._in_file = self._process.stdin
        self._in = self._process.stdin.fileno()
        self._out = self._process.stdout.fileno()
        self._err = self._process.stderr.fileno()
        os.set_blocking(self._err, False)
        os.set_blocking(self._in, False)
        self._room = select.poll()
        self._room.register(self._in, select.POLLOUT)
        self._ready = select.poll()  # select() itself knows no descriptor above 1023
        self._ready.register(self._out, select.POLLIN)
        self._ready.register(self._err, select.POLLIN)
        self._tail = b""
        self._err_closed = False
        self._closed = False

    def write(self, data: bytes) -> None:
        view, began = memoryview(data), time.monotonic()
        while view:
            if not self._room.poll(WRITE_PATIENCE * 1000):
                raise takes_nothing()
            check_progress(began, len(data) - len(view))
            with contextlib.suppress(BlockingIOError):
                view = view[os.write(self._in, view) :]

    def read(self, size: int, timeout: float | None = None) -> bytes:
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._closed:
            wait = None if deadline is None else max(0.0, deadline - time.monotonic())
            ready = [fd for fd, _ in self._ready.poll(wait if wait is None else wait * 1000)]
            if self._err in ready:
                self._drain_stderr()
            if self._out in ready:
                return os.read(self._out, size)
            if not ready or wait == 0.0:  # stderr alone, however long, is not an answer
                raise ChannelTimeout
        return b""

    def _drain_stderr(self) -> None:
        with contextlib.suppress(BlockingIOError):
            for _ in range(_DRAIN):  # a command that never stops writing must not keep us here
                data = os.read(self._err, 65536)
                self._tail = (self._tail + data)[-65536:]
                if not data:
                    self._err_closed = True
                    self._ready.unregister(self._err)
                    return

    def stderr(self) -> bytes:
        if not self._err_closed:
            self._drain_stderr()
        return self._tail

    def exit_status(self, timeout: float) -> int | None:
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None

    def round_trip(self) -> float | None:
        return None

    def close(self) -> None:
        """Close stdin, which ends the agent; a reader in another thread then sees end of file."""
        with contextlib.suppress(OSError):
            self._in_file.close()
        if self.exit_status(self.patience) is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._closed = True  # the pipes are closed when this object is freed


def allow_files(hosts: int) -> None:
    """Raise the limit of open files for this many connections, up to the hard limit."""
    needed = hosts * FILES_PER_HOST + FILES_BESIDE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    if soft < limit:
        with contextlib.suppress(ValueError, OSError):  # macOS reports no limit, but has one
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


class LocalTransport:
    """The controller itself, through a child process instead of SSH."""

    def open(self, host: Host, command: str, timeout: float) -> Channel:
        return PipeChannel(("/bin/sh", "-c", command))

    def close(self) -> None:
        return None
