"""wait: wait until a run ends."""

from __future__ import annotations

from ipexctl.errors import EXIT_FAILED
from ipexctl.machines.fleet import Fleet
from ipexctl.machines.target import ROOT, Target
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.jobs.ps import (
    NEWEST,
    AskedRun,
    find_run_of_anybody,
    require_answering,
    settle_queued_runs,
    wait_until_over,
)
from ipexctl.run.jobs.start_again import compose_again_line


@dataclass(frozen=True)
class Waited(AskedRun):
    again: str = ""  # the command that starts it again, if it has failed

    @property
    def exit_code(self) -> int:
        return EXIT_FAILED if self.run.exit_code is None else self.run.exit_code


def wait_for_run(
    target: Target, text: str, root: str = ROOT, seconds: float | None = None
) -> Waited:
    with Fleet(target, root) as fleet:
        run = require_answering(fleet, find_run_of_anybody(fleet, text, newest=NEWEST))
        settle_queued_runs(fleet, [run])
        run = wait_until_over(fleet, run, seconds)
        again = compose_again_line(fleet, run)
        return Waited(run, fleet.recaps(), len(fleet.alive), again)
