"""Run a script of ours in the ranks in place of the user's, and read its output."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from ipexctl.base.option import Seconds
from ipexctl.bench.allreduce_options import AllreduceOptions
from ipexctl.bench.allreduce_result import BenchLines
from ipexctl.doctor.doctor import DoctorOptions, examine_hosts
from ipexctl.doctor.report.cluster import CheckedHosts
from ipexctl.local.project_lock import choice_here
from ipexctl.local.run_options import RunOptions
from ipexctl.local.settings import configured_env
from ipexctl.machines.fleet import GRACE, Fleet
from ipexctl.machines.target import Target
from ipexctl.project.send_agreed import answer_yes
from ipexctl.project.send_project import Project
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.outcome.run_result import DetachedRun, RunResult
from ipexctl.run.plan.launch import LaunchPlan
from ipexctl.run.run import start_and_follow_run
from ipexctl.run.run_script import Script
from ipexctl.run.watch.run_watchers import Interrupts, View

SCRIPT = "allreduce_bench.py"
COMPUTE = 0.1  # share of the time in which the hosts compute
PATIENCE = 300.0  # seconds in addition to the measured ones: imports of torch from a slow disk
_FOLDER = Path(__file__).parents[1] / "in_ranks"
Interruptible = Callable[[], AbstractContextManager[Interrupts]]


@dataclass
class RankLines(View):
    """A view that keeps the output of our script, and shows the run's progress if it fails."""

    shown: View
    heard: BenchLines
    plan: LaunchPlan | None = None
    as_data = True

    def note(self, text: str) -> None:
        if not text.startswith(f"{_FOLDER} "):  # the size of our own script that was sent
            self.shown.note(text)

    def planned(self, run_id: str, plan: LaunchPlan) -> None:
        self.plan, self.heard.ranks = plan, plan.world_size
        self.shown.planned(run_id, plan)

    def lines(self, host: str, rank: int, texts: Sequence[str]) -> None:
        """Read our lines; what torch prints besides is in the run's logs."""
        for text in texts:
            self.heard.add(rank, text)

    def result(self, result: RunResult) -> None:
        if result.exit_code and not self.heard.error:
            self.shown.result(result)

    def close(self) -> None:
        self.shown.close()


def examine_links(target: Target, root: str) -> CheckedHosts:
    """Return what the doctor finds and measures between the hosts; the run reports hosts down."""
    fleet = Fleet(target, root, grace=GRACE)
    options = DoctorOptions(level="std", env=choice_here(), compute=False)
    report = examine_hosts(fleet, options)
    return CheckedHosts(report.facts, report.peers, measured=report.measured)


def run_in_ranks(
    target: Target, request: AllreduceOptions, lines: RankLines, interrupts: Interruptible
) -> RunResult | DetachedRun:
    """Run the script; none of our modules is loaded in the ranks, as that would be measured too."""
    work = {
        "backend": request.backend,
        "max_size": request.max_size,
        "seconds": request.seconds,
        "compute": COMPUTE * request.seconds,
    }
    options = RunOptions(
        script=SCRIPT,
        args=(json.dumps(work),),
        ppn=request.ppn,
        env={**configured_env(), "IPEXCTL_BACKEND": request.backend},
        no_inspect=True,
        stall=Seconds(0),
        timeout=Seconds(request.seconds + PATIENCE),
        ports=request.ports,
        root=request.root,
        confirm=answer_yes,
        typed=target.typed,
    )
    script = Script(
        Project(_FOLDER), (SCRIPT, *options.args), env=choice_here(), typed=target.typed
    )
    with interrupts() as counted:
        return start_and_follow_run(target, options, lines, counted, script)
