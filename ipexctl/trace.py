"""Write where the time of a command goes to IPEXCTL_TRACE=FILE, as a Chrome trace.

It has a lane for this command and one for each host. A host's work is drawn with the duration that
it measured itself and ends when its answer came, so that two machines' clocks are never compared.
"""

from __future__ import annotations

import atexit
import errno
import json
import os
import stat
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ipexctl.common.files import write_atomic
from ipexctl.common.processes import stat_of
from ipexctl.local.environment import environment
from ipexctl.local.ownership import untrusted_above

FILE = environment().get("IPEXCTL_TRACE", "")
HERE = "this command"
_spans: list[tuple[str, str, float, float, dict[str, Any]]] = []
_lock = threading.Lock()
_took: dict[str, float] = {}  # seconds of each span of this command, the last time


@contextmanager
def span(name: str, lane: str = HERE, **more: Any) -> Iterator[None]:
    began = time.monotonic()
    try:
        yield
    finally:
        ended = time.monotonic()
        if lane == HERE:
            _took[name] = round(ended - began, 3)
        add(name, began, ended, lane, **more)


def took_here() -> dict[str, float]:
    return dict(_took)


def add(name: str, began: float, ended: float, lane: str = HERE, **more: Any) -> None:
    """Add a span by time.monotonic; one without duration is a mark."""
    if FILE:
        with _lock:
            _spans.append((name, lane, began, ended, more))


def mark(name: str, lane: str = HERE, **more: Any) -> None:
    now = time.monotonic()
    add(name, now, now, lane, **more)


def _write_trace() -> None:
    """Write all spans as a Chrome trace, unless another user could replace the file."""
    lanes = {
        lane: number for number, lane in enumerate(dict.fromkeys([HERE, *(s[1] for s in _spans)]))
    }
    start = _process_began()
    events: list[dict[str, Any]] = [
        {"name": "thread_name", "ph": "M", "pid": 1, "tid": number, "args": {"name": lane}}
        for lane, number in lanes.items()
    ]
    for name, lane, began, ended, more in sorted(_spans, key=lambda s: s[2]):
        at = {"name": name, "pid": 1, "tid": lanes[lane], "ts": round((began - start) * 1e6)}
        kind = (
            {"ph": "X", "dur": round((ended - began) * 1e6)}
            if ended > began
            else {"ph": "i", "s": "t"}
        )
        events.append({**at, **kind, "args": more})
    path = Path(FILE)
    try:
        if why := untrusted_above(path):
            raise PermissionError(errno.EPERM, why)
        if os.path.lexists(path):
            there = path.lstat()
            if not stat.S_ISREG(there.st_mode) or there.st_uid != os.getuid():
                raise PermissionError(errno.EPERM, "it is not a file, or it is another user's")
        write_atomic(path, json.dumps({"traceEvents": events}))
    except OSError as e:
        print(f"ipexctl: cannot write IPEXCTL_TRACE={FILE}: {e.strerror}", file=sys.stderr)


def _process_began() -> float:
    """Return when the kernel started this process, to a hundredth of a second."""
    try:
        since_boot = int(stat_of("self")[1][19]) / os.sysconf("SC_CLK_TCK")
        return time.monotonic() - (time.clock_gettime(time.CLOCK_BOOTTIME) - since_boot)
    except (OSError, IndexError, AttributeError):
        return min((s[2] for s in _spans), default=0.0)


if FILE:
    add("python", _process_began(), time.monotonic())
    atexit.register(_write_trace)
