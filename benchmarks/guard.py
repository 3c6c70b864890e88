"""Is anything slower than it was? This tree beside a baseline, in turns, on practice hosts.

    python benchmarks/guard.py [--only launch-whole,ps] [--rounds 5]

Needs root (for the lab). The baseline is the commit of baseline.toml; both sides use the same
Python and packages. A row's ratio is this tree's median by the baseline's. One above LIMIT, for CPU
above CPU_LIMIT, is measured again with more rounds. It is slower if its median and its fastest
round then are both above, and if this tree lost as many rounds as chance brings once in a hundred
times. It fails if it is slower again at the end, on new hosts. A machine that is busy makes both
sides slow, so no absolute time counts.

Hosts and projects are in memory where there is a /dev/shm: real hosts have a file system each, and
four that make 200 files each in one ext4 wait for each other for 40 times as long as it takes one.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT))

from ipexctl.base import toml  # noqa: E402
from ipexctl.errors import NotHere  # noqa: E402
from ipexctl.lab import Lab, LabSpec  # noqa: E402
from ipexctl.lab.cluster.machine_support import choose_rung  # noqa: E402
from ipexctl.lab.cluster.rung_limits import FULL  # noqa: E402
from ipexctl.packages.uv import find_uv  # noqa: E402
from tests.install import over_ssh  # noqa: E402
from tests.install.conftest import Shop  # noqa: E402

LIMIT, CPU_LIMIT = 1.10, 1.05
CHANCE = 0.01  # that so many rounds are lost by a tree that is as fast as the other
MORE = 5  # times as many rounds of a row that is in doubt
FLAT = 64
SMALL = {
    "help", "doctor-3", "launch", "edit", "same-2000", "edit-2000", "logs", "install", "ps",
}  # fmt: skip
FLAT_ROWS = {"doctor-64", "play-64"}
LARGE_PROJECT = "large"  # folder of a project of its own, with 2,000 files
PLAY = """\
steps:
  - file: {path: '~/guard/${host}', state: directory}
  - line: {path: '~/guard/${host}/c', line: 'value 1', create: true}
  - copy: {src: payload, dest: '~/guard/${host}/x'}
  - sh: {cmd: 'touch ~/guard/${host}/s', creates: '~/guard/${host}/s'}
"""


@dataclass(frozen=True)
class Side:
    """A tree, with a project in `home`, and beside it a cache of its own: that is never sent."""

    name: str
    tree: Path
    home: Path

    @property
    def env(self) -> dict[str, str]:
        places = {f"XDG_{name}_HOME": f"{self.home}-{name}" for name in ("CACHE", "STATE")}
        return {**os.environ, **places, "PYTHONPATH": str(self.tree)}

    @property
    def errors(self) -> Path:
        return Path(f"{self.home}-errors")

    def run(
        self, words: tuple[str, ...], first: str = "", env: Mapping[str, str] | None = None,
        folder: str = ".",
    ) -> dict[str, float]:  # fmt: skip
        """Seconds of wall clock and of CPU in user mode, with those of all children; `first`: until
        the last line that ends with it. 1 is the exit code of a doctor that found something."""
        argv = (sys.executable, "-m", "ipexctl", *words)
        (self.home / folder).mkdir(exist_ok=True)
        began, seen = time.monotonic(), 0.0
        with self.errors.open("wb") as errors:
            process = subprocess.Popen(
                argv, cwd=self.home / folder, env={**self.env, **(env or {})},
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors,
            )  # fmt: skip
        assert process.stdout
        for line in process.stdout:
            if first and line.rstrip().endswith(first.encode()):
                seen = time.monotonic() - began
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode > (words[0] == "doctor"):
            said = self.errors.read_text("utf-8", "replace")[-2000:]
            raise SystemExit(f"{words}\nended with {process.returncode} in {self.tree}\n{said}")
        # without the kernel's: of one tree it differs by a factor of four from round to round, as
        # the threads of 64 hosts wait for each other on few CPUs
        found = {"wall": time.monotonic() - began, "cpu": usage.ru_utime}
        return found | ({"first": seen} if first else {})


@dataclass
class Row:
    """One command; `kinds` are the figures of it that count."""

    name: str
    words: tuple[str, ...]
    kinds: tuple[str, ...] = ("wall",)
    first: str = ""
    before: Callable[[Side], None] = lambda side: None
    env: Mapping[str, str] | None = None
    folder: str = "."  # where it runs
    rounds: int = 3
    taken: dict[tuple[str, str], list[float]] = field(default_factory=dict)

    def measure(self, sides: tuple[Side, Side], rounds: int) -> None:
        for number in range(rounds):
            for side in sides[:: -1 if number % 2 else 1]:
                self.before(side)
                for kind, seconds in side.run(
                    self.words, self.first, self.env, self.folder
                ).items():
                    self.taken.setdefault((kind, side.name), []).append(seconds)

    def ratio(self, kind: str, of: Callable[[list[float]], float] = statistics.median) -> float:
        return of(self.taken[kind, "new"]) / of(self.taken[kind, "old"])

    def above(self) -> list[str]:
        """The kinds that are above their limit."""
        return [kind for kind in self.kinds if self.ratio(kind) > limit(kind)]

    def slower(self) -> list[str]:
        """Those that are above it by the fastest round, too, and not by chance."""
        return [
            kind
            for kind in self.above()
            if self.ratio(kind, min) > limit(kind) and self.chance(kind) < CHANCE
        ]

    def chance(self, kind: str) -> float:
        """How likely a tree that is as fast as the other loses as many rounds as this one did."""
        pairs = list(zip(self.taken[kind, "new"], self.taken[kind, "old"], strict=True))
        lost = sum(new > old for new, old in pairs)
        likely = sum(math.comb(len(pairs), more) for more in range(lost, len(pairs) + 1))
        return float(likely / 2 ** len(pairs))


def limit(kind: str) -> float:
    return CPU_LIMIT if kind == "cpu" else LIMIT


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="comma list of rows")
    parser.add_argument("--rounds", type=int, default=0, help="instead of each row's own")
    parser.add_argument("--against", default="", help="another commit, or a folder with a tree")
    args = parser.parse_args()
    began = time.monotonic()
    with ExitStack() as stack:
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        made = tempfile.TemporaryDirectory(prefix="ipexctl-guard-", dir=memory)
        work = Path(stack.enter_context(made))
        baseline = toml.loads((HERE / "baseline.toml").read_text("utf-8"))
        tree = old_tree(args.against or str(baseline["commit"]), work)
        if tree is None:
            print(f"guard: NOT measured: commit {baseline['commit']} is not in this clone")
            return 0
        try:
            choose_rung(LabSpec.plain(1), FULL)
        except NotHere as missing:
            print(f"guard: NOT measured: {missing.what}; {missing.hint or missing.why}")
            return 0
        sides = (side("old", tree, work), side("new", ROOT, work))
        only = set(filter(None, args.only.split(",")))
        slow = sitting(work, sides, only, args.rounds)
        if slow:
            print("once more, on new hosts:")
            again = sitting(work, sides, {name for name, _ in slow}, args.rounds)
            slow = [row for row in slow if row in again]
    print(
        f"guard: {time.monotonic() - began:.0f} s; "
        + (f"slower: {', '.join(map(' '.join, slow))}" if slow else "nothing is slower")
    )
    return int(bool(slow))


def sitting(
    work: Path, sides: tuple[Side, Side], only: Collection[str], rounds: int
) -> list[tuple[str, str]]:
    """Measure the rows, or `only` those; return name and kind of each that is slower."""
    slow: list[tuple[str, str]] = []
    print(f"{'':14}{'':6}{'old s':>8}{'new s':>8}{'ratio':>8}")
    for names, make in ((SMALL, small_rows), (FLAT_ROWS, flat_rows)):
        if only and not names & set(only):
            continue
        with make(work, sides[1]) as rows:
            assert {row.name for row in rows} == names
            for row in rows:
                if not only or row.name in only:
                    slow += judge(row, sides, rounds or row.rounds)
    return slow


def judge(row: Row, sides: tuple[Side, Side], rounds: int) -> list[tuple[str, str]]:
    row.measure(sides, 1)  # warms caches
    row.taken.clear()
    row.measure(sides, rounds)
    if row.above():
        row.measure(sides, MORE * rounds)
    slower = row.slower()
    for kind in row.kinds:
        old, new = (statistics.median(row.taken[kind, name]) for name in ("old", "new"))
        mark = " SLOWER" if kind in slower else ""
        print(f"{row.name:14}{kind:6}{old:8.2f}{new:8.2f}{new / old:8.2f}{mark}", flush=True)
    return [(row.name, kind) for kind in slower]


def side(name: str, tree: Path, work: Path) -> Side:
    made = Side(name, tree, work / name)
    made.home.mkdir()
    (made.home / "up.py").write_text("print('up', flush=True)\n")
    (made.home / "lines.py").write_text(
        "import sys\nfor n in range(25):\n"
        "    sys.stdout.write(''.join(f'{n} {i} loss 0.123456\\n' for i in range(1000)))\n"
    )
    (made.home / "sleep.py").write_text("import time\ntime.sleep(600)\n")
    (made.home / "files").mkdir()
    for number in range(200):
        (made.home / "files" / f"{number}.py").write_text(f"# {number}\n" * 100)
    large = made.home / LARGE_PROJECT
    for number in range(2000):
        path = large / f"part{number // 50}" / f"{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {number}\n" * 100)
    shutil.copy(made.home / "up.py", large)
    (made.home / ".ipexctlignore").write_text(f"/{LARGE_PROJECT}/\n")
    (made.home / "payload").write_text("x")
    (made.home / "play.yaml").write_text(PLAY)
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(tree / "ipexctl")], check=True)
    return made


def old_tree(against: str, work: Path) -> Path | None:
    if Path(against).is_dir():
        return Path(against)
    found = subprocess.run(["git", "archive", against, "ipexctl"], cwd=ROOT, capture_output=True)
    if found.returncode:
        return None
    (work / "baseline").mkdir()
    subprocess.run(["tar", "x"], cwd=work / "baseline", input=found.stdout, check=True)
    return work / "baseline"


@contextmanager
def small_rows(work: Path, new: Side) -> Iterator[list[Row]]:
    """Four hosts with an MPI and a Python. While `ps` is measured, a run is there."""
    with lab(LabSpec.plain(4, name="guard"), work) as made:
        furnish(made, work)
        at = ("-f", str(made.hostfile), "-F", str(made.ssh_config))
        run = ("run", *at, "--ui", "plain")

        def edit(side: Side) -> None:
            (side.home / "files" / "7.py").write_text(f"# {time.monotonic_ns()}\n" * 100)

        def edit_large(side: Side) -> None:
            path = side.home / LARGE_PROJECT / "part1" / "70.py"
            path.write_text(f"# {time.monotonic_ns()}\n" * 100)

        def begin(side: Side) -> None:
            if side is new and not new.home.joinpath("begun").exists():
                new.run(("run", *at, "--detach", "-n", "4", "--name", "guard", "sleep.py"))
                new.home.joinpath("begun").touch()

        installed = ("install", *at, "-y", "--mpi", "none", "--root", "~/installed", "--json")
        yield [
            Row("help", ("--help",)),
            Row("doctor-3", ("doctor", *at, "-l", "node[01-03]", "--json"), ("wall", "cpu")),
            Row("launch", (*run, "-n", "4", "up.py"), ("first", "wall"), "up"),
            Row("edit", (*run, "-n", "4", "up.py"), ("first",), "up", edit),
            Row(
                "same-2000",
                (*run, "-n", "4", "up.py"),
                ("first", "wall"),
                "up",
                folder=LARGE_PROJECT,
            ),
            Row(
                "edit-2000",
                (*run, "-n", "4", "up.py"),
                ("first", "wall"),
                "up",
                edit_large,
                folder=LARGE_PROJECT,
            ),
            Row("logs", (*run, "-n", "8", "lines.py")),
            Row("install", installed, env=stand_ins(work / "shop"), folder="locked"),
            Row("ps", ("ps", *at, "--json"), before=begin),
        ]
        if new.home.joinpath("begun").exists():
            new.run(("stop", *at, "-t", "1s", "guard"))
            new.home.joinpath("begun").unlink()


def stand_ins(folder: Path) -> dict[str, str]:
    """Where small wheels are that are called torch, numpy and uv. The first round, which does not
    count, installs them; the next ones find nothing to do."""
    shop = Shop(folder)
    if not folder.exists():
        folder.mkdir()
        shop.stock()
        over_ssh.stock(shop)
    return {name: value for name, value in shop.environ().items() if name.startswith("PIP_")}


@contextmanager
def flat_rows(work: Path, new: Side) -> Iterator[list[Row]]:
    """Many hosts that only answer."""
    with lab(LabSpec(name="guardflat", flat=FLAT).checked(), work) as made:
        at = ("-f", str(made.hostfile), "-F", str(made.ssh_config))
        yield [
            Row("doctor-64", ("doctor", *at, "--json"), ("wall", "cpu")),
            Row("play-64", ("play", *at, "./play.yaml")),
        ]


@contextmanager
def lab(spec: LabSpec, work: Path) -> Iterator[Lab]:
    made = Lab.up(spec, owner=os.getpid(), root=work / "labs")
    try:
        yield made
    finally:
        made.down()


def furnish(made: Lab, work: Path) -> None:
    """An environment without torch, which the rows do not import."""
    env = work / "env"
    if not env.exists():
        uv, python = str(find_uv(os.environ)), str(env / "bin/python")
        subprocess.run([uv, "venv", "-q", "--python", "/usr/bin/python3", str(env)], check=True)
        subprocess.run([uv, "pip", "install", "-q", "--python", python, "mpich"], check=True)
    for name, host in made.hosts.items():
        shutil.copytree(env, host.files / "env", symlinks=True)
        (host.files / ".ipexctl").mkdir(0o700)
        (host.files / ".ipexctl/current").symlink_to("/home/trainer/env")
        places = ["/home/trainer/env", "/home/trainer/.ipexctl"]
        done = made.run_in(name, ["chown", "-R", "-h", "trainer:", *places])
        assert done.returncode == 0, done.stderr


if __name__ == "__main__":
    sys.exit(main())
