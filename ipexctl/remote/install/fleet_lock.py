"""Allow one install at a time on a host: the operation holds a lock that ends with its agent."""

import os
import queue
import time

from ipexctl.common.files import read_json
from ipexctl.common.install_answers import LockAwaited, LockHolder, LockTaken
from ipexctl.common.locks import try_lock
from ipexctl.remote import root_folder
from ipexctl.remote.blobs import blobs
from ipexctl.remote.install import env_marks

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from typing import Any

    from ipexctl.remote.main import Call

BEAT = 5.0
ALIVE = 90.0  # longer than a controller waits for a silent operation: that has to be noticed


def op_hold(call: "Call", root: str, install: str, who: str, wait: float) -> LockHolder:
    """Hold the lock of this host for an install.

    LockTaken comes once it is held; the operation then lasts until {"release": true}, or until the
    agent ends. If it is not free within `wait` seconds, the answer says who holds it. Hosts with
    one home share the lock of one `install`.
    """
    lock = HostLock(root_folder.prepare_root(root), install, who)
    start, last_report = time.time(), 0.0
    try:
        while not lock.take():
            if time.time() - start >= wait:
                return lock.describe_holder()
            if time.time() - last_report > BEAT:
                last_report = time.time()
                call.emit({"event": LockAwaited(lock.describe_holder()).document()})
            if is_over(call, 0.2):
                return lock.describe_holder()
        call.agent.at_end.append(
            lock.remove_holder_mark
        )  # an agent that ends leaves its threads no time
        call.emit({"event": LockTaken().document()})
        while not is_over(call, ALIVE):
            call.emit({"event": "alive"})
        return LockHolder()
    finally:
        lock.release()


def is_over(call: "Call", seconds: float) -> bool:
    """Return whether the controller has released the lock, or has gone."""
    try:
        frame = call.inbox.get(timeout=seconds)
    except queue.Empty:
        return False
    return frame is None or bool(frame[0].get("release"))


class HostLock:
    def __init__(self, root: str, install: str, who: str) -> None:
        self.install, self.who = install, who[:200]
        self.place = os.path.join(root, "install.holder")
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self.fd = os.open(os.path.join(root, "install.lock"), flags, 0o600)
        self.locked = False

    def take(self) -> bool:
        if try_lock(self.fd):
            self.locked = True
            mark = {"install": self.install, "who": self.who, "since": int(time.time())}
            env_marks.write_mark(self.place, mark)
            return True
        return self.read_holder_mark().get("install") == self.install

    def read_holder_mark(self) -> "dict[str, Any]":
        return read_json(self.place) or {}

    def describe_holder(self) -> LockHolder:
        mark = self.read_holder_mark()
        since = mark.get("since")
        seconds = max(0, int(time.time()) - since) if isinstance(since, int) else 0
        return LockHolder(str(mark.get("who", "")), seconds)

    def remove_holder_mark(self) -> None:
        if self.locked:
            blobs.try_unlink(self.place)

    def release(self) -> None:
        self.remove_holder_mark()
        self.locked = False
        os.close(self.fd)  # this also unlocks it
