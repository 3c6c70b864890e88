"""Steps per second of examples/train_ddp.py: our plan beside plain `mpirun` and plain `torchrun`,
and with the keepers of `--restarts`, which have nothing to do here.

    python benchmarks/run_steps.py --prefix ENV [--hosts 2] [--ppn 1] [--steps 300] [--rounds 5]

Needs root (for the lab). The peers are typed by hand as their pages say: `mpirun -n N -ppn P` with
nothing but the master's address, `torchrun --nnodes --nproc-per-node` on every host. Every rank
writes when it began and ended a stretch of steps; the rate is that of the slowest rank, and the
start of the processes and their first steps are not in it. Each host is granted one CPU of this
machine (sched_setaffinity), so that two hosts do not fight for the same ones on a machine of two.
That leaves little to plan: this shows that our plan costs nothing, not what it gains on a host of
many cores, sockets and memory nodes.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from run_lab import HERE, HOME, Hosts, environment, hosts, load, median, options

RESTARTS = "ipexctl run --restarts 3"
WRAPPER = """
import os, sys, time
sys.argv = sys.argv[1:]
for name, mpi in (("RANK", "PMI_RANK"), ("WORLD_SIZE", "PMI_SIZE")):
    if mpi in os.environ:
        os.environ.setdefault(name, os.environ[mpi])
import torch
import train_ddp
from torch.optim import Adam

taken, step = [], Adam.step
Adam.step = lambda self, *args, **kw: (step(self, *args, **kw), taken.append(time.monotonic()))[0]
train_ddp.main()
warm = len(taken) // 4
rate = (len(taken) - 1 - warm) / (taken[-1] - taken[warm])
print("steps/s %.3f threads %d" % (rate, torch.get_num_threads()), flush=True)
"""


def grant(bench: Hosts) -> None:
    """One CPU for each host: its first process and all below it; new ones inherit."""
    cpus = sorted(os.sched_getaffinity(0))
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has just ended
            fields = path.read_text().rsplit(")", 1)[1].split()
            children.setdefault(int(fields[1]), []).append(int(path.parent.name))
    for i, host in enumerate(bench.lab.hosts.values()):
        todo = [host.pid]
        while todo:
            pid = todo.pop()
            os.sched_setaffinity(pid, {cpus[i % len(cpus)]})
            todo += children.get(pid, [])


def sides(bench: Hosts, ppn: int, steps: int) -> dict[str, tuple[str, ...]]:
    count = len(bench.lab.hosts)
    ranks, python = count * ppn, f"{bench.prefix}/bin/python"
    bench.put("train_ddp.py", (HERE.parent / "examples" / "train_ddp.py").read_text())
    script = bench.put("steps.py", WRAPPER).name
    words = f"--epochs 1 --steps {steps} --bf16"
    master = bench.lab.hosts["node01"].address
    place = {"MASTER_ADDR": master, "MASTER_PORT": "29500"}
    mpirun = bench.mpirun(ranks, ppn, f"{python} {HOME}/{script} steps {words}")
    each = " & ".join(
        f"ssh {name} {bench.prefix}/bin/torchrun --nnodes {count} --nproc-per-node {ppn} "
        f"--node-rank {i} --master-addr {master} {HOME}/{script} steps {words}"
        for i, name in enumerate(bench.lab.hosts)
    )
    run = ("--ui", "plain", script, "steps", *words.split())
    return {
        "mpirun": bench.typed(mpirun, place),
        "torchrun": bench.typed(f"{each} & wait", {}),
        "ipexctl run": bench.ipexctl(ranks, ppn, *run),
        RESTARTS: bench.ipexctl(ranks, ppn, "--restarts", "3", "--checkpoints", "out/*", *run),
    }


def slowest(argv: tuple[str, ...], ranks: int, cwd: Path) -> tuple[float, str]:
    """The rate of the slowest rank, and how many threads the ranks had."""
    done = subprocess.run(
        argv, cwd=cwd, env=environment(), stdin=subprocess.DEVNULL,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    said = re.findall(r"steps/s ([\d.]+) threads (\d+)", done.stdout)
    if len(said) != ranks:
        raise SystemExit(f"{argv} told of {len(said)} ranks\n{done.stdout}\n{done.stderr[-3000:]}")
    return min(float(rate) for rate, _ in said), "/".join(sorted({n for _, n in said}))


def main() -> None:
    args = options(__doc__, hosts=2, ppn=1, steps=300, rounds=5)
    found: dict[str, list[float]] = {}
    threads: dict[str, str] = {}
    with hosts(args.hosts, args.prefix) as bench:
        grant(bench)
        for number in range(args.rounds):
            for name, argv in sides(bench, args.ppn, args.steps).items():
                rate, threads[name] = slowest(argv, args.hosts * args.ppn, bench.work)
                found.setdefault(name, []).append(rate)
                print(number, name, rate, threads[name], load(), file=sys.stderr, flush=True)
    ours = median(found["ipexctl run"])
    print("| tool | steps/s | from | to | threads per rank | ipexctl's steps/s / its |")
    print("|---|---|---|---|---|---|")
    for name, rates in found.items():
        low, middle, high = min(rates), median(rates), max(rates)
        print(
            f"| {name} | {middle:.1f} | {low:.1f} | {high:.1f} | {threads[name]} "
            f"| {ours / middle:.2f} |"
        )
    print(f"\n{args.hosts} hosts of {args.ppn} ranks, {args.rounds} rounds; {load()}")


if __name__ == "__main__":
    main()
