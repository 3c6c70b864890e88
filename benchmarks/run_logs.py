"""Log throughput: 8 ranks of a million lines, piped, beside `mpirun -prepend-rank > file`.

    python benchmarks/run_logs.py --prefix ENV [--hosts 4] [--ranks 8] [--lines N] [--rounds 3]

Needs root (for the lab). Ours is `ipexctl run --ui plain ... | cat > file`: every line crosses SSH
to this machine and is also kept in a file per rank, on its host and here. The peer is typed on
node01 over SSH and writes its file there. The ranks write blocks of lines, so that the time is the
logs' and not Python's `print`; with `--how print` they print. Of each time, the time of the same
command with one line per rank is taken off. Then every line of both files is looked at: each rank's
lines must be there, whole, once, in their order. What does not come through is told; only ours
must be without fault.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from run_lab import HOME, Hosts, environment, hosts, load, median, options

SCRIPT = """
import os, sys
rank = int(os.environ.get("RANK", os.environ.get("PMI_RANK", 0)))
lines, out = int(sys.argv[1]), sys.stdout.buffer
if sys.argv[2] == "print":
    for n in range(lines):
        print("rank %02d line %07d loss 0.123456" % (rank, n))
    lines = 0
for start in range(0, lines, 1000):
    numbers = range(start, min(lines, start + 1000))
    out.write(b"".join(b"rank %02d line %07d loss 0.123456\\n" % (rank, n) for n in numbers))
out.flush()
"""


@dataclass(frozen=True)
class Side:
    name: str
    began: str  # what stands before the lines of rank 3
    shell: str
    file: Path


@dataclass
class Found:
    """What a file holds of the ranks' lines."""

    lines: int = 0
    torn: int = 0
    disordered: int = 0


def sides(bench: Hosts, ranks: int, lines: int, how: str) -> list[Side]:
    from ipexctl.base import quoting

    ppn = ranks // len(bench.lab.hosts)
    script = bench.put("lines.py", SCRIPT)
    words = (
        f"-prepend-rank {bench.prefix}/bin/python {HOME}/lines.py {lines} {how} > {HOME}/all.log"
    )
    peer = bench.typed(bench.mpirun(ranks, ppn, words))
    ours = bench.ipexctl(ranks, ppn, "--ui", "plain", script.name, str(lines), how)
    here = bench.work / "all.log"
    there = bench.lab.hosts["node01"].files / "all.log"
    return [
        Side("mpirun -prepend-rank > file", "[3] ", quoting.quote(peer), there),
        Side("ipexctl run, piped", "r03 | ", f"{quoting.quote(ours)} | cat > {here}", here),
    ]


def seconds(side: Side, cwd: Path) -> float:
    began = time.monotonic()
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", side.shell], cwd=cwd, env=environment(),
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{side.name} ended with {done.returncode}\n{done.stderr[-3000:]}")
    return time.monotonic() - began


def look(side: Side, ranks: int) -> Found:
    """Every line of the file, whatever is in it."""
    found, following = Found(), [0] * ranks
    starts = [side.began.replace("3", str(r)).encode() for r in range(ranks)]
    with side.file.open("rb") as file:
        for line in file:
            at = line.find(b"rank ")
            rank = int(line[at + 5 : at + 7]) if line[at + 5 : at + 7].isdigit() else -1
            number = line[at + 13 : at + 20]
            whole = b"rank %02d line %s loss 0.123456\n" % (rank, number)
            known = 0 <= rank < ranks and number.isdigit() and line[at:] == whole
            if not (known and line[:at].endswith(starts[rank])):
                found.torn += 1
                continue
            found.lines += 1
            found.disordered += int(number) != following[rank]
            following[rank] = int(number) + 1
    return found


def measure(bench: Hosts, ranks: int, lines: int, rounds: int, how: str) -> None:
    taken: dict[str, list[float]] = {}
    seen: dict[str, Found] = {}
    for _ in range(rounds):
        for short, full in zip(*(sides(bench, ranks, n, how) for n in (1, lines)), strict=True):
            launch = seconds(short, bench.work)
            taken.setdefault(full.name, []).append(seconds(full, bench.work) - launch)
            seen[full.name] = found = look(full, ranks)
            print(full.name, f"launch {launch:.2f}", taken[full.name], found, load(),
                  file=sys.stderr, flush=True)  # fmt: skip
            if "ipexctl" in full.name and found != Found(ranks * lines):
                raise SystemExit(f"ipexctl lost or tore lines: {found}")
    print(table(taken, seen, ranks * lines))


def table(taken: dict[str, list[float]], seen: dict[str, Found], lines: int) -> str:
    base = median(next(iter(taken.values())))
    rows: Sequence[str] = [
        f"| {name} | {(s := median(times)):.1f} | {lines / s / 1000:,.0f} | {s / base:.2f} "
        f"| {s - base:+.1f} | {seen[name].torn} | {lines - seen[name].lines} |"
        for name, times in taken.items()
    ]
    head = "| tool | s less launch | 1000 lines/s | ratio | difference s | torn | missing |"
    return "\n".join([head, "|---|---|---|---|---|---|---|", *rows])


def main() -> None:
    args = options(__doc__, hosts=4, ranks=8, lines=1_000_000, rounds=3, how="blocks")
    with hosts(args.hosts, args.prefix) as bench:
        measure(bench, args.ranks, args.lines, args.rounds, args.how)
    print(f"\n{args.ranks} ranks on {args.hosts} hosts, {args.lines} lines each; {load()}")


if __name__ == "__main__":
    main()
