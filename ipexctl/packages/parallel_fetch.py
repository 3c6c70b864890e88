"""Several files are fetched at a time, and one failure ends all of them."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

AT_ONCE = 4

File = TypeVar("File")
Outcome = TypeVar("Outcome")


def fetch_all(
    files: Sequence[File], fetch: Callable[[File], Outcome], over: threading.Event
) -> list[Outcome]:
    """What `fetch` returns for each file, as they end. After one failure no other file is begun.
    `over` is set when this returns or raises: a `fetch` that still runs should look at it."""
    todo: queue.SimpleQueue[File] = queue.SimpleQueue()
    ended: queue.SimpleQueue[Outcome | BaseException] = queue.SimpleQueue()
    for file in files:
        todo.put(file)

    def work() -> None:
        with suppress(queue.Empty):
            while not over.is_set():
                file = todo.get_nowait()
                try:
                    ended.put(fetch(file))
                except BaseException as e:  # raised again by who waits for it
                    ended.put(e)

    for _ in range(min(AT_ONCE, len(files))):
        # daemons: who presses Ctrl-C does not wait for a server that says nothing
        threading.Thread(target=work, daemon=True).start()
    try:
        return [_result(ended.get()) for _ in files]
    finally:
        over.set()


def _result(outcome: Outcome | BaseException) -> Outcome:
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome
