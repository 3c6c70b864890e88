"""The place in the queue of a run on this host, as long as the run waits or has CPUs here."""

import os
import time

from ipexctl.common.attempt_record import QueuedRun
from ipexctl.common.keeper_messages import CLAIMS, LEFT
from ipexctl.common.processes import user_name
from ipexctl.remote.restart.core_queue import CoreQueue
from ipexctl.remote.run import control
from ipexctl.remote.run_files import queued_runs, run_about

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from ipexctl.common.keeper_messages import QueuePlace
    from ipexctl.common.run_orders import StartOrder
    from ipexctl.remote.restart.record import RestartRecord

WAKES = 60.0  # seconds for a command to start the keepers of earlier queued runs again
ENV_REMOVED = "its environment was removed (ipexctl install with its ipexctl.lock builds it again)"
PROJECT_REMOVED = "the project's copy was removed: stop it, and run it again"


class QueuedPlace:
    """`queued`: since when, by the clock of the first host; `base`: the ID of the first attempt."""

    def __init__(
        self, order: "StartOrder", queued: float, base: str, runs: str, record: "RestartRecord"
    ) -> None:
        self.order, self.queued, self.base = order, queued, base
        self.runs, self.record = runs, record
        self.woke = time.monotonic()  # when this keeper began
        cpus = {cpu for rank in order.ranks for cpu in rank.cpus}
        self.queue = CoreQueue(base, queued, cpus, os.path.dirname(runs))

    def look(self, now: float, *, alone: bool, idle: bool) -> "QueuePlace | None":
        """Return the place, None if it is as before. `alone`: there is no leader; `idle`: no ranks
        of the run are here. A run that is over leaves the queue then, one that waits for a leader
        keeps its place."""
        order = CLAIMS if alone else self.queue.order
        if idle and (alone or self.record.end):
            order = LEFT
        place = self.queue.follow(order, now)
        if place is None:
            return None
        earlier = [] if place.claimed else self.find_sleeping(now)
        return place.replace(lacks=self.find_missing(), before=earlier + place.before)

    def find_sleeping(self, now: float) -> "list[QueuedRun]":
        """Return the earlier runs of this user that have no keeper here yet. After a reboot, the
        command that lets this run wait again does so for these, too: until then it is after them.
        """
        if not self.order.woken or now - self.woke > WAKES:
            return []
        name, own = self.order.host, (self.queued, self.base)
        runs = [row for row in queued_runs.list_orders(self.runs, name) if row < own]
        owner = user_name(os.getuid())
        return [
            QueuedRun(
                int(since * 1000), run, run_about.read_owner(os.path.join(self.runs, run), owner)
            )
            for since, run in sorted(runs)
            if not control.is_alive(run, control.keeper_of(name))
        ]

    def find_missing(self) -> str:
        """Return what a queued run needs and this host has no more, "" if it has all."""
        if self.record.attempts:
            return ""
        pythons = {rank.argv[0] for rank in self.order.ranks}
        if not all(map(os.path.exists, pythons)):
            return ENV_REMOVED
        return "" if os.path.isdir(self.order.cwd) else PROJECT_REMOVED
