"""What counting the ranks' exchange costs them: steps per second of DDP with it and without.

    python benchmarks/exchange.py PYTHON [--ranks 2] [--rounds 7] [--steps 400]

PYTHON has torch. The same loop runs on this machine as bare processes; in every second run the
agent's counter watches them from a process of its own, as on a host of a run.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

WATCH = """
import sys
from ipexctl.remote.run import traffic
class Call:
    def emit(self, event):
        pass
    report = emit
watch = traffic.Traffic(Call(), int(sys.argv[1]))
for rank, pid in enumerate(sys.argv[2:]):
    watch.add(rank, int(pid))
watch.loop(lambda: False)
"""
LOOP = """
import os, sys, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
torch.set_num_threads(1)
model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(4)])
model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data, steps = torch.randn(64, 256), int(sys.argv[1])
for step in range(steps + 50):
    if step == 50:
        began = time.perf_counter()
    model(data).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
if dist.get_rank() == 0:
    print("steps/s", steps / (time.perf_counter() - began))
dist.destroy_process_group()
"""


def measured(
    python: str, ranks: int, steps: int, port: int, *, watched: bool
) -> tuple[float, float]:
    """(steps per second, CPU seconds of the counter per second)."""
    common = {
        "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo",
    }  # fmt: skip
    started = [
        subprocess.Popen(
            [python, "-c", LOOP, str(steps)],
            env={**os.environ, **common, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE, text=True,
        )
        for rank in range(ranks)
    ]  # fmt: skip
    began = time.monotonic()
    counter = None
    if watched:
        pids = [str(process.pid) for process in started]
        counter = subprocess.Popen([sys.executable, "-c", WATCH, str(port), *pids])
    said = [process.communicate()[0] for process in started]
    cpu = 0.0
    if counter:
        seconds = time.monotonic() - began
        fields = Path(f"/proc/{counter.pid}/stat").read_text().rpartition(")")[2].split()
        cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") / seconds
        counter.kill()
        counter.wait()
    found = re.search(r"steps/s ([\d.]+)", said[0])
    if not found:
        sys.exit("the loop failed")
    return float(found[1]), cpu


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("python")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=400)
    args = parser.parse_args()
    ratios, costs = [], []
    for round_number in range(args.rounds):
        order = (False, True) if round_number % 2 else (True, False)
        speeds = {}
        for i, watched in enumerate(order):
            port = 29600 + 2 * round_number + i
            speeds[watched], cpu = measured(
                args.python, args.ranks, args.steps, port, watched=watched
            )
            costs += [cpu] if watched else []
        ratios.append(speeds[True] / speeds[False])
        print(f"{speeds[True]:8.1f} counted  {speeds[False]:8.1f} not  ratio {ratios[-1]:.4f}")
    print(
        f"ratio: median {statistics.median(ratios):.4f}, {min(ratios):.4f} to {max(ratios):.4f}; "
        f"the counter took {statistics.median(costs):.2%} of one CPU"
    )


if __name__ == "__main__":
    main()
