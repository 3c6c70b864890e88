"""The same work on every host at once: bounded, with one outcome per host."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from ipexctl.core.model import Host, HostDown
from ipexctl.errors import IpexctlError

T = TypeVar("T")


def fan_out(
    hosts: Sequence[Host],
    work: Callable[[Host], T],
    *,
    forks: int = 32,
    on_done: Callable[[Host, T | HostDown], None] | None = None,
) -> dict[Host, T | HostDown]:
    """Runs `work` for each host, at most `forks` at a time. One host's failure is its value here.

    Deadlines belong to `work` (every channel read has one). `on_done` runs in the calling thread.
    """
    todo: queue.SimpleQueue[Host] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[Host, T | HostDown | BaseException]] = queue.SimpleQueue()
    for host in hosts:
        todo.put(host)
    for _ in range(min(forks, len(hosts))):
        threading.Thread(target=_worker, args=(todo, done, work), daemon=True).start()
    outcomes: dict[Host, T | HostDown] = {}
    for _ in hosts:
        host, value = done.get()
        if isinstance(value, BaseException):
            raise value
        outcomes[host] = value
        if on_done:
            on_done(host, value)
    return {host: outcomes[host] for host in hosts}


def _worker(
    todo: queue.SimpleQueue[Host],
    done: queue.SimpleQueue[tuple[Host, T | HostDown | BaseException]],
    work: Callable[[Host], T],
) -> None:
    while True:
        try:
            host = todo.get_nowait()
        except queue.Empty:
            return
        done.put((host, _one(host, work)))


def _one(host: Host, work: Callable[[Host], T]) -> T | HostDown | BaseException:
    try:
        return work(host)
    except IpexctlError as e:
        return HostDown(host.name, e.slug, e.what, e.why, e.hint)
    except BaseException as e:  # a bug of ours: raised again in the caller's thread
        return e
