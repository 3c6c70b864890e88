#!/usr/bin/env python3
"""Writes docs/screens.md: the first screen of every command, as a terminal of 80 x 24 shows it.

    python tools/make_screens.py                # all of it, with a practice lab of two hosts
    python tools/make_screens.py --no-hosts     # only what needs no hosts; the rest is kept

Times, folders of this machine, addresses, run IDs and other names that differ from run to run
are replaced by stable ones. The lab is taken down however this ends.
"""

from __future__ import annotations

import argparse
import fcntl
import getpass
import os
import platform
import pty
import random
import re
import shlex
import shutil
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import record_svg  # noqa: E402  beside this file

from ipexctl.cli.help.help_examples import EXAMPLES  # noqa: E402

PAGE = ROOT / "docs" / "screens.md"
COLUMNS, ROWS = 80, 24
HOME = "/home/ann"
MOST = 1000  # lines of output that are kept
HEAD = """\
# Screens

The first screen of every command in a terminal of 80 columns and 24 lines. Written by
`python tools/make_screens.py`: real output, with stable names in place of times, addresses and
run IDs. `[...]` stands for the lines that follow.
"""
WITHOUT_HOSTS = (
    "ipexctl stacks",
    "ipexctl stacks --python 3.9 --torch 2.13",
    "ipexctl explain NET-001",
    "ipexctl explain train.log",
    "ipexctl migrate old_train.py",
    "ipexctl migrate mpirun -n 4 -ppn 2 python train.py",
    "ipexctl hosts -f cluster.txt",
    "ipexctl hosts -f cluster.txt --to ansible",
    "ipexctl play prepare-debian --list-steps",
    "ipexctl config --show-origin",
    "ipexctl run -f missing.txt train.py",
    "ipexctl isntall",
)
ON_HOSTS = (
    "ipexctl init -F ssh_config node01 node02 --yes",
    "ipexctl trust",
    "ipexctl doctor",
    "ipexctl doctor -v",
    "ipexctl install --check --diff",
    "ipexctl install --yes",
    "ipexctl env ls",
    "ipexctl run --explain -n 4 train_ddp.py",
    "ipexctl run -n 4 train_ddp.py --epochs 3",
    "ipexctl run -n 4 train_ddp.py --epochs 3 --fail-rank 2",
    "ipexctl run -d --name night -n 4 train_ddp.py --epochs 100000",
    "ipexctl ps",
    "ipexctl logs night -n 2",
    "ipexctl metrics night",
    "ipexctl stop night",
    "ipexctl ps --all",
    "ipexctl fetch night nothing.pt",
    "ipexctl rm night --check",
    "ipexctl rm night --yes",
    "ipexctl data push data",
    "ipexctl data ls",
    "ipexctl play hello.yaml",
    "ipexctl prune --check",
    "ipexctl remove --all --check",
)
WAITS = {"ipexctl ps": 20}  # seconds before it: the run has done some steps then
FILES = {
    "cluster.txt": "node[01-04] slots=2\nann@10.0.0.7:2222\n",
    "train.py": "print('hello')\n",
    "train.log": "epoch 1 loss 0.052\nRuntimeError: DefaultCPUAllocator: can't allocate memory\n",
    "old_train.py": "import torch\nimport intel_extension_for_pytorch as ipex\n"
    "import oneccl_bindings_for_pytorch\n\nmodel, optimizer = build()\n"
    "model, optimizer = ipex.optimize(model, optimizer=optimizer, dtype=torch.bfloat16)\n"
    "torch.distributed.init_process_group(backend='ccl')\n",
    "data/part-0.txt": "some data\n" * 1000,
    "hello.yaml": "name: Say hello\nsteps:\n  - name: Make a folder\n"
    "    file: {path: ~/hello, state: directory}\n  - sh: uname -s\n",
}
# what differs from run to run -> what the page has
STABLE = (
    (r"\b\d{8}-\d{6}-[0-9a-f]{6}\b", "20260101-120000-3f2a91"),
    (r"\b[0-9a-f]{16}\b", "3f2a91c04d5e6b78"),
    (r"(10\.\d+\.\d+\.\d+):\d{5}\b", r"\1:29500"),
    (r"\[W\d{4} \d\d:\d\d:\d\d\.\d+", "[W0101 12:00:00.000000000"),
    (r"\b10\.\d+\.\d+\.(?=[\d\[])", "10.0.0."),
    (r"\bSHA256:[A-Za-z0-9+/]{43}", "SHA256:" + "x" * 43),
    (r"\b20\d\d-\d\d-\d\d\b", "2026-01-01"),
    (r"\b(?:\d+ min )?\d+\.\d s\b", "1.2 s"),
    (r"(?<![\d.])(?:\d+ min )?\d+ s\b", "12 s"),
    (rf"\b{getpass.getuser()}@{platform.node()}\b", "ann@laptop"),
)


def in_terminal(line: str, folder: Path, home: Path) -> list[str]:
    """What is left on the screen when the command has ended; `logs night` is not cut."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    env = {
        "PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(ROOT), "TERM": "xterm",
        "NO_COLOR": "1", "LANG": "C.UTF-8", "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", ""),
        **{key: value for key, value in os.environ.items() if key.startswith("PIP_")},
    }  # fmt: skip
    words = shlex.split(line)[1:]
    process = subprocess.Popen(
        [sys.executable, "-m", "ipexctl", *words],
        cwd=folder, env=env, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    said = b""
    try:
        with suppress(OSError):  # EIO: it has closed its side
            while data := os.read(ours, 1 << 16):
                said += data
        process.wait(600)
    finally:
        os.close(ours)
        process.kill()
    screen = record_svg.Screen(COLUMNS, MOST)
    screen.feed(said.decode("utf-8", "replace"))
    shown = [record_svg.words(row) for row in screen.picture()]
    while shown and not shown[-1]:
        shown.pop()
    return shown


def block(line: str, shown: list[str], stable: tuple[tuple[str, str], ...]) -> str:
    text = "\n".join(shown)
    for pattern, name in (*stable, *STABLE):
        text = re.sub(pattern, name, text)
    lines = text.splitlines()
    if len(lines) > ROWS - 1:  # the prompt takes the last one
        is_run = line.startswith("ipexctl run -n")  # what is seen of it is its end
        lines = ["[...]", *lines[2 - ROWS :]] if is_run else [*lines[: ROWS - 2], "[...]"]
    return "\n".join([f"### `{line}`", "", "```text", *lines, "```", ""])


def helps(home: Path) -> str:
    lines = ["ipexctl", *(f"ipexctl {path} --help".replace("  ", " ") for path in EXAMPLES)]
    blocks = [block(line, in_terminal(line, home, home), ()) for line in lines]
    return "\n".join(["## Help", "", *blocks])


@contextmanager
def short_home() -> Iterator[Path]:
    """Its name is as long as the one it gets in the page, so that lines break at the same place."""
    home = Path("/tmp") / "".join(random.choices("abcdefghij", k=len(HOME) - len("/tmp/")))
    home.mkdir(mode=0o700)
    try:
        yield home
    finally:
        shutil.rmtree(home)


@contextmanager
def project() -> Iterator[tuple[Path, Path]]:
    """A folder with the sample files, in a home of its own."""
    with short_home() as home:
        folder = home / "mnist"
        for name, text in FILES.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        example = (ROOT / "examples" / "train_ddp.py").read_text("utf-8")
        (folder / "train_ddp.py").write_text(example, "utf-8")
        yield home, folder


def without_hosts(home: Path, folder: Path) -> str:
    stable = ((re.escape(str(home)), HOME),)
    blocks = [block(line, in_terminal(line, folder, home), stable) for line in WITHOUT_HOSTS]
    return "\n".join(["## Without hosts", "", *blocks])


def on_hosts(home: Path, folder: Path, lab: str) -> str:
    own = (
        (re.escape(str(home)), HOME),
        (re.escape(str(Path.home())), HOME),
        (rf"\blabs/{lab}\b", "labs/lab"),
        (r"\b\d+(?:\.\d+)? ms\b", "10 ms"),
    )
    up = [sys.executable, "-m", "ipexctl", "lab"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state")
    try:
        started = [
            *up,
            "up",
            "-n",
            "2",
            "--name",
            lab,
            "--isa",
            "amx,amx",
            "--owner",
            str(os.getpid()),
        ]
        subprocess.run(started, env=env, check=True, stdout=subprocess.DEVNULL)
        shutil.copy(state / "ipexctl" / "labs" / lab / "ssh_config", folder)
        blocks = []
        for line in ON_HOSTS:
            time.sleep(WAITS.get(line, 0))
            blocks.append(block(line, in_terminal(line, folder, home), own))
    finally:
        subprocess.run([*up, "down", "--name", lab], env=env, stdout=subprocess.DEVNULL)
    return "\n".join(["## On two practice hosts", "", *blocks])


def parts(page: str) -> dict[str, str]:
    """Heading -> section."""
    return {
        text.partition("\n")[0]: f"## {text.strip()}\n" for text in re.split(r"(?m)^## ", page)[1:]
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--no-hosts", action="store_true", help="Keep the part with hosts.")
    parser.add_argument("--lab", default="screens", metavar="NAME", help="Name of the lab.")
    asked = parser.parse_args()
    with project() as (home, folder):
        made = [helps(home).strip() + "\n", without_hosts(home, folder).strip() + "\n"]
        if asked.no_hosts:
            made.append(parts(PAGE.read_text("utf-8")).get("On two practice hosts", ""))
        else:
            made.append(on_hosts(home, folder, asked.lab).strip() + "\n")
    PAGE.write_text("\n".join([HEAD, *(part for part in made if part)]), "utf-8")


if __name__ == "__main__":
    main()
