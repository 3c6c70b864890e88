"""Our script in the ranks of a run, in place of the user's, and what it prints."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from ipexctl.base.option import Seconds
from ipexctl.bench.allreduce_options import AllreduceOptions
from ipexctl.bench.allreduce_result import Heard
from ipexctl.doctor.doctor import Options as DoctorOptions
from ipexctl.doctor.doctor import examine_hosts
from ipexctl.doctor.report.cluster import Cluster
from ipexctl.local.project_lock import choice_here
from ipexctl.local.settings import configured_env
from ipexctl.machines.fleet import GRACE, Fleet
from ipexctl.machines.target import Target
from ipexctl.project.send_agreed import always
from ipexctl.project.send_project import Project
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.outcome.run_result import Left, RunResult
from ipexctl.run.plan.launch import LaunchPlan
from ipexctl.run.plan.run_options import RunOptions
from ipexctl.run.run import run
from ipexctl.run.run_script import Script
from ipexctl.run.watch.run_watchers import Interrupts, View

SCRIPT = "allreduce_bench.py"
COMPUTE = 0.1  # share of the time in which the hosts compute
PATIENCE = 300.0  # seconds beside the measured ones: imports of torch from a slow disk
_FOLDER = Path(__file__).parents[1] / "in_ranks"
Interruptible = Callable[[], AbstractContextManager[Interrupts]]


@dataclass
class RankLines(View):
    """A view that keeps what our script prints, and shows how the run goes where it fails."""

    shown: View
    heard: Heard
    plan: LaunchPlan | None = None
    as_data = True

    def note(self, text: str) -> None:
        if not text.startswith(f"{_FOLDER} "):  # how much of our own script was sent
            self.shown.note(text)

    def planned(self, run_id: str, plan: LaunchPlan) -> None:
        self.plan, self.heard.ranks = plan, plan.world_size
        self.shown.planned(run_id, plan)

    def lines(self, host: str, rank: int, texts: Sequence[str]) -> None:
        """What torch prints beside that is in the run's logs."""
        for text in texts:
            self.heard.add(rank, text)

    def result(self, result: RunResult) -> None:
        if result.exit_code and not self.heard.error:
            self.shown.result(result)

    def close(self) -> None:
        self.shown.close()


def examined(target: Target, root: str) -> Cluster:
    """What the doctor sees and measures between the hosts. Hosts that are down the run reports."""
    fleet = Fleet(target, root, grace=GRACE)
    options = DoctorOptions(root, level="std", env=choice_here(), compute=False)
    report = examine_hosts(fleet, options)
    return Cluster(report.facts, report.peers, measured=report.measured)


def run_in_ranks(
    target: Target, asked: AllreduceOptions, lines: RankLines, interrupts: Interruptible
) -> RunResult | Left:
    """Nothing of ours in the ranks' Python, which would be measured too."""
    work = {
        "backend": asked.backend,
        "max_size": asked.max_size,
        "seconds": asked.seconds,
        "compute": COMPUTE * asked.seconds,
    }
    options = RunOptions(
        script=SCRIPT,
        args=(json.dumps(work),),
        ppn=asked.ppn,
        env={**configured_env(), "IPEXCTL_BACKEND": asked.backend},
        no_inspect=True,
        stall=Seconds(0),
        timeout=Seconds(asked.seconds + PATIENCE),
        ports=asked.ports,
        root=asked.root,
        confirm=always,
        typed=target.typed,
    )
    started = Script(
        Project(_FOLDER), (SCRIPT, *options.args), env=choice_here(), typed=target.typed
    )
    with interrupts() as counted:
        return run(target, options, lines, counted, started)
