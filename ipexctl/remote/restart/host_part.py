"""What one host does in the attempts of a run, and what it reports of that to the leader.

The keeper's thread owns it. Laying out a checkpoint takes long and has a thread of its own, which
sends what it finds to the keeper as a message.
"""

import os
import threading
import time

from ipexctl.common.attempt_record import KeeperNote
from ipexctl.common.control_questions import EndRun
from ipexctl.common.keeper_messages import BeginPart, HostReport, PartFailed
from ipexctl.common.root_paths import run_id_of
from ipexctl.common.run_orders import StartOrder
from ipexctl.common.watch_orders import HubAt
from ipexctl.remote import root_folder
from ipexctl.remote.checkpoints import checkpoint_rules, checkpoint_transfer
from ipexctl.remote.checkpoints.copy_folder import Changed
from ipexctl.remote.failure import Failure
from ipexctl.remote.own_process import start_thread
from ipexctl.remote.restart import guardian_starter
from ipexctl.remote.restart.attempt_part import Part
from ipexctl.remote.run import control
from ipexctl.remote.run_files import run_folders

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Callable

    from ipexctl.common.attempt_record import RecordLine
    from ipexctl.remote.restart.record import RestartRecord


class HostPart:
    """`deliver(name, message)` queues a message for the keeper; `note(line)` writes into the file
    of the run's attempts. `base`: the ID of the first attempt, in whose folder the keeper is."""

    def __init__(
        self,
        order: StartOrder,
        base: str,
        runs: str,
        record: "RestartRecord",
        starter: "guardian_starter.Starter",
        deliver: "Callable[[str, object], object]",
        note: "Callable[[RecordLine], object]",
    ) -> None:
        self.order, self.name, self.base, self.runs = order, order.host, base, runs
        self.record, self.starter, self.deliver, self.note = record, starter, deliver, note
        self.copies = checkpoint_transfer.CheckpointCopies(runs, order.keys)
        self.began = self.note_beginning()
        self.laying = threading.Lock()  # one attempt at a time lays a checkpoint out
        self.report = HostReport()
        self.since = {}  # type: dict[str, float]  # when each field of it was set
        self.changed = True  # since it was reported
        self.clearing = 0  # the attempt that has to end here
        self.part = None if order.spare else Part(self, order, 1)

    def note_beginning(self) -> float:
        """Return when the first keeper of the run began here, before any rank: this one may be of
        a host that was lost and is back."""
        folder = os.path.join(self.runs, self.base)
        path = os.path.join(folder, "began.%s" % os.path.basename(self.name))
        try:
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW, 0o600))
            return os.stat(path).st_mtime
        except OSError:  # a full disk
            return time.time()

    def set(self, kind: str, value: object) -> None:
        """Set a field of the report."""
        setattr(self.report, kind, value)
        self.since[kind] = time.monotonic()
        self.changed = True

    def report_at(self, now: float) -> HostReport:
        """Return the report with ages as of now."""
        report = self.report.replace()
        # `now` is when the turn began: what was found in it is later
        if report.over:
            report.over = report.over.replace(ago=max(0.0, now - self.since["over"]))
        if report.cleared:
            ago = max(0.0, now - self.since["cleared"])
            rows = [row.replace(age=row.age + ago) for row in report.cleared.checkpoints]
            report.cleared = report.cleared.replace(checkpoints=rows)
        return report

    def is_idle(self) -> bool:
        """Return whether no attempt is here, or its part has ended."""
        return self.part is None or self.part.ended

    def attempts(self) -> "dict[str, int]":
        """Return {run id: number} of all attempts. Ids are derived, since they become paths."""
        numbers = [attempt.attempt for attempt in self.record.attempts]
        return {run_id_of(self.base, number): number for number in numbers}

    def has_cleared(self, attempt: int) -> bool:
        cleared = self.report.cleared
        return cleared is not None and cleared.attempt >= attempt

    def clear(self, attempt: int) -> None:
        """Let an attempt end here, and report then what is left of it."""
        if self.clearing != attempt:
            self.clearing = attempt
            self.end("the next attempt")

    def is_before(self, attempt: int) -> bool:
        """Return whether no part of this attempt or of a later one is here."""
        return self.part is None or self.part.attempt < attempt

    def begin(self, begin: BeginPart, attempt: int) -> None:
        run_id = run_id_of(self.base, attempt)
        order = begin.asked.replace(keys=self.order.keys, root=self.order.root, run_id=run_id)
        try:
            folder = root_folder.make_subfolder(os.path.dirname(self.runs), "runs", run_id)
        except Failure as e:  # a full disk: the leader has to know why this host cannot begin
            self.deliver(self.name, PartFailed(attempt, e.what))
            return
        run_folders.hold_folder(folder)
        self.part = Part(self, order, attempt)
        start_thread(self.lay_out_and_start, self.part, begin, self.attempts())

    def lay_out_and_start(self, part: Part, begin: BeginPart, attempts: "dict[str, int]") -> None:
        """Lay out the checkpoint, then start. Meanwhile, another attempt may have followed."""
        layout, paths = begin.lay, []
        with self.laying:
            try:
                if begin.tidies and self.is_latest(part):
                    self.copies.put_newer_aside(part.order, layout, self.began)
                if layout and self.is_latest(part):
                    paths = self.copies.lay_out(part.order, layout, attempts)
                    self.copies.remove_old_copies(attempts, layout.needed)
                    part.order = part.order.replace(checkpoint_gap=layout.gap)
            except (Failure, OSError) as e:
                problem = e.what if isinstance(e, Failure) else str(e)
                self.deliver(self.name, PartFailed(part.attempt, problem))
                return
        if not self.is_latest(part):
            part.ended = True
            return
        part.begin(self.starter)
        try:
            if layout:
                self.copies.keep_laid_out(part.order, layout, paths)
            if part.checkpoints >= checkpoint_rules.KEPT:  # newer ones were completed meanwhile
                self.copies.release(part.order)
        except (Failure, OSError, Changed) as e:
            self.note(KeeperNote("no copy of %s: %s" % (layout.name if layout else "", e)))

    def join_hub(self, hub: "tuple[str, int]", attempt: int) -> None:
        """Tell the supervisor of an attempt, once, where its hub is."""
        part = self.part
        if part is not None and part.attempt == attempt and not part.joined:
            part.joined = True
            part.write(HubAt(*hub).document())

    def is_latest(self, part: Part) -> bool:
        return part is self.part and not self.is_unwanted(part.attempt)

    def is_unwanted(self, attempt: int) -> bool:
        """Return whether an attempt is over by the record: no process of it may begin."""
        return self.record.end is not None or attempt <= self.record.cleared()

    def look(self, now: float) -> None:
        """Report the end of the part, and that no rank of the last attempt is left."""
        part = self.part
        if part is not None:
            part.look(now)
        if part is not None and part.well and self.report.succeeded != part.attempt:
            self.set("succeeded", part.attempt)
        if part is not None and part.ended and not part.reported:
            part.reported = True
            self.set("over", part.end())
        if self.clearing and (part.ended if part else not self.is_left()):
            self.set("cleared", self.copies.report(self.attempts(), self.clearing))
            self.clearing = 0

    def is_left(self) -> bool:
        """Return whether the last attempt runs here: an earlier keeper may have started it."""
        return control.is_alive(os.path.join(self.runs, self.last_run_id()), self.name)

    def last_run_id(self) -> str:
        return run_id_of(self.base, self.record.number)

    def end(self, why: str) -> None:
        """Let the supervisor of the last attempt end."""
        if not self.record.attempts:
            return
        if self.part is None or not self.part.ended:
            run_id = self.last_run_id() if self.part is None else self.part.run_id
            order = EndRun(why).document()
            control.ask_supervisor(os.path.join(self.runs, run_id), self.name, order)
