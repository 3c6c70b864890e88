"""The agent's part in a run: between the controller and the supervisor, and reading the logs.

The supervisor (guardian.py, supervisor.py) is another process: what slows the controller down, or
cuts it off, is met here.
"""

import os
import threading
import time

from ipexctl.remote import frame_stream
from ipexctl.remote.failure import Failure
from ipexctl.remote.own_process import no_core_dump, start_thread
from ipexctl.remote.run import log_follower

PATIENCE = 10.0  # seconds for the supervisor to end by itself, when the controller is gone


def op_host(call, h):
    """{root, run_id, lease, window, env, cwd, ranks, ...}: see verbs/run/start_request.py."""
    relay = Relay(call, h)
    call.agent.at_end.append(relay.controller_gone)
    call.agent.heard = relay.hear
    try:
        return relay.serve()
    finally:
        call.agent.heard = None


class Relay:
    def __init__(self, call, h):
        self.call = call
        self.asked = h
        self.socket = call.agent.guardian
        self.link = frame_stream.of_socket(self.socket)
        self.follower = log_follower.Follower(call, h["window"])
        self.last_heard = time.monotonic()
        self.over = threading.Event()

    def serve(self):
        if self.asked["secret"]:
            no_core_dump()
        self.link.write(self.asked)
        start_thread(self.orders)
        start_thread(self.watch_lease)
        start_thread(self.follower.loop)
        try:
            return self.reports()
        finally:
            self.over.set()

    # -- from the supervisor --

    def reports(self):
        while True:
            frame = self.link.read()
            if frame is None:
                raise Failure("the supervisor of the run and its guardian are gone")
            header = frame[0]
            if "event" in header:
                self.take(header)
            elif "over" in header:
                return self.ended(header["over"])
            elif "error" in header:
                raise Failure(**header["error"])
            else:
                self.swept(header["survivors"])
                raise Failure("the supervisor of the run was killed (%s)" % header["killed"])

    def take(self, event):
        if event["event"] == "log-begins":
            self.follower.add(event["key"], event["path"])
        elif event["event"] == "log-ends":
            self.follower.finish(event["key"])
        else:
            self.call.emit(event)

    def ended(self, last):
        """First the processes, then the rest of their output: that may take as long as it takes."""
        self.over.set()
        self.swept(last["survivors"])
        self.follower.close()
        return last

    def swept(self, survivors):
        self.call.emit({"event": "swept", "survivors": survivors, "left": self.follower.left()})

    # -- from the controller --

    def orders(self):
        while True:
            frame = self.call.recv()
            if frame is None:
                return
            header = frame[0]
            if "shown" in header:
                self.follower.give(header["shown"])
                continue
            try:
                self.link.write(header)
            except OSError:
                pass  # it has ended: `reports` knows

    def hear(self):
        self.last_heard = time.monotonic()

    def watch_lease(self):
        """The supervisor has ended by itself, when this ends the agent."""
        while not self.over.wait(0.5):
            if time.monotonic() - self.last_heard > self.asked["lease"] + PATIENCE:
                os._exit(0)

    def controller_gone(self):
        try:
            self.socket.shutdown(1)
        except OSError:
            pass
