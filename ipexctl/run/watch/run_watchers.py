"""Views of a run, and the thread that paints them: a stopped terminal must not stop the run."""

from __future__ import annotations

import errno
import queue
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from ipexctl.explain.known_failures import known_failures
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.outcome.interrupt_traces import InterruptTraces
from ipexctl.run.outcome.line_filter import ALL, Choice
from ipexctl.run.outcome.run_result import RunResult, Tally
from ipexctl.run.plan.launch import LaunchPlan

if TYPE_CHECKING:
    from ipexctl.run.watch.event_notifier import EventNotifier

_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
LEAVE_AT, LEAVE_AFTER = 3, 1.5
BACKLOG = 256 * 1024  # characters that wait for a terminal; more are not drawn


@dataclass
class Interrupts:
    """Counts Ctrl-C (and SIGTERM, SIGHUP) while the run can react to it (`armed`).

    Otherwise it ends the command at once. The third one calls `leave` after LEAVE_AFTER seconds,
    whatever the command waits for.
    """

    count: int = 0
    armed: bool = False
    last: str = "Ctrl-C"
    hits: int = 0
    leave: Callable[[], None] = lambda: None
    lives_on: bool = False  # whether the run continues when this command ends
    detach: bool = False  # Ctrl-\, or the terminal was closed
    leaving: tuple[signal.Signals, ...] = (signal.SIGHUP, signal.SIGQUIT)  # of a run that lives on

    def handle_signal(self, number: int, *_: object) -> None:
        """Count an interrupt or detach; raise KeyboardInterrupt if the run cannot react to it."""
        if self.armed and self.lives_on and number in self.leaving:
            self.detach = True
            return
        self.hits += 1
        if self.hits == LEAVE_AT:
            timer = threading.Timer(LEAVE_AFTER, lambda: self.leave())
            timer.daemon = True
            timer.start()
        if not self.armed:
            raise KeyboardInterrupt
        self.last = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
        self.count += 1


@contextmanager
def count_interrupts(
    leave: Callable[[], None] = lambda: None, *, lives_on: bool = False
) -> Iterator[Interrupts]:
    """Count Ctrl-C (and the end of the terminal) instead of raising it, while a run can react to
    it. Only the main thread gets signals."""
    interrupts = Interrupts(leave=leave, lives_on=lives_on)
    if threading.current_thread() is not threading.main_thread():
        yield interrupts
        return
    numbers = [signal.SIGINT, signal.SIGTERM, *([signal.SIGQUIT] if lives_on else [])]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # else it outlives its terminal
        numbers.append(signal.SIGHUP)
    handlers = [signal.signal(number, interrupts.handle_signal) for number in numbers]
    try:
        yield interrupts
    finally:
        interrupts.leave = lambda: None
        for number, handler in zip(numbers, handlers, strict=True):
            signal.signal(number, handler)


class View:
    """Shows a run; this one shows nothing. Called from one thread only. Raises OSError when its
    reader has gone.

    `lossy`: lines that come faster than it draws may be left out; `dropped` gets their number.
    `detailed`: it also shows what a successful run needs no line for.
    """

    lossy = False
    detailed = True

    def note(self, text: str) -> None: ...
    def planned(self, run_id: str, plan: LaunchPlan) -> None: ...
    def lines(self, host: str, rank: int, texts: Sequence[str]) -> None: ...
    def bar(self, host: str, rank: int, text: str) -> None: ...
    def dropped(self, lines: int) -> None: ...
    def tick(self, tally: Tally) -> None: ...
    def failed(self, rank: int) -> None: ...  # first; what others print then is about that
    def result(self, result: RunResult) -> None: ...
    def close(self) -> None: ...  # gives the terminal back; nothing is drawn any more


class Painter:
    """A View that never makes its caller wait; a separate thread paints the real one.

    A view that must not lose anything (a pipe) slows the hosts down: they send no more than `shown`
    has acknowledged. A terminal slows down nothing: lines that it cannot draw in time are
    counted instead, and are in the files.
    """

    def __init__(
        self,
        view: View,
        tell: Callable[[str], None] = lambda text: None,
        choice: Choice = ALL,
    ) -> None:
        """Start to paint. `tell`: called when the view itself can show nothing any more. `choice`:
        the lines to show; the rest is in the files."""
        self.view, self.tell, self.choice = view, tell, choice
        self.gone = False  # whether the reader of the ranks' output has gone
        self.hung_up = False  # whether that was because the terminal was closed
        self.why = "a closed stdout"
        self._planned = "", ""  # the run that is shown, and its hosts if they are known
        self._full = False
        self.notifier: EventNotifier | None = None
        self.on_shown: Callable[[], None] = lambda: None
        self._todo: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._shown: dict[str, int] = {}
        self._waiting = 0  # pieces of output that wait
        self._backlog = 0  # characters in them
        self._dropped = 0  # lines
        self._missed: set[int] = set()  # ranks whose last lines were dropped
        self.as_data = getattr(view, "as_data", False)  # a view for programs gets every line
        self._traces: InterruptTraces | None = None
        self._bug: BaseException | None = None
        self._thread = threading.Thread(target=self._paint_queue, daemon=True)
        self._thread.start()

    def note(self, text: str) -> None:
        self._todo.put(lambda: self.view.note(text))

    def planned(self, run_id: str, plan: LaunchPlan) -> None:
        planned = run_id, "" if plan.candidates else plan.hosts_text
        if planned != self._planned:
            self._planned = planned  # a queued run was shown before it waited
            self._todo.put(lambda: self.view.planned(run_id, plan))

    def hide_interrupt_traces(self) -> None:
        """Hide the tracebacks of ranks that are ended from now on."""
        if not self.as_data:
            self._traces = self._traces or InterruptTraces(known_failures)

    def end_rank_output(self, host: str, rank: int) -> None:
        """Note that the rank's output is over."""
        if self._traces and (lines := self._traces.rest(rank)):
            self._queue_lines(host, rank, lines, 0)

    def paint_lines(self, host: str, rank: int, texts: Sequence[str], size: int) -> None:
        """Paint lines. `size`: the bytes that are acknowledged to the host once painted."""
        self._queue_lines(
            host, rank, self._traces.shown(rank, texts) if self._traces else texts, size
        )

    def _queue_lines(self, host: str, rank: int, texts: Sequence[str], size: int) -> None:
        """Queue lines for the painting thread; a lossy view acknowledges their bytes at once."""
        length = sum(map(len, texts))
        with self._lock:
            self._waiting += 1
            self._backlog += length
            dropped, self._dropped = self._dropped, 0
            self._missed.discard(rank)

        def paint() -> None:
            try:
                if dropped and not self.gone:
                    self.view.dropped(dropped)
                if not self.gone and (shown := self.choice.lines(host, rank, texts)):
                    self.view.lines(host, rank, shown)
            finally:
                with self._lock:
                    self._waiting -= 1
                    self._backlog -= length
                if not self.view.lossy:
                    self._acknowledge_bytes(host, size)

        self._todo.put(paint)
        if self.view.lossy:
            self._acknowledge_bytes(host, size)

    @property
    def is_full(self) -> bool:
        """Return whether the terminal is behind: call `drop` instead of `output` for new output."""
        with self._lock:
            return self.view.lossy and self._backlog > BACKLOG

    def drop_lines(self, host: str, rank: int, lines: int, size: int) -> None:
        with self._lock:
            self._dropped += lines
            self._missed.add(rank)
        self._acknowledge_bytes(host, size)

    def has_missed_lines(self, rank: int) -> bool:
        """Return whether the rank's last lines were dropped."""
        with self._lock:
            return rank in self._missed

    def is_line_shown(self, host: str, rank: int, text: str) -> bool:
        return self.choice.shows(host, rank, text)

    def bar(self, host: str, rank: int, text: str) -> None:
        if not self.is_full:
            self._todo.put(lambda: self.view.bar(host, rank, text))

    def tick(self, tally: Tally) -> None:
        if self._todo.empty():
            self._todo.put(lambda: self.view.tick(tally))

    def failed(self, rank: int) -> None:
        self._todo.put(lambda: self.view.failed(rank))

    def result(self, result: RunResult) -> None:
        """Show the result, after how many lines were dropped and tracebacks hidden."""
        with self._lock:
            dropped, self._dropped = self._dropped, 0
        if dropped:
            self._todo.put(lambda: self.view.dropped(dropped))
        if self._traces and (n := len(self._traces.hidden)):
            ranks = f"{n} rank{'s' * (n != 1)}"
            self.note(f"the tracebacks of {ranks} that were told to end are in the logs")
        self._todo.put(lambda: self.view.result(result))

    @property
    def is_behind(self) -> bool:
        """Return whether there is output that is not painted yet."""
        with self._lock:
            return self._waiting > 0

    def take_shown_bytes(self) -> dict[str, int]:
        """Return the bytes per host that were painted since the last call."""
        with self._lock:
            shown, self._shown = self._shown, {}
        return shown

    def close(self) -> None:
        """Wait until everything is painted. Raises an error of the view, except OSError."""
        if self.notifier:
            self.notifier.close()
        self._todo.put(None)
        while self._thread.is_alive():
            self._thread.join(0.2)  # a short wait, so that Ctrl-C is noticed
        self.view.close()
        if self._bug:
            raise self._bug

    def _acknowledge_bytes(self, host: str, size: int) -> None:
        with self._lock:
            self._shown[host] = self._shown.get(host, 0) + size
        self.on_shown()

    def _paint_queue(self) -> None:
        """Paint what is queued, until None; `close` raises the view's first bug."""
        while (work := self._todo.get()) is not None:
            try:
                work()
            except OSError as e:
                self._handle_view_error(e)
            except BaseException as e:
                self._bug = self._bug or e
                self.gone = True

    def _handle_view_error(self, error: OSError) -> None:
        """Handle an error of the view. A full disk does not end the run; a closed stdout does."""
        if error.errno not in _DISK_FULL:
            self.gone = True
            self.hung_up = error.errno == errno.EIO
            if error.errno != errno.EPIPE:
                self.why = f"stdout, which cannot be written ({error.strerror or error})"
        elif not self._full:
            self._full = True
            with suppress(OSError):
                self.tell(
                    f"stdout: {error.strerror}; the run continues, and its output is in its logs"
                )
