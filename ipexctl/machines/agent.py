"""An agent on a host: requests and replies are frames. agent_start.py starts it."""

from __future__ import annotations

import math
import queue
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any

from ipexctl import trace
from ipexctl.base.host_answer import REPORT, Answer
from ipexctl.common.frames import encode_frame
from ipexctl.errors import HostFailed, Unreachable, printable_text
from ipexctl.inventory.inventory import Host
from ipexctl.machines import agent_sources
from ipexctl.machines.openssh import login_command
from ipexctl.machines.wire.frames import BadFrame, Decoder, Frame
from ipexctl.machines.wire.transport import SLOWEST, Channel, ChannelTimeout
from ipexctl.quick_dataclass import dataclass

ANSWER_LIMIT = 256 << 20  # of one operation, all its frames together
# Seconds that an operation may take, however often the host reports that it is alive.
TOTAL = 600.0
LONG = 7200.0  # one that builds, or waits for another command that holds a lock
_TEXT_LIMIT = 1 << 16
_SLUG = re.compile(r"[a-z][a-z0-9-]{0,39}")


@dataclass(frozen=True)
class Reply:
    """What an operation returned: its last frame."""

    done: Answer
    body: bytes = b""


@dataclass(frozen=True)
class Hello:
    """What answered: python (with version and path) or plain sh (with what it printed)."""

    kind: str
    python: tuple[int, ...] = ()
    path: str = ""
    bytecode: str = ""  # its Python's bytecode format in hexadecimal; "" for a distant host
    started: str = ""  # what was started as Python: a wrapper starts `path`
    passed: str = ""  # the Python that was skipped since it gave no answer
    sh_text: str = ""
    sent: float = 0.0


OnEvent = Callable[[Frame], None]


@dataclass
class Agent:
    """`call` does one request at a time; `send` and `frames` are for callers with own loops."""

    host: Host
    channel: Channel
    hello: Hello
    _decoder: Decoder
    _ready: list[Frame] = field(default_factory=list)
    _next: int = 1
    _taken: int = 0
    _shipped: frozenset[str] = frozenset()
    _bytecode: bool = False  # send it our compiled modules
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _beside: dict[int, Frame | None] = field(default_factory=dict)  # with their last frames
    _outbox: Outbox | None = None
    _asked: dict[int, tuple[str, float]] = field(default_factory=dict)  # requests with start times

    def write_behind(self, patience: float) -> None:
        """Do not block on writing from now on: sent data waits in an Outbox."""
        self._outbox = Outbox(self.channel, patience)

    def start(
        self,
        op: str,
        args: Mapping[str, Any] | None = None,
        body: bytes = b"",
        also: Iterable[str] = (),
    ) -> int:
        """Start an operation; return its id at once. `also`: further operations that it calls."""
        with self._lock:
            number = self._next
            self._next += 1
            self._asked[number] = (op, time.monotonic())
            self._send_modules(
                agent_sources.modules_for_op(op).union(*map(agent_sources.modules_for_op, also))
            )
            self._write({**(args or {}), "id": number, "op": op}, body)
        return number

    def start_beside(self, op: str, args: Mapping[str, Any]) -> int:
        """Start an operation that runs while others are called; `wait` for it later. Its events in
        the meantime are dropped."""
        number = self.start(op, args)
        self._beside[number] = None
        return number

    def _send_modules(self, names: frozenset[str]) -> None:
        """Send the modules that this agent lacks, ahead of the first request that needs them."""
        if missing := names - self._shipped:
            packed = agent_sources.pack_modules(missing, bytecode=self._bytecode)
            self._write({"id": 0, "sources": True}, packed)
            self._shipped |= missing

    def feed(self, number: int, header: Mapping[str, Any], body: bytes = b"") -> None:
        """Send a further frame to a running operation."""
        with self._lock:
            self._write({**header, "id": number}, body)

    def call(
        self,
        op: str,
        args: Mapping[str, Any] | None = None,
        *,
        timeout: float = 60.0,
        total: float = TOTAL,
        on_event: OnEvent | None = None,
    ) -> Reply:
        """Call an operation and wait. `timeout` limits how long the host may stay silent, `total`
        how long it may take even if it reports progress."""
        number = self.start(op, args)
        return self.wait(number, timeout=timeout, total=total, on_event=on_event)

    def wait(
        self,
        number: int,
        *,
        timeout: float = 60.0,
        total: float = TOTAL,
        on_event: OnEvent | None = None,
    ) -> Reply:
        """Wait for a started operation to end. Raises HostFailed or Unreachable."""
        end_frame = self._beside.pop(number, None)
        answers = self._read_answers(number, timeout, total, ANSWER_LIMIT)
        for frame in self._select_frames(number, iter([end_frame]) if end_frame else answers):
            if "done" in frame.header:
                return Reply(Answer(self.host.name, frame.header["done"]), frame.body)
            if on_event:
                on_event(frame)
        raise AssertionError("an operation ends with done, or raises")

    def answers(self, number: int, timeout: float, size: int) -> Iterator[Frame]:
        """Yield the frames of a transfer of `size` bytes; its `done` is the last one."""
        return self._select_frames(
            number, self._read_answers(number, timeout, transfer_time(size), math.inf)
        )

    def _select_frames(self, number: int, frames: Iterator[Frame]) -> Iterator[Frame]:
        for frame in frames:
            if (other_id := frame.header["id"]) != number:
                if other_id in self._beside and ("done" in frame.header or "error" in frame.header):
                    self._beside[other_id] = frame
                continue
            if "error" in frame.header:
                raise agent_failure(self.host, frame.header["error"])
            if "done" in frame.header:
                self._trace_request(number, frame.header.get("took"))
            yield frame
            if "done" in frame.header:
                return
        raise Unreachable(
            f"{self.host.name}: the connection ended before the host answered",
            why=stderr_tail(self.channel) or "it was cut, or the host went down",
            hint=_once_back(self.host),
            slug="connection-lost",
        )

    def _trace_request(self, number: int, took: object) -> None:
        now, (op, began) = time.monotonic(), self._asked.pop(number, ("", 0.0))
        seconds = took if isinstance(took, float) and 0 <= took < now - began else 0.0
        trace.add(op, now - seconds, now, self.host.name, asked=round(now - began, 6))

    def frames(self, timeout: float | None = None) -> Iterator[Frame]:
        """Yield frames as they arrive, until the channel ends."""
        while True:
            while self._ready:
                yield self._ready.pop(0)
            if not self._read_more(timeout):
                return

    def _read_answers(
        self, number: int, timeout: float, total: float, limit: float
    ) -> Iterator[Frame]:
        """Yield frames until the operation ends, within a time limit even for a host that never
        stops sending or sends frames of other operations only."""
        began, taken, waited = time.monotonic(), self._taken, 0.0
        while True:
            while self._ready:
                if self._ready[0].header["id"] == number:
                    waited = 0.0
                yield self._ready.pop(0)
            remaining = began + total - time.monotonic()
            if remaining <= 0:
                raise Unreachable(
                    f"{self.host.name}: sent data, but no complete answer within {total:.0f} s",
                    why=stderr_tail(self.channel),
                    slug="no-answer-complete",
                )
            if self._taken - taken > limit:
                raise invalid_reply(self.host, f"more than {ANSWER_LIMIT >> 20} MiB", self.channel)
            if waited >= timeout:
                raise self._silence_error(timeout)
            before = time.monotonic()
            if not self._read_more(min(timeout - waited, remaining), timeout):
                return
            waited += time.monotonic() - before

    def _silence_error(self, timeout: float | None) -> Unreachable:
        return Unreachable(
            f"{self.host.name}: no answer for {timeout:.0f} s",
            hint=login_command.ssh_to(self.host, "uptime"),
            slug="no-answer",
        )

    def _read_more(self, timeout: float | None, limit: float | None = None) -> bool:
        """Wait for further bytes; False if there are none to come. `timeout` is what is left of
        `limit`."""
        try:
            data = self.channel.read(1 << 16, timeout)
            self._taken += len(data)
            self._ready += self._decoder.feed(data)
        except ChannelTimeout:
            raise self._silence_error(limit or timeout) from None
        except BadFrame as e:
            raise invalid_reply(self.host, str(e), self.channel) from None
        return bool(data)

    def expect_frames_up_to(self, size: int) -> None:
        """Reject frames larger than this from now on."""
        self._decoder.limit = size

    def close(self) -> None:
        self.channel.close()
        if self._outbox:
            self._outbox.close()

    def _write(self, header: Mapping[str, Any], body: bytes) -> None:
        try:
            (self._outbox or self.channel).write(encode_frame(header, body))
        except TimeoutError as e:
            raise Unreachable(
                f"{self.host.name}: {e}",
                why=stderr_tail(self.channel),
                hint=_once_back(self.host),
                slug="connection-lost",
            ) from None
        except OSError as e:
            raise Unreachable(
                f"{self.host.name}: the connection was lost",
                why=str(e) or "it was cut while data was being sent",
                hint=_once_back(self.host),
                slug="connection-lost",
            ) from None


def transfer_time(size: int) -> float:
    return LONG + size / SLOWEST


def _once_back(host: Host) -> str:
    return f"{login_command.ssh_to(host, 'uptime')}   # once it answers, run the same command again"


def agent_failure(host: Host, error: Any) -> HostFailed:
    """Turn an error that a host reported, which may be any value, into a HostFailed."""
    fields = error if isinstance(error, Mapping) else {}
    what, why, hint, slug = (text_of(fields.get(key)) for key in ("what", "why", "hint", "slug"))
    what = " ".join(what.split())  # further lines could be taken for those of other hosts
    hint = hint_of(host, hint) or REPORT * (slug == "agent-bug")
    what = f"{host.name}: {what or 'the host failed'}"
    return HostFailed(what, why=why, hint=hint, slug=slug_of(slug))


def slug_of(value: object) -> str:
    """Return the value if it is a valid slug, else ""."""
    return value if isinstance(value, str) and _SLUG.fullmatch(value) else ""


def hint_of(host: Host, text: str) -> str:
    """Mark what another machine suggests as its own text: the user may paste it."""
    if host.local:
        return text
    return "\n".join(
        f"the host suggests: {line}" for line in printable_text(text).splitlines() if line
    )


def invalid_reply(host: Host, why: str, channel: Channel) -> HostFailed:
    return HostFailed(
        f"{host.name}: the agent sent an invalid reply ({why})",
        why=stderr_tail(channel),
        hint=REPORT,
        slug="agent-reply-invalid",
    )


def stderr_tail(channel: Channel) -> str:
    return channel.stderr().decode("utf-8", "replace").strip()[-2000:]


def text_of(value: Any) -> str:
    return value[:_TEXT_LIMIT] if isinstance(value, str) else ""


OUTBOX_LIMIT = 8 << 20  # bytes that wait for the host to read them


class Outbox:
    """A queue of bytes that a thread of its own writes. Raises OSError if the host has read nothing
    for `patience` seconds, or if too much is queued."""

    def __init__(self, channel: Channel, patience: float) -> None:
        self._channel, self._patience = channel, patience
        self._queue: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._waiting = 0
        self._since: float | None = None  # when the write began that has not ended
        self._error: OSError | None = None
        threading.Thread(target=self._write_all, daemon=True).start()

    def write(self, data: bytes) -> None:
        with self._lock:
            if self._error:
                raise self._error
            stuck = time.monotonic() - self._since if self._since is not None else 0.0
            if stuck > self._patience:
                raise TimeoutError(f"it has read nothing for {stuck:.0f} s")
            if self._waiting + len(data) > OUTBOX_LIMIT:
                raise TimeoutError(f"it has not read {self._waiting:,} bytes")
            self._waiting += len(data)
        self._queue.put(data)

    def close(self) -> None:
        """End the thread once it has written what is queued."""
        self._queue.put(None)

    def _write_all(self) -> None:
        while (data := self._queue.get()) is not None:
            with self._lock:
                self._since = time.monotonic()
            try:
                self._channel.write(data)
            except OSError as e:
                with self._lock:
                    self._error = e
                return
            with self._lock:
                self._since = None
                self._waiting -= len(data)
