"""A run while it lasts: its status again and again, over one connection to each host."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from ipexctl.errors import IpexctlError
from ipexctl.machines.fleet import Fleet
from ipexctl.machines.target import Target
from ipexctl.notebook.loss_curve import LossCurve
from ipexctl.notebook.run_status import RunStatus
from ipexctl.run.jobs.logs import Wanted, logs_of
from ipexctl.run.jobs.metrics import metrics
from ipexctl.run.jobs.ps import NEWEST, find, until_over
from ipexctl.run.outcome.listed_runs import Run, State
from ipexctl.shipped_tables import metric_formats

FIRST = (0,)  # the rank whose loss is shown
REST = 5.0  # seconds for the last lines of a run that has ended


def status(target: Target, run_id: str, root: str) -> RunStatus:
    """Reads the output of the first rank on its host."""
    found = metrics(target, run_id, FIRST, root)
    curve, last = LossCurve(metric_formats()), 0.0
    for one in found.points:
        curve.add(one.point, one.time)
        last = one.time or last
    return _status(found.run, curve, last)


def watch(
    target: Target, run_id: str, root: str, show: Callable[[RunStatus], None], every: float
) -> None:
    """Until the run has ended, with its further attempts."""
    with Fleet(target, root) as fleet:
        run = find(fleet, run_id, newest=NEWEST)
        while True:
            with Fleet(target, root) as reader:  # an agent does one thing at a time
                follower = _Follower(reader, run)
                for now in _attempt(fleet, run, every):
                    show(follower.status(now))
                follower.join(REST)
                show(follower.status(now))
            newer = find(fleet, run_id, newest=NEWEST)
            while newer.id == run.id and not newer.over:  # its hosts decide about a next attempt
                time.sleep(every)
                newer = find(fleet, run_id, newest=NEWEST)
            if newer.id == run.id:
                show(follower.status(newer))
                return
            run = newer


def _attempt(fleet: Fleet, run: Run, every: float) -> Iterator[Run]:
    """Until it has ended, or its hosts decide whether to start it again."""
    yield run
    while not run.over and run.state is not State.RESTARTING:
        run = until_over(fleet, run, every)
        yield run


class _Follower(threading.Thread):
    """Reads what the first rank prints, as it comes."""

    def __init__(self, fleet: Fleet, run: Run) -> None:
        super().__init__(daemon=True)
        self._fleet, self._run = fleet, run
        self._curve = LossCurve(metric_formats())
        self.start()

    def run(self) -> None:
        wanted = Wanted(self._run.id, FIRST, follow=True, bars=True)
        with suppress(IpexctlError):  # the state comes over the other connections
            logs_of(
                self._fleet, find(self._fleet, self._run.id, newest=NEWEST), wanted, self._lines
            )

    def _lines(self, run: Run, host: str, rank: int, texts: Sequence[str]) -> None:
        self._curve.lines(texts, time.monotonic())

    def status(self, run: Run) -> RunStatus:
        return _status(run, self._curve, time.monotonic())


def _status(run: Run, curve: LossCurve, at: float) -> RunStatus:
    return RunStatus(run, run.seconds_at(time.time()), curve.progress(at), tuple(curve.losses))


def shower() -> Callable[[RunStatus], None]:
    """In Jupyter one table that changes, elsewhere a line for each change."""
    if in_jupyter():
        return _Display()
    last: object = None

    def show(status: RunStatus) -> None:
        nonlocal last
        now = (status.run.id, status.state, status.progress.step, status.losses[-1:])
        if now != last:
            print(status, flush=True)
        last = now

    return show


def in_jupyter() -> bool:
    """Whether a kernel runs this program."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return hasattr(shell, "kernel")


class _Display:
    def __init__(self) -> None:
        self._handle: Any = None

    def __call__(self, status: RunStatus) -> None:
        from IPython.display import display

        if self._handle:
            self._handle.update(status)
        else:
            self._handle = display(status, display_id=True)
