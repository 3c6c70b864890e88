"""Send log files as they grow, by offset: no line is torn, none is lost.

Files are held open, so a script may remove its log or change its mode. The controller grants a
number of bytes (`window`), and again those that it has shown: output waits in its file, not in
memory, and never delays other messages.
"""

import os
import threading

from ipexctl.common.run_events import Fact, LogPart

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from ipexctl.remote.main import Call

    Key = int | str  # a rank's number, or another name

CHUNK = 64 * 1024
AT_ONCE = 4 * CHUNK  # bytes of one file, before the others have their turn
SHORTEST = 0.01  # seconds between looks, when a writer has just begun or ended
PAUSE = 0.08


class Follower:
    def __init__(self, call: "Call", window: int) -> None:
        self.call = call
        self.credit = window
        self.change = threading.Condition()
        self.files = {}  # type: dict[Key, FollowedFile]
        self.closing = False
        self.pause = SHORTEST
        self.ended = threading.Event()

    def add(self, key: "Key", path: str, offset: int = 0) -> None:
        with self.change:
            if key not in self.files:
                self.files[key] = FollowedFile(path, offset)
            self.look()

    def has(self, key: "Key") -> bool:
        """Return whether part of a file is still to be sent."""
        with self.change:
            return key in self.files

    def finish(self, key: "Key") -> None:
        """Note that the writer has ended: the file is read to its end, which is then reported."""
        with self.change:
            if key in self.files:
                self.files[key].finished = True
            self.look()

    def look(self) -> None:
        """Look at the files soon, as output is expected. The caller holds the lock."""
        self.pause = SHORTEST
        self.change.notify_all()

    def give(self, size: int) -> None:
        with self.change:
            self.credit += size
            self.change.notify_all()

    def left(self) -> int:
        """Return the number of bytes that were written and not sent."""
        with self.change:
            return sum(file.left() for file in self.files.values())

    def close(self) -> None:
        """Return when everything has been sent; the writers have ended."""
        with self.change:
            for file in self.files.values():
                file.finished = True
            self.closing = True
            self.look()
        self.ended.wait()

    def loop(self) -> None:
        """Send new output of all files in turns until they are closed; pause longer when idle."""
        while True:
            with self.change:
                turn = list(self.files.items())
                if self.closing and not turn:
                    break
            busy = [key for key, file in turn if self.send(key, file)]
            if not busy:
                with self.change:
                    self.change.wait(self.pause)
                    self.pause = min(2 * self.pause, PAUSE)
        self.ended.set()

    def send(self, key: "Key", file: "FollowedFile") -> bool:
        """Send some new output. Return True if there may be more."""
        finished = file.finished  # read first: later output is for the next turn
        for _ in range(AT_ONCE // CHUNK):
            data = file.read()
            if not data:
                if finished:
                    self.forget(key, file)
                return False
            self.use_window(len(data))
            self.call.emit(Fact(LogPart(key)).document(), data)
        return True

    def forget(self, key: "Key", file: "FollowedFile") -> None:
        with self.change:
            del self.files[key]
        os.close(file.fd)
        if isinstance(key, int):
            self.call.emit(Fact(LogPart(key, end=True)).document())

    def use_window(self, size: int) -> None:
        with self.change:
            while self.credit <= 0:
                self.change.wait()
            self.credit -= size


class FollowedFile:
    def __init__(self, path: str, offset: int) -> None:
        self.fd = os.open(path, os.O_RDONLY | os.O_CREAT, 0o600)
        self.at = offset
        self.finished = False

    def left(self) -> int:
        try:
            return max(0, os.fstat(self.fd).st_size - self.at)
        except OSError:
            return 0

    def read(self) -> bytes:
        """Return the next bytes of the file, from the start if it was truncated."""
        try:
            if os.fstat(self.fd).st_size < self.at:
                self.at = 0  # the file was truncated
            data = os.pread(self.fd, CHUNK, self.at)
        except OSError:
            return b""
        self.at += len(data)
        return data
