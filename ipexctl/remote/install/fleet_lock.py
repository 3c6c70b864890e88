"""One install at a time on a host: a lock of the operation that holds it, gone with its agent.

ROOT/install.lock is locked; it holds a random name. An install takes the locks of its hosts in the
order of these names, so that two installs never wait for each other.
"""

import os
import queue
import time

from ipexctl.remote import root_folder
from ipexctl.remote.blobs import blobs
from ipexctl.remote.failure import Failure
from ipexctl.remote.install import env_marks

BEAT = 5.0
ALIVE = 90.0  # longer than a controller waits for a silent operation, which must stay noticeable


def op_hold(call, header):
    """{root, install, who, wait} -> {held, name, who, since}

    The event "held" comes once the lock is ours; the operation then lasts until {"release": true},
    or until the agent ends. `wait`: seconds. Hosts with one home share the lock of one `install`.
    """
    lock = HostLock(root_folder.checked(header["root"]), header)
    began, told = time.time(), 0.0
    try:
        while not lock.take():
            if time.time() - began >= header["wait"]:
                return dict(lock.holder(), held=False, name=lock.name)
            if time.time() - told > BEAT:
                told = time.time()
                call.emit(dict(lock.holder(), event="waiting"))
            if is_over(call, 0.2):
                return dict(lock.holder(), held=False, name=lock.name)
        call.agent.at_end.append(lock.unmark)  # an agent that ends leaves its threads no time
        call.emit({"event": "held", "name": lock.name})
        while not is_over(call, ALIVE):
            call.emit({"event": "alive"})
        return {"held": True, "name": lock.name, "who": "", "since": 0}
    finally:
        lock.release()


def is_over(call, seconds):
    """The controller releases it, or is gone."""
    try:
        frame = call.inbox.get(timeout=seconds)
    except queue.Empty:
        return False
    return frame is None or bool(frame[0].get("release"))


class HostLock:
    def __init__(self, root, header):
        if not isinstance(header["install"], str) or not isinstance(header["who"], str):
            raise Failure("%r is not an install" % (header["install"],), slug="install-invalid")
        self.install, self.who = header["install"], header["who"][:200]
        self.place = os.path.join(root, "install.holder")
        path = os.path.join(root, "install.lock")
        make(path)
        self.fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self.locked = False
        found = os.fstat(self.fd)
        # copies of a machine have one file with one name, and so it is told apart by where it lies
        where = (read_text("/proc/sys/kernel/random/boot_id"), found.st_dev, found.st_ino)
        self.name = "%s %s %d %d" % ((os.pread(self.fd, 64, 0).decode("ascii", "replace"),) + where)

    def take(self):
        if blobs.lock(self.fd):
            self.locked = True
            mark = {"install": self.install, "who": self.who, "since": int(time.time())}
            env_marks.write_mark(self.place, mark)
            return True
        return self.said().get("install") == self.install

    def said(self):
        return env_marks.read_mark(self.place) or {}

    def holder(self):
        """{who, since}: seconds for which that install has held it."""
        said = self.said()
        since = said.get("since")
        seconds = max(0, int(time.time()) - since) if isinstance(since, int) else 0
        return {"who": str(said.get("who", "")), "since": seconds}

    def unmark(self):
        if self.locked:
            blobs.unlink(self.place)

    def release(self):
        self.unmark()
        self.locked = False
        os.close(self.fd)  # and so unlocked


def make(path):
    """With a name of its own, by whoever comes first."""
    if os.path.exists(path):
        return
    fresh = "%s.%d" % (path, os.getpid())
    with open(fresh, "w") as file:
        file.write(os.urandom(8).hex())
    try:
        os.link(fresh, path)
    except FileExistsError:
        pass
    except OSError:  # no hard links here
        os.rename(fresh, path)
    finally:
        blobs.unlink(fresh)


def read_text(path):
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return ""
