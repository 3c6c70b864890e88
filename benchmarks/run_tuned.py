"""Steps per second of a tuned run beside plain `torchrun` and plain `mpirun`, over slow links.

    python benchmarks/run_tuned.py --prefix ENV [--rate 1gbit] [--script small_gpt] [--rounds 5]

Needs root (for the lab): two hosts of one CPU each, as in run_steps.py. `ipexctl tune --allow
numerics` writes the settings, then all three take turns. Each round has its own seed, which is the
same for all, and the losses at the end of a round are printed beside the rates.
"""

from __future__ import annotations

import re
import subprocess
import sys

from run_lab import HERE, HOME, Hosts, environment, hosts, load, median, options
from run_steps import WRAPPER, grant

SCRIPTS = {
    "small_gpt": (HERE / "small_gpt.py", "--steps {steps} --seed {seed}"),
    # without --cpu, Accelerate's ranks train each alone under the two others
    "text_classification": (HERE.parent / "examples" / "text_classification.py", "--cpu"),
}
LOSS = re.compile(r"^.*\bloss (?:[\d.]+ -> )?([\d.]+)$", re.MULTILINE)


def sides(bench: Hosts, script: str, words: str) -> dict[str, tuple[str, ...]]:
    python, master = f"{bench.prefix}/bin/python", bench.lab.hosts["node01"].address
    each = " & ".join(
        f"ssh {name} {bench.prefix}/bin/torchrun --nnodes 2 --nproc-per-node 1 --node-rank {i} "
        f"--master-addr {master} {HOME}/{script} x {words}"
        for i, name in enumerate(bench.lab.hosts)
    )
    mpirun = bench.mpirun(2, 1, f"{python} {HOME}/{script} x {words}")
    return {
        "torchrun": bench.typed(f"{each} & wait"),
        "mpirun": bench.typed(mpirun, {"MASTER_ADDR": master, "MASTER_PORT": "29500"}),
        "ipexctl run, tuned": bench.ipexctl(2, 1, "--ui", "plain", script, "x", *words.split()),
    }


def measured(argv: tuple[str, ...], bench: Hosts) -> tuple[float, float]:
    """The rate of the slower rank, and the loss."""
    done = subprocess.run(
        argv, cwd=bench.work, env=environment(), stdin=subprocess.DEVNULL,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    rates, losses = re.findall(r"steps/s ([\d.]+)", done.stdout), LOSS.findall(done.stdout)
    if len(rates) != 2 or not losses:
        raise SystemExit(f"{argv}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return min(map(float, rates)), float(losses[-1])


def main() -> None:
    args = options(__doc__, rate="1gbit", script="small_gpt", steps=100, rounds=5, budget="6m")
    path, words = SCRIPTS[args.script]
    found: dict[str, list[tuple[float, float]]] = {}
    with hosts(2, args.prefix, rate="" if args.rate == "none" else args.rate) as bench:
        grant(bench)
        bench.put(path.name, path.read_text())
        script = bench.put("measured.py", WRAPPER.replace("train_ddp", path.stem)).name
        lab = ("-f", str(bench.lab.hostfile), "-F", str(bench.lab.ssh_config))
        tune = (sys.executable, "-m", "ipexctl", "tune", *lab, "-n", "2", "-ppn", "1", "-y")
        tune += ("--allow", "numerics", "--budget", args.budget, path.name)
        typed = words.format(steps=100000, seed=9).split()
        typed += ["--epochs", "1000"] * ("steps" not in words)
        subprocess.run((*tune, *typed), cwd=bench.work, env=environment(), check=True)
        for number in range(args.rounds):
            told = words.format(steps=args.steps, seed=number)
            for name, argv in sides(bench, script, told).items():
                found.setdefault(name, []).append(measured(argv, bench))
                print(number, name, *found[name][-1], load(), file=sys.stderr, flush=True)
    ours = found["ipexctl run, tuned"]
    print("| tool | steps/s | from | to | tuned / its, by round | largest difference of losses |")
    print("|---|---|---|---|---|---|")
    for name, all_of in found.items():
        rates = [rate for rate, _ in all_of]
        ratio = median([own / its for (own, _), (its, _) in zip(ours, all_of, strict=True)])
        apart = max(abs(own - its) for (_, own), (_, its) in zip(ours, all_of, strict=True))
        print(
            f"| {name} | {median(rates):.2f} | {min(rates):.2f} | {max(rates):.2f} "
            f"| {ratio:.2f} | {apart:.5f} |"
        )
    print(f"\n{args.script}, {args.rate}, 2 hosts of one CPU, {args.rounds} rounds; {load()}")


if __name__ == "__main__":
    main()
