"""How long `ipexctl --help` takes, against a Python that only imports typer and rich.

Takes turns, so that a busy moment hits both. Exits 1 when the ratio of the medians is above LIMIT.
"""

import statistics
import subprocess
import sys
import time

import bytecode

LIMIT = 1.4
ROUNDS = 9
COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "python -c 'import typer, rich'": ["-c", "import typer, rich"],
    "ipexctl --help": ["-m", "ipexctl", "--help"],
}


def main() -> int:
    bytecode.make()
    taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(ROUNDS):
        for name, args in COMMANDS.items():
            taken[name].append(seconds([sys.executable, *args]))
    for name, times in taken.items():
        low, middle, high = min(times), statistics.median(times), max(times)
        print(f"{name:32} {middle:.3f} s  (from {low:.3f} to {high:.3f})")
    _, imports, ours = (statistics.median(times) for times in taken.values())
    print(f"ipexctl --help takes {ours / imports:.2f} times the bare imports; limit {LIMIT}")
    return int(ours / imports > LIMIT)


def seconds(argv: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


if __name__ == "__main__":
    sys.exit(main())
