"""bench allreduce: measure links as `doctor` does, then all_reduce by ranks over the same links.

The ranks are started as by `ipexctl run`, with a script of ours in place of the user's.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from ipexctl.bench.allreduce_options import AllreduceOptions
from ipexctl.bench.allreduce_result import (
    BACKENDS,
    BenchLines,
    Benchmark,
    Placed,
    host_rates,
    measured_rows,
    slow_parts,
    slowest_rate,
)
from ipexctl.bench.rank_script import Interruptible, RankLines, examine_links, run_in_ranks
from ipexctl.errors import HostFailed, InputError, IpexctlError, NothingFits, unknown_value
from ipexctl.machines.target import Target, read_inventory
from ipexctl.run.watch.run_watchers import View


def bench_allreduce(
    target: Target,
    request: AllreduceOptions,
    view: View,
    interrupts: Interruptible,
    note: Callable[[str], None],
) -> Benchmark:
    """Run the benchmark. `interrupts` count while ranks run. Raises IpexctlError without result."""
    _check_request(target, request)
    began = time.monotonic()
    note("measuring the links between the hosts")
    cluster = examine_links(target, request.root)
    note(f"measuring all_reduce, about {request.seconds:.0f} s")
    report = BenchLines(0)
    lines = RankLines(view, report)
    result = run_in_ranks(target, request, lines, interrupts)
    if report.error:
        raise _error_of_ranks(report)
    plan = lines.plan
    ranks = {host.host: [rank.rank for rank in host.ranks] for host in plan.hosts} if plan else {}
    placement = Placed(cluster, ranks)
    links = cluster.measured.links
    return Benchmark(
        run_id=result.run_id,
        code=result.exit_code,
        backend=report.backend or request.backend,
        torch=report.torch,
        ranks=report.ranks,
        rows=measured_rows(report, slowest_rate(links)),
        left=report.left,
        left_why=report.left_why,
        hosts=host_rates(placement, report),
        links=links,
        slow=slow_parts(placement, report) if report.rates else (),
        seconds=time.monotonic() - began,
    )


def _check_request(target: Target, request: AllreduceOptions) -> None:
    if request.backend not in BACKENDS:
        raise unknown_value("--backend", request.backend, BACKENDS)
    if len(read_inventory(target).hosts) * request.ppn < 2:
        raise InputError(
            "all_reduce needs at least two ranks",
            why="one host was given, with one rank",
            hint="ipexctl bench allreduce --ppn 2   # measures this host alone\nor -f HOSTFILE",
            slug="one-rank",
        )


def _error_of_ranks(report: BenchLines) -> IpexctlError:
    if report.error == "no-ccl":
        return NothingFits(
            "--backend ccl: the environment on the hosts has no oneCCL bindings",
            why="oneccl_bind_pt cannot be imported there",
            hint="ipexctl bench allreduce --backend gloo",
            slug="no-ccl",
        )
    return HostFailed(
        "the ranks did not add up their values correctly",
        why=report.why,
        hint="ipexctl doctor --level std",
        slug="wrong-sum",
    )
