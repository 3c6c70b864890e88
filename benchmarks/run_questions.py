"""`ps`, `logs -n 1` and `stop` of a run on four hosts, beside `ssh node01 true`.

    python benchmarks/run_questions.py --prefix ENV [--rounds 7]

Needs root (for the lab). Each round starts a run and ends it; ssh asks one host, ipexctl four.
`stop` waits until the run has ended on all of them. A first round is not counted.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from run_lab import environment, hosts, load, median, options

HOSTS = 4
SCRIPT = "import time\nprint('up', flush=True)\ntime.sleep(600)\n"


def main() -> None:
    args = options(__doc__, rounds=7)
    with hosts(HOSTS, args.prefix) as bench:
        bench.put("sleep.py", SCRIPT)
        lab = ("--hostfile", str(bench.lab.hostfile), "-F", str(bench.lab.ssh_config))
        ours = (sys.executable, "-m", "ipexctl")
        sides = {
            "ssh node01 true": ("ssh", "-F", str(bench.lab.ssh_config), "node01", "true"),
            "ipexctl ps": (*ours, "ps", *lab),
            "ipexctl logs -n 1": (*ours, "logs", *lab, "-n", "1", "asked"),
            "ipexctl stop": (*ours, "stop", *lab, "asked"),
        }
        found: dict[str, list[float]] = {name: [] for name in sides}
        for number in range(args.rounds + 1):
            seconds(bench.ipexctl(HOSTS, 1, "--detach", "--name", "asked", "sleep.py"), bench.work)
            for name, argv in sides.items():
                took = seconds(argv, bench.work)
                if number:
                    found[name].append(took)
    base = median(found["ssh node01 true"])
    print("| command | s | fastest | slowest | beside 1.5 times ssh + 0.15 s |")
    print("|---|---|---|---|---|")
    for name, took in found.items():
        spread = f"{min(took):.2f} | {max(took):.2f}"
        print(
            f"| {name} | {median(took):.2f} | {spread} | {median(took) - 1.5 * base - 0.15:+.2f} |"
        )
    print(f"\n{load()}")


def seconds(argv: tuple[str, ...], work: Path) -> float:
    began = time.monotonic()
    done = subprocess.run(
        argv, cwd=work, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    took = time.monotonic() - began
    if done.returncode:
        raise SystemExit(f"{argv}\nended with {done.returncode}\n{done.stderr[-3000:]}")
    return took


if __name__ == "__main__":
    main()
