"""A file through `ipexctl shell HOST -- COMMAND`, both ways, beside plain ssh.

    python benchmarks/shell.py [--megabytes 200] [--rounds 5]

Needs root (for the lab). up: the file is the stdin of `cat > copy`. down: the
command is `cat copy`, and its stdout is a file here. Both sides have their defaults, so plain ssh
and ipexctl choose their own ciphers. Files are in memory. Times are of the complete command, from
its start to its exit; the rate is megabytes by that time. SHA-256 of every copy is compared.
Rounds take turns; the median is shown. The host and this side share this machine's CPUs.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import bytecode

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from ipexctl.lab import HostSpec, Lab, LabSpec  # noqa: E402

TOOLS = ("ssh", "ipexctl", "ipexctl openssh")
LINKS = {"1 Gbit/s": "1gbit", "unlimited": ""}


def main() -> None:
    args = _arguments()
    bytecode.make()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as scratch:
        source = Path(scratch, "source")
        source.write_bytes(os.urandom(args.megabytes * 10**6))
        for words, rate in LINKS.items():
            host = HostSpec(rate=rate)
            lab = Lab.up(LabSpec(name="shellbench", hosts=(host,)).checked(), owner=os.getpid())
            try:
                times = _compare(lab, source, args.rounds)
            finally:
                lab.down()
            _show(words, times, args.megabytes)


def _compare(lab: Lab, source: Path, rounds: int) -> dict[tuple[str, str], list[float]]:
    times: dict[tuple[str, str], list[float]] = {}
    wanted = hashlib.sha256(source.read_bytes()).digest()
    copy = source.with_name("copy")
    for number in range(rounds):
        for tool in TOOLS[:: 1 if number % 2 else -1]:
            for way in ("start", "up", "down"):
                took = _run(lab, tool, way, source, copy)
                times.setdefault((tool, way), []).append(took)
            assert hashlib.sha256(copy.read_bytes()).digest() == wanted, tool
            copy.unlink()
    return times


def _run(lab: Lab, tool: str, way: str, source: Path, copy: Path) -> float:
    line = {"start": "true", "up": "cat > /dev/shm/copy", "down": "cat /dev/shm/copy"}[way]
    with source.open("rb") as given, copy.open("wb") as taken, Path(os.devnull).open() as nothing:
        began = time.monotonic()
        subprocess.run(
            _argv(lab, tool, line),
            stdin=given if way == "up" else nothing,
            stdout=taken,
            stderr=subprocess.DEVNULL,
            check=True,
            cwd=HERE.parent,
        )
        return time.monotonic() - began


def _argv(lab: Lab, tool: str, line: str) -> list[str]:
    if tool == "ssh":
        return ["ssh", "-F", str(lab.ssh_config), "node01", line]
    hosts = ["-f", str(lab.hostfile), "-F", str(lab.ssh_config)]
    transport = ["--transport", "openssh"] if "openssh" in tool else []
    argv = [sys.executable, "-m", "ipexctl", "shell", "node01", *hosts, *transport]
    return [*argv, "--", "sh", "-c", line]


def _show(link: str, times: dict[tuple[str, str], list[float]], megabytes: int) -> None:
    print(f"\n{link}, {megabytes} MB, median of {len(times['ssh', 'up'])}\n")
    print("| tool | start s | up MB/s | of ssh | down MB/s | of ssh |")
    print("|---|---|---|---|---|---|")
    middle = {key: statistics.median(values) for key, values in times.items()}
    for tool in TOOLS:
        found = [f"{middle[tool, 'start']:.2f}"]
        for way in ("up", "down"):
            rate, ratio = megabytes / middle[tool, way], middle["ssh", way] / middle[tool, way]
            found += [f"{rate:.0f}", f"{ratio:.2f}"]
        print(f"| {tool} | {' | '.join(found)} |")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    return parser.parse_args()


if __name__ == "__main__":
    main()
