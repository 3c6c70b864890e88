"""bench models: facts of the hosts, then ranks measure models in several precisions and engines."""

from __future__ import annotations

import time
from collections.abc import Callable

from ipexctl.bench.models_options import ModelsOptions
from ipexctl.bench.models_result import Heard, ModelsBenchmark, machines, on_one_machine, rows
from ipexctl.bench.rank_script import Interruptible, RankLines, RankScript, examined, run_in_ranks
from ipexctl.machines.target import Target
from ipexctl.run.watch.run_watchers import View

SCRIPT = "models_bench.py"


def bench_models(
    target: Target,
    asked: ModelsOptions,
    view: View,
    interrupts: Interruptible,
    note: Callable[[str], None],
) -> ModelsBenchmark:
    """`interrupts` count while there are ranks. Raises IpexctlError where there is no result."""
    began = time.monotonic()
    cluster = examined(target, asked.root, "quick")
    note(f"measuring {' and '.join(asked.models)}, about {asked.seconds:.0f} s")
    work = {
        "models": asked.models,
        "precisions": asked.precision,
        "small": asked.small,
        "seconds": asked.seconds,
    }
    script = RankScript(SCRIPT, work, asked.seconds, ports=asked.ports, root=asked.root)
    heard = Heard()
    lines = RankLines(view, heard)
    result = run_in_ranks(target, script, lines, interrupts)
    plan = lines.plan
    hosts = [host.host for host in plan.hosts] if plan else []
    environment = plan.environment.document() if plan and plan.environment else None
    return ModelsBenchmark(
        run_id=result.run_id,
        code=result.exit_code,
        torch=heard.torch,
        environment=environment,
        small=asked.small,
        sizes=heard.sizes,
        rows=rows(heard, cluster, hosts),
        machines=machines(heard, cluster, hosts),
        one_machine=on_one_machine(cluster),
        seconds=time.monotonic() - began,
    )
