"""From the command to the first line of the last rank: `ipexctl run` beside `mpirun` over SSH.

    python benchmarks/run_launch.py --prefix ENV [--hosts 4,16] [--rounds 5] [--edit 0]

Needs root (for the lab). The script imports nothing. The peer is `mpirun` typed on node01 over SSH,
which starts its daemons by SSH with keys, names that resolve, and the script on every host already.
ipexctl looks at every host, makes a plan and brings the project on top of that. The sides take
turns; a first round is not counted. Ratios of medians; hosts and controller share this machine.

With --edit N the project has N files, one of which changes before each run, and the script imports
torch. The peer brings no files.
"""

from __future__ import annotations

import sys
import time

from run_lab import HOME, Hosts, hosts, load, median, options, timed

SCRIPT = "print('up', flush=True)\n"


def measure(bench: Hosts, rounds: int, files: int) -> dict[str, tuple[float, float]]:
    """Per side the medians of the seconds to the last first line, and of the whole command."""
    ranks = len(bench.lab.hosts)
    script = bench.put("up.py", "import torch\n" * bool(files) + SCRIPT)
    for n in range(files):
        (bench.work / f"part{n}.py").write_text(f"# {n}\n" * 200)
    peer = bench.mpirun(ranks, 1, f"{bench.prefix}/bin/python {HOME}/up.py")
    sides = {
        "mpirun over ssh": bench.typed(peer),
        "ipexctl run": bench.ipexctl(ranks, 1, "--ui", "plain", script.name),
    }
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
    for number in range(rounds + 1):
        for name, argv in sides.items():
            if files:
                (bench.work / "part0.py").write_text(f"# {time.monotonic_ns()}\n" * 200)
            sample = timed(argv, ranks, bench.work)
            if number:
                found[name].append(sample)
                print(ranks, name, sample, load(), file=sys.stderr, flush=True)
    return {
        name: (median([a for a, _ in samples]), median([b for _, b in samples]))
        for name, samples in found.items()
    }


def main() -> None:
    args = options(__doc__, hosts="4,16", rounds=5, edit=0)
    print("| hosts | tool | first line of the last rank s | whole s | ratio | difference s |")
    print("|---|---|---|---|---|---|")
    for count in map(int, args.hosts.split(",")):
        with hosts(count, args.prefix) as bench:
            found = measure(bench, args.rounds, args.edit)
        base = found["mpirun over ssh"][0]
        for name, (first, wall) in found.items():
            ratio = f"{first / base:.2f} | {first - base:+.2f}"
            print(f"| {count} | {name} | {first:.2f} | {wall:.2f} | {ratio} |")
    print(f"\n{load()}")


if __name__ == "__main__":
    main()
