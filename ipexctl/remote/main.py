"""The agent: reads request frames on stdin, runs each operation in a thread, writes reply frames.

A frame is two big-endian u32 (length of a JSON header, length of a binary body), then both.
Requests: {"id", "op", ...args}; further frames with the same id go to the operation's inbox.
Replies: {"id", "event": ...} any number of times, then {"id", "done": ...} or {"id", "error": ...}.

Nothing is kept on the host: the sources arrive over the same stdin, before the first request that
needs them (hosts/agent_sources.py), and a module is compiled when it is first imported. When stdin
ends, all ends.
"""

import json
import os
import queue
import struct
import sys
import threading
import zlib

from ipexctl.remote.failure import Failure

HEAD = struct.Struct(">II")
LIMIT = 64 << 20


class Call:
    """One running operation: its inbox, and the way back."""

    def __init__(self, agent, number):
        self.agent = agent
        self.number = number
        self.inbox = queue.Queue(maxsize=16)  # type: queue.Queue[object]

    def emit(self, event, body=b""):
        event = dict(event)
        event["id"] = self.number
        self.agent.write(event, body)

    def recv(self):
        """The next frame for this call: (header, body), or None when the controller is gone."""
        return self.inbox.get()


class Agent:
    def __init__(self, source, sink, sources):
        self.source = source
        self.sink = sink
        self.sources = sources
        self.calls = {}
        self.lock = threading.Lock()
        self.at_end = []
        self.heard = None  # set by operations that hold a lease: called on every frame

    # -- frames --

    def write(self, header, body=b""):
        data = json.dumps(header).encode("utf-8")
        with self.lock:
            self.sink.write(HEAD.pack(len(data), len(body)))
            self.sink.write(data)
            if body:
                self.sink.write(body)
            self.sink.flush()

    def read(self):
        head = self.source.read(HEAD.size)
        if len(head) < HEAD.size:
            return None
        size, body_size = HEAD.unpack(head)
        if size > LIMIT or body_size > LIMIT:
            return None
        data = self.source.read(size)
        body = self.source.read(body_size) if body_size else b""
        if len(data) < size or len(body) < body_size:
            return None
        return json.loads(data.decode("utf-8")), body

    # -- life --

    def serve(self):
        while True:
            frame = self.read()
            if frame is None:
                break
            if self.heard:
                self.heard()
            self.route(frame[0], frame[1])
        self.end()

    def route(self, header, body):
        if "sources" in header:
            self.sources.update(json.loads(zlib.decompress(body).decode("ascii")))
            return
        number = header["id"]
        call = self.calls.get(number)
        if call is not None:
            call.inbox.put((header, body))
        elif "op" in header:
            call = self.calls[number] = Call(self, number)
            thread = threading.Thread(target=self.run, args=(call, header, body))
            thread.daemon = True
            thread.start()
        # else: a late frame for a call that already ended; nobody waits for it

    def run(self, call, header, body):
        try:
            call.body = body
            done = operation(header["op"])(call, header)
            self.write({"id": call.number, "done": done or {}})
        except Failure as e:
            error = {"what": e.what, "why": e.why, "hint": e.hint, "slug": e.slug}
            self.write({"id": call.number, "error": error})
        except (BrokenPipeError, ValueError) as e:
            if not self.sink.closed and not isinstance(e, BrokenPipeError):
                self.write({"id": call.number, "error": agent_bug()})
        except BaseException:
            self.write({"id": call.number, "error": agent_bug()})
        finally:
            self.calls.pop(call.number, None)

    def end(self):
        for action in reversed(self.at_end):  # first what was started last
            try:
                action()
            except Exception as e:
                sys.stderr.write("ipexctl agent: %r\n" % (e,))
        for call in list(self.calls.values()):
            try:
                call.inbox.put_nowait(None)
            except queue.Full:
                pass


def operation(name):
    """`install.blobs.put` is the function op_put of that module."""
    module, _, op = ("ipexctl.remote." + name).rpartition(".")
    __import__(module)
    return getattr(sys.modules[module], "op_" + op)


def agent_bug():
    import traceback

    text = traceback.format_exc()
    last = text.strip().splitlines()[-1]
    return {"what": last, "why": text, "hint": "", "slug": "agent-bug"}


def start(sources, marker):
    """Called by boot.py. stdout belongs to frames alone; anything printed goes to stderr."""
    sink = os.fdopen(os.dup(1), "wb", 1 << 16)
    os.dup2(2, 1)
    sink.write(marker)
    hello = {"id": 0, "done": {"python": list(sys.version_info[:3]), "path": sys.executable}}
    agent = Agent(sys.stdin.buffer, sink, sources)
    agent.write(hello)
    try:
        agent.serve()
    finally:
        sys.stderr.flush()
        os._exit(0)
