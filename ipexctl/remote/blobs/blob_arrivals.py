"""Blobs that are still on their way, while what is here is worked on."""

import queue
import time

from ipexctl.remote.blobs import blobs
from ipexctl.remote.failure import Failure

POLL = 0.05  # seconds between two looks


class NotBrought(Failure):
    """What was to come does not."""


class Arrivals:
    """Of one operation. {"all": true} says that everything has been brought, {"abort": true} that
    nothing more will be."""

    def __init__(self, call, root):
        self.call, self.root = call, root
        self.complete = False
        self.told = time.time()

    def batches(self, files):
        """Of (name, sha256, bytes): first what is here, then again and again what has come."""
        left = list(files)
        while left:
            last = self.complete
            here = [file for file in left if blobs.has(self.root, file[1], file[2])]
            if here:
                left = [file for file in left if file not in here]
                yield here
            elif last:
                raise NotBrought(
                    "%s was received, but has disappeared" % left[0][0], slug="damaged"
                )
            else:
                self.wait()

    def wait(self):
        try:
            frame = self.call.inbox.get(timeout=POLL)
        except queue.Empty:
            if time.time() - self.told > blobs.BEAT:
                self.told = time.time()
                self.call.emit({"event": "alive"})
            return
        if frame is None or frame[0].get("abort"):
            raise NotBrought("the controller stopped sending", slug="transfer-stopped")
        self.complete = True
