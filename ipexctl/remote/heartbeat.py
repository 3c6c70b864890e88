"""Send signs of life to the controller during an operation that may be silent for long."""

import threading

from ipexctl.remote.own_process import start_thread

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from ipexctl.remote.main import Emitter

BEAT = 5.0  # seconds


class Heartbeat:
    def __init__(self, call: "Emitter") -> None:
        self.call = call
        self.over = threading.Event()

    def __enter__(self) -> None:
        start_thread(self.beat)

    def beat(self) -> None:
        while not self.over.wait(BEAT):
            self.call.emit({"event": "alive"})

    def __exit__(self, *_: object) -> None:
        self.over.set()
