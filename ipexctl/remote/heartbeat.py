"""Send signs of life to the controller during an operation that may be silent for long."""

import threading

from ipexctl.remote.own_process import start_thread

BEAT = 5.0  # seconds


class Heartbeat:
    def __init__(self, call):
        self.call = call
        self.over = threading.Event()

    def __enter__(self):
        start_thread(self.beat)

    def beat(self):
        while not self.over.wait(BEAT):
            self.call.emit({"event": "alive"})

    def __exit__(self, *_):
        self.over.set()
