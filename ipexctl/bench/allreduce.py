"""bench allreduce: the doctor measures links, then ranks measure all_reduce over the same links.

The ranks are started as `ipexctl run` starts them, with a script of ours in place of the user's.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import field
from pathlib import Path

from ipexctl.base.option import Seconds
from ipexctl.bench.allreduce_options import AllreduceOptions
from ipexctl.bench.allreduce_result import (
    BACKENDS,
    Benchmark,
    Heard,
    Placed,
    host_rates,
    rows,
    slow_parts,
    slowest_rate,
)
from ipexctl.doctor.doctor import Options as DoctorOptions
from ipexctl.doctor.doctor import examine_hosts
from ipexctl.doctor.report.cluster import Cluster
from ipexctl.errors import HostFailed, InputError, IpexctlError, NothingFits, unknown_value
from ipexctl.local.project_lock import choice_here
from ipexctl.local.settings import configured_env
from ipexctl.machines.fleet import GRACE, Fleet
from ipexctl.machines.target import Target, inventory
from ipexctl.project.send_agreed import always
from ipexctl.project.send_project import Project
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.outcome.outcome import RunResult, Tally
from ipexctl.run.plan.launch import LaunchPlan
from ipexctl.run.plan.run_options import RunOptions
from ipexctl.run.run import run
from ipexctl.run.run_script import Script
from ipexctl.run.watch.run_watchers import Interrupts, View

SCRIPT = "allreduce_bench.py"
COMPUTE = 0.1  # share of the time in which the hosts compute
PATIENCE = 300.0  # seconds beside the measured ones: imports of torch from a slow disk
_FOLDER = Path(__file__).parents[1] / "in_ranks"


@dataclass
class RankLines:
    """A view that keeps what our script prints, and shows how the run goes where it fails."""

    shown: View
    ranks: Heard = field(default_factory=lambda: Heard(0))
    plan: LaunchPlan | None = None
    lossy = False
    as_data = True

    def note(self, text: str) -> None:
        if not text.startswith(f"{_FOLDER} "):  # how much of our own script was sent
            self.shown.note(text)

    def planned(self, run_id: str, plan: LaunchPlan) -> None:
        self.plan, self.ranks = plan, Heard(plan.world_size)
        self.shown.planned(run_id, plan)

    def lines(self, host: str, rank: int, texts: Sequence[str]) -> None:
        """What torch prints beside that is in the run's logs."""
        for text in texts:
            self.ranks.add(rank, text)

    def bar(self, host: str, rank: int, text: str) -> None:
        return None

    def dropped(self, lines: int) -> None:
        return None

    def tick(self, tally: Tally) -> None:
        return None

    def failed(self, rank: int) -> None:
        return None

    def result(self, result: RunResult) -> None:
        if result.exit_code and not self.ranks.error:
            self.shown.result(result)

    def close(self) -> None:
        self.shown.close()


def bench(
    target: Target,
    asked: AllreduceOptions,
    view: View,
    interrupts: Callable[[], AbstractContextManager[Interrupts]],
    note: Callable[[str], None],
) -> Benchmark:
    """`interrupts` count while there are ranks. Raises IpexctlError where there is no result."""
    _check(target, asked)
    began = time.monotonic()
    note("measuring the links between the hosts")
    cluster = _examined(target, asked)
    note(f"measuring all_reduce, about {asked.seconds:.0f} s")
    lines = RankLines(view)
    options = _run_options(target, asked)
    script = Script(
        Project(_FOLDER), (SCRIPT, *options.args), env=choice_here(), typed=target.typed
    )
    with interrupts() as counted:
        result = run(target, options, lines, counted, script)
    heard = lines.ranks
    if heard.error:
        raise _refusal(heard)
    plan = lines.plan
    ranks = {h.host: [p.rank for p in h.ranks] for h in plan.hosts} if plan else {}
    placed = Placed(cluster, ranks)
    links = cluster.measured.links
    return Benchmark(
        run_id=result.run_id,
        code=result.exit_code,
        backend=heard.backend or asked.backend,
        torch=heard.torch,
        ranks=heard.ranks,
        rows=rows(heard, slowest_rate(links)),
        left=heard.left,
        left_why=heard.left_why,
        hosts=host_rates(placed, heard),
        links=links,
        slow=slow_parts(placed, heard) if heard.rates else (),
        seconds=time.monotonic() - began,
    )


def _check(target: Target, asked: AllreduceOptions) -> None:
    if asked.backend not in BACKENDS:
        raise unknown_value("--backend", asked.backend, BACKENDS)
    if len(inventory(target).hosts) * asked.ppn < 2:
        raise InputError(
            "all_reduce needs at least two ranks",
            why="one host was given, with one rank",
            hint="ipexctl bench allreduce -f HOSTFILE\nor --ppn 2, which measures this host alone",
            slug="one-rank",
        )


def _examined(target: Target, asked: AllreduceOptions) -> Cluster:
    """What the doctor sees and measures between the hosts. Hosts that are down the run reports."""
    env = choice_here()
    fleet = Fleet(target, asked.root, grace=GRACE)
    options = DoctorOptions(asked.root, level="std", env=env, compute=False)
    report = examine_hosts(fleet, options)
    return Cluster(report.facts, report.peers, measured=report.measured)


def _run_options(target: Target, asked: AllreduceOptions) -> RunOptions:
    """Nothing of ours in the ranks' Python, which would be measured too."""
    work: Mapping[str, object] = {
        "backend": asked.backend,
        "max_size": asked.max_size,
        "seconds": asked.seconds,
        "compute": COMPUTE * asked.seconds,
    }
    return RunOptions(
        script=SCRIPT,
        args=(json.dumps(work),),
        ppn=asked.ppn,
        env={**configured_env(), "IPEXCTL_BACKEND": asked.backend},
        no_inspect=True,
        timeout=Seconds(asked.seconds + PATIENCE),
        ports=asked.ports,
        root=asked.root,
        confirm=always,
        typed=target.typed,
    )


def _refusal(heard: Heard) -> IpexctlError:
    if heard.error == "no-ccl":
        return NothingFits(
            "--backend ccl: the environment on the hosts has no oneCCL bindings",
            why="oneccl_bind_pt cannot be imported there",
            hint="ipexctl bench allreduce --backend gloo",
            slug="no-ccl",
        )
    return HostFailed(
        "the ranks did not add up their values correctly",
        why=heard.why,
        hint="ipexctl doctor --level std",
        slug="wrong-sum",
    )
