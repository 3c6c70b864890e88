#!/usr/bin/env python3
"""Records docs/images: real terminal sessions on a practice lab of three hosts, and a page.

    python tools/make_recordings.py             # all of them
    python tools/make_recordings.py run-failed play

The page needs Chromium. A session takes at most 20 seconds, and ends with its command in sight.

Each session is typed into a bash in a terminal of its own. A picture of a success that
shows a failure is not written, and the exit status is 1. The lab is taken down however this ends.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import random
import re
import select
import shutil
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import record_svg  # noqa: E402  beside this file

from ipexctl.lab import HostSpec, Lab, LabSpec  # noqa: E402
from tests.simulated_cpu import cpu  # noqa: E402

IMAGES = ROOT / "docs" / "images"
LAB = "recordings"
PAGE = "report"
PROMPT = b"$ "
LONGEST = 600.0  # seconds for a command
TRAIN = """\
import argparse, os, time
import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=40)
parser.add_argument("--fail-at", type=int, default=-1)
parser.add_argument("--slow-rank", type=int, default=-1)
parser.add_argument("--hang-at", type=int, default=-1)
args = parser.parse_args()
torch.set_num_threads(1)


def batch(size, number, rank):
    if number == args.hang_at and rank == 4:
        os.mkfifo("labels")
        open("labels").read()
    x = torch.randn(size, 16)
    return x, x.sum(1, keepdim=True).tanh()


def step(model, optimizer, number, rank):
    x, y = batch(32, number, rank)
    if number == args.fail_at:
        y = y[:7] if rank == 5 else y
        time.sleep(0 if rank == 5 else 5)  # so that the others do not wait for it in a collective
    loss = (model(x) - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for number in range(1, args.steps + 1):
        until = time.monotonic() + 0.5
        while rank == args.slow_rank and time.monotonic() < until:
            torch.randn(100, 100) @ torch.randn(100, 100)
        time.sleep(0.15 if args.slow_rank < 0 else 0.01)
        loss = step(model, optimizer, number, rank)
        print(f"step {number}/{args.steps} loss {loss:.4f}", flush=True)
    dist.destroy_process_group()


main()
"""
BARS = """\
import time
import torch.distributed as dist
from tqdm import tqdm

dist.init_process_group("gloo")
for epoch in range(2):
    for step in (bar := tqdm(range(60), desc=f"epoch {epoch + 1}")):
        time.sleep(0.1)
        dist.barrier()
        bar.set_postfix(loss=2.0 / (step + 60 * epoch + 1))
dist.destroy_process_group()
"""
PLAY = """\
steps:
  - name: Limits for training
    file: {path: ~/.train.conf, content: "memlock unlimited\\n"}
  - name: Train
    run: {script: train.py, ppn: 2, args: ["--steps", "${steps}"]}
  - name: Report
    sh: echo ${host} is done
    on: node01
vars: {steps: "15"}
"""


@dataclass(frozen=True)
class Session:
    """`lines`: what is typed; ("^\\\\", 3) is a key that is pressed after so many seconds."""

    title: str
    lines: tuple[str | tuple[str, float | str], ...]
    size: tuple[int, int] = (100, 28)
    begin: str = "$ ipexctl"
    shows: str = ""  # what the picture is about
    fails: bool = False

    def flaws(self, rows: list[str]) -> list[str]:
        """Return what is missing, and the rows with a failure where the session has none."""
        flaws = [] if any(self.shows in row for row in rows) else [f"not seen: {self.shows}"]
        return flaws + [row for row in rows if _FAILURE.search(row) and not self.fails]


_FAILURE = re.compile(
    r"(?i)\bfail(s|ed|ure)?\b(?!=0)|exit code [1-9]|traceback|\w*error\b|abort|\blost\b"
)
SESSIONS = {
    "doctor": Session("ipexctl doctor", ("ipexctl doctor",), (100, 26)),
    "install": Session("ipexctl install", ("ipexctl install", ("y\n", "[Y/n] ")), (100, 24)),
    "run": Session(
        "ipexctl run: six ranks on three hosts", ("ipexctl run -n 6 train.py --steps 10",)
    ),
    "run-failed": Session(
        "ipexctl run: a rank fails", ("ipexctl run -n 6 train.py --fail-at 4",), (100, 40),
        shows="rank 5 failed", fails=True,
    ),
    "run-slow": Session(
        "ipexctl run: a slow rank",
        ("ipexctl run -n 6 train.py --slow-rank 4 --steps 60",),
        shows="slow: rank 4",
    ),
    "run-tqdm": Session(
        "ipexctl run: progress bars of tqdm",
        ("ipexctl install -r requirements.txt -y", "clear", "ipexctl run -n 6 bars.py"),
        (100, 20),
        "ipexctl run",
    ),
    "run-32": Session(
        "ipexctl run: 32 ranks on three hosts",
        ("ipexctl run -n 32 --force train.py --steps 15",),
        (100, 28),
    ),
    "detached": Session(
        "A run without its terminal",
        (
            "ipexctl run -d --name bert -n 6 train.py --steps 200", "ipexctl ps",
            "ipexctl attach bert", ("\x1c", 15.0), "ipexctl metrics bert", "ipexctl stop bert",
        ),
    ),
    "why": Session(
        "ipexctl run and ipexctl why: a rank hangs",
        (
            "ipexctl run --stall 15 -n 6 train.py --hang-at 9", ("\x1c", 75.0), "clear",
            "ipexctl why", "ipexctl stop @last",
        ),
        shows="rank 4 (node03)  train.py",
    ),
    "play": Session(
        "ipexctl play",
        ("cat train.yaml", "ipexctl play train.yaml --check", "ipexctl play train.yaml"),
    ),
}  # fmt: skip


class Terminal:
    """A bash in a terminal, and all that it printed with its times."""

    def __init__(self, folder: Path, home: Path, size: tuple[int, int]) -> None:
        self.master, theirs = pty.openpty()
        columns, rows = size
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        bin_folder = Path(sys.executable).parent
        env = {
            "PATH": f"{bin_folder}:{os.environ['PATH']}", "HOME": str(home),
            "TERM": "xterm-256color",
            "PYTHONPATH": str(ROOT), "LANG": "C.UTF-8", "PS1": "$ ",
            "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache"),
            **{key: value for key, value in os.environ.items() if key.startswith("PIP_")},
        }  # fmt: skip
        self.process = subprocess.Popen(
            ["bash", "--norc", "--noprofile"], cwd=folder, env=env, start_new_session=True,
            stdin=theirs, stdout=theirs, stderr=theirs,
        )  # fmt: skip
        os.close(theirs)
        self.said, self.timing = b"", ""
        self._last = time.monotonic()

    def read(self, seconds: float, until: bytes = b"") -> None:
        """For so long, or until this is the end of the output."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if not select.select([self.master], [], [], min(left, 0.3))[0]:
                if until and self.said.endswith(until):
                    return
                continue
            data = os.read(self.master, 1 << 16)
            now = time.monotonic()
            self.timing += f"{now - self._last:.3f} {len(data)}\n"
            self.said += data
            self._last = now

    def type(self, text: str) -> None:
        for char in text:
            os.write(self.master, char.encode())
            self.read(0.03)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.master)


def recorded(session: Session, folder: Path, home: Path) -> str:
    terminal = Terminal(folder, home, session.size)
    try:
        terminal.read(LONGEST, PROMPT)
        for index, line in enumerate(session.lines):
            if isinstance(line, tuple):
                if isinstance(line[1], str):
                    terminal.read(LONGEST, line[1].encode())
                else:
                    terminal.read(line[1])
                os.write(terminal.master, line[0].encode())
            else:
                terminal.type(line + "\n")
            following = session.lines[index + 1 : index + 2]
            if not (following and isinstance(following[0], tuple)):
                terminal.read(LONGEST, PROMPT)
    finally:
        terminal.close()
    seen = record_svg.pictures(b"\n" + terminal.said, terminal.timing, session.size)
    drawn = record_svg.svg(record_svg.paced(seen, session.begin, 1.5), session.title)
    return drawn.replace(str(home), "~").replace(f"labs/{LAB}", "labs/lab")


def keep(name: str, drawing: str) -> bool:
    """Write the picture, unless it shows what its session is not about."""
    if flaws := SESSIONS[name].flaws(record_svg.shown_rows(drawing)):
        print(f"docs/images/{name}.svg: not written:", *flaws, sep="\n    ", flush=True)
        return False
    (IMAGES / f"{name}.svg").write_text(drawing)
    print(f"docs/images/{name}.svg", flush=True)
    return True


def photograph(folder: Path, home: Path) -> bool:
    """Take a picture of the page of a run."""
    if not (browser := shutil.which("chromium") or shutil.which("google-chrome")):
        print("docs/images/report.png: not made: no Chromium here", flush=True)
        return False
    prepare("run -n 6 --name bert train.py --steps 150", folder, home)
    page = home / "report.html"
    prepare(f"report bert -o {page}", folder, home)
    words = ["--headless", "--no-sandbox", "--hide-scrollbars", "--window-size=1280,980"]
    picture = IMAGES / "report.png"
    subprocess.run(
        [browser, *words, f"--screenshot={picture}", page.as_uri()],
        env={**os.environ, "HOME": str(home)}, stderr=subprocess.DEVNULL, timeout=120, check=True,
    )  # fmt: skip
    print(picture.relative_to(ROOT), flush=True)
    return True


@contextmanager
def project() -> Iterator[tuple[Path, Path]]:
    """A folder with the example, in a home of its own, whose name is as long as /home/ann."""
    home = Path("/tmp") / "".join(random.choices("abcdefghij", k=4))
    home.mkdir(mode=0o700)
    try:
        folder = home / "mnist"
        folder.mkdir()
        shutil.copy(ROOT / "examples" / "train_ddp.py", folder)
        yield home, folder
    finally:
        shutil.rmtree(home)


def prepare(line: str, folder: Path, home: Path) -> None:
    env = {
        "PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(ROOT), "LANG": "C.UTF-8",
        "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", ""),
        **{key: value for key, value in os.environ.items() if key.startswith("PIP_")},
    }  # fmt: skip
    words = [sys.executable, "-m", "ipexctl", *line.split()]
    subprocess.run(words, cwd=folder, env=env, stdin=subprocess.DEVNULL, timeout=600, check=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help=f"of {', '.join([*SESSIONS, PAGE])}")
    names = parser.parse_args().names or [*SESSIONS, PAGE]
    lab = [sys.executable, "-m", "ipexctl", "lab"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    flawed = False
    with project() as (home, folder):
        (folder / "train.py").write_text(TRAIN)
        (folder / "train.yaml").write_text(PLAY)
        (folder / "bars.py").write_text(BARS)
        (folder / "requirements.txt").write_text("tqdm\n")
        try:
            hosts = tuple(HostSpec(covers=cpu(isa)) for isa in ("amx", "amx", "avx512"))
            Lab.up(LabSpec(LAB, hosts), owner=os.getpid())
            state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state")
            shutil.copy(state / "ipexctl" / "labs" / LAB / "ssh_config", folder)
            prepare("init -F ssh_config node01 node02 node03 --yes", folder, home)
            if "install" not in names:
                prepare("install --yes", folder, home)
            for name in names:
                flawed |= not (
                    photograph(folder, home)
                    if name == PAGE
                    else keep(name, recorded(SESSIONS[name], folder, home))
                )
        finally:
            subprocess.run([*lab, "down", "--name", LAB], env=env, stdout=subprocess.DEVNULL)
    return int(flawed)


if __name__ == "__main__":
    sys.exit(main())
