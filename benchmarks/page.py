"""Runs the benchmarks and writes their tables into docs/benchmarks.md, with commit and date.

    python benchmarks/page.py [--only launch,sync] [--tools DIR] [--prefix ENV]

Needs root (for the labs) and a quiet machine. DIR is the `bin` of an environment with ansible-core
and pyinfra, ENV one with torch and impi-rt that every account can read; what is missing of them is
made below /opt. A part whose benchmark did not run keeps its table, which says when it was made.
"""

from __future__ import annotations

import argparse
import datetime
import os
import re
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "benchmarks.md"
TOOLS, PREFIX = Path("/opt/ipexctl-bench-tools/bin"), Path("/opt/ipexctl-bench-env")
# name on the page -> the command
BENCHES = {
    "doctor": ("fanout.py", "--tools", "{tools}"),
    "doctor-3": (
        "fanout.py", "--hosts", "3", "--rounds", "7", "--only", "ipexctl doctor,threaded paramiko",
    ),
    "doctor-200": (
        "fanout.py", "--tools", "{tools}", "--hosts", "200", "--rounds", "3",
        "--only", "ipexctl doctor,paramiko same imports",
    ),
    "away": ("latency_proxy.py",),
    "launch": ("run_launch.py", "--prefix", "{prefix}", "--rounds", "7"),
    "edit": (
        "run_launch.py", "--prefix", "{prefix}", "--hosts", "4", "--rounds", "7", "--edit", "200",
    ),
    "questions": ("run_questions.py", "--prefix", "{prefix}"),
    "logs": ("run_logs.py", "--prefix", "{prefix}"),
    "steps": ("run_steps.py", "--prefix", "{prefix}"),
    "sync": ("sync.py",),
    "shell": ("shell.py",),
    "start": ("startup.py",),
    "install": ("install.py", "--tools", "{tools}", "--only", "install,uv", "--rounds", "3"),
    "plays": ("plays.py", "--tools", "{tools}"),
}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="comma list of parts of the page")
    parser.add_argument("--tools", type=Path, default=TOOLS)
    parser.add_argument("--prefix", type=Path, default=PREFIX)
    args = parser.parse_args()
    make(args.tools.parent, "ansible-core", "pyinfra", "uv")
    make(args.prefix, "torch", "numpy", "impi-rt<2021.19")
    failed = []
    for name, words in BENCHES.items():
        if args.only and name not in args.only.split(","):
            continue
        script, *rest = (word.format(tools=args.tools, prefix=args.prefix) for word in words)
        print(f"{name}: {script} {' '.join(rest)}", flush=True)
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, HERE / script, *rest], capture_output=True, text=True
        )
        if done.returncode:
            failed.append(name)
            print(f"{name} ended with {done.returncode}\n{done.stderr[-3000:]}", file=sys.stderr)
            continue
        put(name, done.stdout.strip())
        print(f"{done.stdout}\n{name}: {time.monotonic() - began:.0f} s", flush=True)
    return len(failed)


def make(env: Path, *packages: str) -> None:
    if not env.exists():
        subprocess.run(["/usr/bin/python3", "-m", "venv", env], check=True)
        subprocess.run([env / "bin/pip", "install", "-q", *packages], check=True)


def put(name: str, text: str) -> None:
    """Between the two marks of that name."""
    page = PAGE.read_text("utf-8")
    commit = git("rev-parse", "--short=8", "HEAD")
    changed = " and changes" if git("status", "--porcelain", "--", "ipexctl") else ""
    body = text if "|--" in text else f"```text\n{text}\n```"
    about = f"Commit {commit}{changed}, {datetime.date.today()}, {os.cpu_count()} CPUs."
    marked = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    new, count = marked.subn(lambda m: f"{m[1]}\n{body}\n\n{about}\n\n{m[2]}", page)
    if count != 1:
        raise SystemExit(f"{PAGE} has no place for {name}")
    PAGE.write_text(new, "utf-8")


def git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=HERE, capture_output=True, text=True, check=True)
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
