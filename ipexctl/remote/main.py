"""The agent: reads request frames on stdin, runs each operation in a thread, writes reply frames.

Requests: {"id", "op", ...the arguments of that function}; further frames with the same id go to
its inbox.
Replies: {"id", "event": ...} any number of times, then {"id", "done": ...} or {"id", "error": ...}.
An operation that forks comes first, as {"fork": its name}, before the agent has threads.

Nothing is kept on the host: the sources arrive over the same stdin, before the first request that
needs them (machines/agent_sources.py). When stdin ends, all ends.
"""

import marshal
import os
import queue
import sys
import threading
import time
import zlib

from ipexctl.common.frames import Frames
from ipexctl.remote.failure import Failure, failure_document, unexpected_document
from ipexctl.remote.own_process import restrict_umask

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    import socket
    from collections.abc import Callable
    from typing import Any, BinaryIO

    from typing_extensions import Protocol

    from ipexctl.common.message import Message

    Frame = tuple[dict[str, Any], bytes]

    class Emitter(Protocol):
        """A call, where only its replies are of interest."""

        def emit(self, event: dict[str, Any], body: bytes = b"") -> None: ...


class Call:
    """A running operation: its inbox, and its replies."""

    def __init__(self, agent: "AgentLoop", number: int) -> None:
        self.agent = agent
        self.number = number
        self.body = b""  # came with the request
        self.inbox = queue.Queue(maxsize=16)  # type: queue.Queue[Frame | None]

    def emit(self, event: "dict[str, Any]", body: bytes = b"") -> None:
        event = dict(event)
        event["id"] = self.number
        self.agent.write(event, body)

    def recv(self) -> "Frame | None":
        """Return the next frame, (header, body), or None when the controller is gone."""
        return self.inbox.get()


class AgentLoop:
    def __init__(
        self, source: "BinaryIO", sink: "BinaryIO", sources: "dict[str, str | bytes]"
    ) -> None:
        self.frames = Frames(source, sink)
        self.write = self.frames.write
        self.sources = sources
        self.calls = {}  # type: dict[int, Call]
        self.at_end = []  # type: list[Callable[[], object]]
        self.guardian: "socket.socket | None" = None  # forked for a run
        # set by operations that hold a lease: called on every frame
        self.heard: "Callable[[], object] | None" = None

    # -- life --

    def serve(self) -> None:
        while True:
            frame = self.frames.read()
            if frame is None:
                break
            if self.heard:
                self.heard()
            self.route(frame[0], frame[1])
        self.end()

    def route(self, header: "dict[str, Any]", body: bytes) -> None:
        if "sources" in header:
            self.sources.update(marshal.loads(zlib.decompress(body)))
            return
        if "fork" in header:
            find_operation(header["fork"])(self)
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
        # else: a late frame for a call that already ended

    def run(self, call: "Call", header: "dict[str, Any]", body: bytes) -> None:
        try:
            call.body = body
            start = time.monotonic()
            arguments = {name: value for name, value in header.items() if name not in ("id", "op")}
            answer = find_operation(header["op"])(call, **arguments)
            took = round(time.monotonic() - start, 6)
            self.write({"id": call.number, "done": document_of(answer), "took": took})
        except Failure as e:
            self.write({"id": call.number, "error": failure_document(e)})
        except BaseException as e:
            is_gone = isinstance(e, BrokenPipeError)
            if not is_gone and not (isinstance(e, ValueError) and self.frames.sink.closed):
                self.write({"id": call.number, "error": unexpected_document(e, header.get("root"))})
        finally:
            self.calls.pop(call.number, None)

    def end(self) -> None:
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


def document_of(answer: "Message | dict[str, Any] | None") -> "dict[str, Any]":
    """Return what an operation answers as a document, {} for nothing."""
    return answer if isinstance(answer, dict) else answer.document() if answer else {}


def find_operation(name: str, prefix: str = "op_") -> "Callable[..., Any]":
    """Return the function of an operation: op_put of that module for `install.blobs.put`."""
    module, _, op = ("ipexctl.remote." + name).rpartition(".")
    __import__(module)
    operation: "Callable[..., Any]" = getattr(sys.modules[module], prefix + op)
    return operation


def start_agent(sources: "dict[str, str | bytes]", marker: bytes) -> None:
    """Called by boot.py. stdout belongs to frames alone; anything printed goes to stderr."""
    restrict_umask()
    sink = os.fdopen(os.dup(1), "wb", 1 << 16)
    os.dup2(2, 1)
    sink.write(marker)
    magic = sys.modules["_frozen_importlib_external"].MAGIC_NUMBER.hex()
    facts = {"python": list(sys.version_info[:3]), "path": sys.executable, "bytecode": magic}
    hello = {"id": 0, "done": facts}
    agent = AgentLoop(sys.stdin.buffer, sink, sources)
    agent.write(hello)
    try:
        agent.serve()
    finally:
        sys.stderr.flush()
        os._exit(0)
