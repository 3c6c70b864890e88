"""Who watches a run, and a thread between: a terminal that stands still must not stop the run."""

from __future__ import annotations

import queue
import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ipexctl.core.model import LaunchPlan
from ipexctl.core.runlog import RankEnd


@dataclass(frozen=True)
class HostEnd:
    """What a host said when the run was over. `survivors` None: it could not be asked."""

    host: str
    survivors: int | None
    logs: str


@dataclass(frozen=True)
class RunResult:
    run_id: str
    exit_code: int
    ended_by: str  # ranks · rank-failed · host-lost · host-failed · interrupted · mpirun
    seconds: float
    plan: LaunchPlan
    hosts: tuple[HostEnd, ...]
    first: RankEnd | None = None
    tail: tuple[str, ...] = ()
    victims: tuple[RankEnd, ...] = ()
    cause: str = ""
    hidden: int = 0  # lines known to be harmless that were not shown


@dataclass(frozen=True)
class Tally:
    """How a run stands."""

    ranks: int
    alive: int
    done: int
    failed: int
    seconds: float


@dataclass
class Interrupts:
    """Counts Ctrl-C (and SIGTERM, SIGHUP). `armed` while the run can answer to it.

    Else it ends the command at once.
    """

    count: int = 0
    armed: bool = False
    last: str = "Ctrl-C"

    def hit(self, number: int, *_: object) -> None:
        if not self.armed:
            raise KeyboardInterrupt
        self.last = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
        self.count += 1


class View(Protocol):
    """Called from one thread only. Raises OSError when nobody reads any more."""

    def note(self, text: str) -> None: ...
    def planned(self, run_id: str, plan: LaunchPlan) -> None: ...
    def lines(self, host: str, rank: int, texts: Sequence[str]) -> None: ...
    def tick(self, tally: Tally) -> None: ...
    def result(self, result: RunResult) -> None: ...


class Painter:
    """A View that never makes its caller wait; the real one is painted by a thread of its own.

    What waits to be painted is bounded by the hosts: they send no more than is given back to them
    by `shown`.
    """

    def __init__(self, view: View) -> None:
        self.view = view
        self.gone = False  # nobody reads the ranks' output any more
        self.on_shown: Callable[[], None] = lambda: None
        self._todo: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._shown: dict[str, int] = {}
        self._waiting = 0  # pieces of output
        self._bug: BaseException | None = None
        self._thread = threading.Thread(target=self._paint, daemon=True)
        self._thread.start()

    def note(self, text: str) -> None:
        self._todo.put(lambda: self.view.note(text))

    def planned(self, run_id: str, plan: LaunchPlan) -> None:
        self._todo.put(lambda: self.view.planned(run_id, plan))

    def output(self, host: str, rank: int, texts: Sequence[str], size: int) -> None:
        """`size`: the bytes that this gives back to the host."""

        def paint() -> None:
            try:
                if texts and not self.gone:
                    self.view.lines(host, rank, texts)
            finally:
                self._give_back(host, size)

        with self._lock:
            self._waiting += 1
        self._todo.put(paint)

    def tick(self, tally: Tally) -> None:
        if self._todo.empty():
            self._todo.put(lambda: self.view.tick(tally))

    def result(self, result: RunResult) -> None:
        self._todo.put(lambda: self.view.result(result))

    @property
    def behind(self) -> bool:
        """There is output that was not painted yet."""
        with self._lock:
            return self._waiting > 0

    def shown(self) -> dict[str, int]:
        """Bytes per host that were painted since the last call."""
        with self._lock:
            shown, self._shown = self._shown, {}
        return shown

    def close(self) -> None:
        """Returns when all is painted. Raises what went wrong in a view, OSError apart."""
        self._todo.put(None)
        while self._thread.is_alive():
            self._thread.join(0.2)  # short, so that Ctrl-C is heard
        if self._bug:
            raise self._bug

    def _give_back(self, host: str, size: int) -> None:
        with self._lock:
            self._waiting -= 1
            self._shown[host] = self._shown.get(host, 0) + size
        self.on_shown()

    def _paint(self) -> None:
        while (work := self._todo.get()) is not None:
            try:
                work()
            except OSError:
                self.gone = True
            except BaseException as e:
                self._bug = self._bug or e
                self.gone = True
