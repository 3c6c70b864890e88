"""The live screen in real terminals (tmux): sizes, colours, and how it is left behind.

Every line that a terminal shows must be one that some rank has printed, folded, or one of ours; the
files have every line; afterwards the terminal is as it was.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.run.test_ps_local import Here

pytestmark = [
    pytest.mark.skipif(not shutil.which("tmux"), reason="there is no tmux on this machine"),
    pytest.mark.timeout(1800),
]
TRAIN = """\
import os, sys, time, torch
rank, steps, pause = int(os.environ["RANK"]), int(sys.argv[1]), float(sys.argv[2])
for step in range(1, steps + 1):
    word = "\\x1b[32mstep\\x1b[0m"
    print(f"{word} {step}/{steps} loss {1 / step + rank / 100:.4f} " + "x" * 60, flush=True)
    sys.stderr.write(f"\\r{100 * step // steps:3d}%|##  | {step}/{steps} [00:01<00:09, 5.00it/s]")
    time.sleep(pause)
if len(sys.argv) > 3 and rank == 1:
    raise ValueError("bad batch")
"""
LINE = re.compile(
    r"(?:all|localhost)\s+(?:x\d+|r\d+)\s*\| |r[\d,-]+(?:,\.\.)?\s+x\d+\s*\| |\.\.\. |run |sent |"
    r"  |preflight|note|done|$| \d+ (?:s|min) "
)
DONE = "the-end-of-it"


class Tmux:
    def __init__(self, name: str, here: Here, columns: int, rows: int) -> None:
        self.base, self.here = ["tmux", "-L", name], here
        size = ["-x", str(columns), "-y", str(rows)]
        self.call("-f", "/dev/null", "new-session", "-d", *size, "env", "-i", "TERM=screen", "sh")

    def call(self, *words: str) -> str:
        return subprocess.run(
            [*self.base, *words], capture_output=True, text=True, check=True, timeout=30
        ).stdout

    def type(self, line: str) -> None:
        self.call("send-keys", "-l", line)
        self.call("send-keys", "Enter")

    def ipexctl(self, *words: str, **env: str) -> None:
        pairs = " ".join(f"{k}='{v}'" for k, v in {**self.here.env, **env}.items())
        argv = " ".join(f"'{word}'" for word in self.here.argv(*words))
        self.type(f"cd {self.here.code}; clear; env {pairs} {argv}; echo {DONE[:7]}{DONE[7:]}-$?")

    def screen(self, *words: str) -> str:
        return self.call("capture-pane", "-p", *words)

    def until(self, holds: Callable[[str], object], seconds: float = 90.0) -> str:
        deadline = time.monotonic() + seconds
        while not holds(shown := self.screen("-S", "-")):
            assert time.monotonic() < deadline, shown
            time.sleep(0.2)
        return shown

    def is_as_before(self) -> None:
        """Cursor shown, no alternate screen, no colour left on; what is typed is echoed."""
        state = self.call("display-message", "-p", "#{cursor_flag} #{alternate_on}").split()
        assert state == ["1", "0"]
        self.type("echo typed; clear; echo pl''ain")
        self.until(lambda shown: "plain" in shown)  # printed: what is typed has quotes in it
        coloured = self.screen("-e")
        assert "\x1b[" not in coloured.replace("\x1b[39m", "").replace("\x1b[0m", ""), coloured


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Callable[..., Tmux]]:
    made: list[Tmux] = []

    def make(columns: int, rows: int = 24) -> Tmux:
        here = Here(tmp_path)
        (here.code / "train.py").write_text(TRAIN)
        made.append(Tmux(f"matrix-{tmp_path.name}", here, columns, rows))
        return made[-1]

    yield make
    for one in made:
        subprocess.run([*one.base, "kill-server"], check=False, capture_output=True)


def logged(here: Here) -> dict[str, list[str]]:
    """Log of each rank of the last run -> its lines."""
    files = sorted((here.code / ".ipexctl/runs").glob("*/logs/rank*"))
    return {path.name: path.read_text().splitlines() for path in files}


def ended(code: int) -> Callable[[str], object]:
    return lambda shown: f"{DONE}-{code}" in shown


@pytest.mark.parametrize(
    ("columns", "env"),
    [
        (80, {}), (300, {"NO_COLOR": "1"}), (120, {"TERM": "dumb"}),
        *(pytest.param(*more, marks=pytest.mark.soak) for more in (
            (80, {"NO_COLOR": "1"}), (80, {"TERM": "dumb"}), (120, {}), (200, {}), (300, {}),
            (80, {"TERM": "xterm-256color", "COLORFGBG": "15;0"}),
            (80, {"TERM": "xterm-256color", "COLORFGBG": "0;15"}),
        )),
    ],
)  # fmt: skip
def test_nothing_is_torn_and_nothing_stays(terminal, columns: int, env: dict[str, str]):
    tmux = terminal(columns)
    tmux.ipexctl("run", "-n", "8", "--force", "train.py", "20", "0.1", **{"TERM": "screen", **env})
    shown = tmux.until(ended(0))
    lines = shown[shown.index("run ") :].splitlines()
    wrapped = 0 if columns > 100 else 1  # the ranks' lines are longer than 80 columns
    unknown = [line for line in lines if not LINE.match(line) and DONE not in line]
    unknown = [line for line in unknown if not (wrapped and re.fullmatch(r"x+", line))]
    assert not [line for line in unknown if "step" in line or "%|" in line], shown
    for rank_lines in logged(tmux.here).values():
        assert sum("step" in line for line in rank_lines) == 20
    if "NO_COLOR" in env or env.get("TERM") == "dumb":
        coloured = tmux.screen("-e", "-S", "-").replace("\x1b[39m", "").replace("\x1b[0m", "")
        assert "\x1b[3" not in coloured
    tmux.is_as_before()


def test_a_terminal_that_is_resized(terminal):
    tmux = terminal(120)
    tmux.ipexctl("run", "-n", "4", "--force", "train.py", "40", "0.1", TERM="screen")
    tmux.until(lambda shown: "step 5/40" in shown)
    for columns in (70, 200, 90):
        tmux.call("resize-window", "-x", str(columns), "-y", "30")
        time.sleep(0.7)
    shown = tmux.until(ended(0))
    assert "step 40/40" in shown
    tmux.is_as_before()


@pytest.mark.parametrize("signal", ["C-c", "TERM", "HUP"])
def test_the_terminal_is_given_back(terminal, signal: str):
    tmux = terminal(100)
    tmux.ipexctl("run", "-n", "2", "--force", "train.py", "900", "0.1", TERM="screen")
    tmux.until(lambda shown: "step 5/900" in shown)
    if signal == "C-c":
        tmux.call("send-keys", "C-c")
    else:
        found = subprocess.run(
            ["pgrep", "-f", f"{sys.executable} -m ipexctl run -n 2 --force train.py 900"],
            capture_output=True, text=True, check=True,
        ).stdout.split()  # fmt: skip
        mine = [pid for pid in found if str(tmux.here.code) == cwd_of(pid)]
        assert len(mine) == 1, (found, mine)
        subprocess.run(["kill", f"-{signal}", *mine], check=True)
    tmux.until(lambda shown: re.search(rf"{DONE}-\d", shown))
    tmux.is_as_before()
    tmux.here.call("stop", "@last", "-t", "0")


def cwd_of(pid: str) -> str:
    try:
        return str(Path(f"/proc/{pid}/cwd").resolve())
    except OSError:
        return ""


def test_a_failure_fits_on_a_screen(terminal):
    tmux = terminal(100, 26)
    tmux.ipexctl("run", "-n", "8", "--force", "train.py", "10", "0.1", "fail", TERM="screen")
    tmux.until(ended(1))
    shown = tmux.screen()
    assert "failed: rank 1 on localhost " in shown
    assert "ValueError: bad batch" in shown and "exit code 1: rank 1 " in shown


@pytest.mark.soak
def test_two_hundred_ranks(terminal):
    tmux = terminal(120)
    tmux.ipexctl("run", "-n", "200", "--force", "train.py", "5", "1.0", TERM="screen")
    shown = tmux.until(ended(0), 250)
    folded = re.findall(r"^\S+ +x(\d+) +\| step 5/5 ", shown, re.MULTILINE)
    alone = re.findall(r"^\S+ +r\d+ +\| step 5/5 ", shown, re.MULTILINE)
    assert sum(map(int, folded)) + len(alone) == 200
    assert [sum("step" in line for line in lines) for lines in logged(tmux.here).values()] == [
        5
    ] * 200
    tmux.is_as_before()
