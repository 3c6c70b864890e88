"""Break a training in every way we can on three lab hosts, and print what ipexctl says of each.

    python benchmarks/faults.py [--mpi intel,mpich,openmpi,none]
                                [--modes attached,detached,restarts] [--only NAME,...]
                                [--boxes FOLDER] [--results FILE]

Needs root (for the lab). Each MPI is installed once, a minute each. Every training is real: torch,
gloo, an all_reduce per step, three ranks on three hosts. Attached, `seconds` is from the fault to
the end of the command; detached, the controller is gone when the fault happens, and they are to the
moment when `ps -a` says that the run is over. In both, nothing is left then on any host that can be
reached. With restarts, `seconds` is from the fault to a step of the second attempt on each host
that is left, or to the end of the command; the training is then told to end.
`left` is counted by us in /proc of every host afterwards, not by ipexctl: all that the user of the
training has there, but sshd. Where a host was down or its cable out, it is healed first, and
counted then. --lab NAME takes a lab that is up, with node03 on a disk of its own, and each MPI
installed with --root ~/.MPI. --results adds each case to a file; with --table it is only printed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from training_faults import FAULTS, HOST, REPO, Bench, Fault, lets_go, reboot

from ipexctl.common.waiting import wait_until
from ipexctl.lab import HostSpec, Lab, LabSpec
from ipexctl.remote.run_files import journal

COMMAND = [sys.executable, "-m", "ipexctl"]
MPIS = ("intel", "mpich", "openmpi", "none")
MODES = ("attached", "detached")
RESTARTS = "restarts"
LATEST = 20.0  # seconds beyond --host-timeout after which we stop waiting


@dataclass(frozen=True)
class Seen:
    """One fault under one MPI in one mode. `seconds` None: it was not over in time."""

    fault: str
    mpi: str
    mode: str
    seconds: float | None
    code: int | str
    left: int
    cause: str


class Case:
    def __init__(self, bench: Bench, fault: Fault, mode: str, timeout: float) -> None:
        self.bench = bench
        self.fault = fault
        self.mode = mode
        self.timeout = fault.timeout or timeout
        self.limit = self.timeout + LATEST
        self.said: list[str] = []
        self.where = (
            "--hostfile", str(bench.lab.hostfile), "-F", str(bench.lab.ssh_config),
            "--root", f"~/.{bench.mpi}",
        )  # fmt: skip
        self.second = bench.folder / "second"  # a controller with a home of its own
        self.second.mkdir(exist_ok=True)

    def seen(self) -> Seen:
        bench = self.bench
        bench.clear_files()
        (bench.folder / "train.py").write_text(self.fault.script())
        how = {"attached": self.attached, "detached": self.detached, RESTARTS: self.restarts}
        try:
            seconds, code, cause = how[self.mode]()
        finally:
            if bench.process and bench.process.poll() is None:
                bench.process.kill()
            left = self.left()
            for undo in bench.undo:
                undo()
            bench.undo.clear()
        return Seen(self.fault.name, bench.mpi, self.mode, seconds, code, left, cause)

    def run(self, *options: str) -> list[str]:
        return [
            *COMMAND, "run", *self.where, "-n", "3", "--host-timeout", f"{self.timeout:g}",
            *options, *self.fault.options(self.bench), "train.py", *self.fault.words,
        ]  # fmt: skip

    def strike(self, alive: Callable[[], bool]) -> float:
        """When all ranks are up. Returns when it happened."""
        wait_until(lambda: self.bench.all_up() or not alive(), 60)
        assert self.bench.all_up(), "the ranks did not come up\n" + "\n".join(self.said)
        time.sleep(0.3)
        began = time.monotonic()
        (self.fault.act or lets_go)(self.bench)
        return began

    def attached(self) -> tuple[float | None, int | str, str]:
        with tempfile.TemporaryFile("w+") as err:
            process = self.bench.process = subprocess.Popen(
                self.run("--ui", "plain"), cwd=self.bench.folder, env=environment(),
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=err, text=True,
            )  # fmt: skip
            began = self.strike(lambda: process.poll() is None)
            left = self.limit - (time.monotonic() - began)
            in_time = wait_until(lambda: process.poll() is not None and self.all_gone(), left)
            seconds = time.monotonic() - began
            if not in_time:
                process.terminate()
            code = process.wait(60)
            err.seek(0)
            self.said.append(err.read())
        first = [x for x in self.said[-1].splitlines() if x.startswith(("failed:", "ipexctl:"))]
        cause = first[0].removeprefix("failed: ") if first else "(killed)" * (code < 0)
        named = signal.Signals(-code).name if code < 0 else code
        return seconds if in_time else None, named, cause

    def restarts(self) -> tuple[float | None, int | str, str]:
        """With no spare: two of the three hosts go on where one is lost."""
        options = ("--ui", "plain", "--restarts", "3", "--min-hosts", "2")
        with tempfile.TemporaryFile("w+") as said:
            process = self.bench.process = subprocess.Popen(
                self.run(*options), cwd=self.bench.folder, env=environment(),
                stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT, text=True,
            )  # fmt: skip
            began = self.strike(lambda: process.poll() is None)
            off = self.fault.off or HOST * (self.fault.act is reboot)  # back too late

            def goes_on() -> bool:
                return self.bench.all_up("again", without=off)

            met = wait_until(lambda: goes_on() or process.poll() is not None, self.limit + 30)
            seconds = time.monotonic() - began
            self.bench.say("done")
            if not wait_until(lambda: process.poll() is not None, 60):
                process.terminate()
            code = process.wait(60)
            wait_until(self.all_gone, 10)  # of a run that this command has left
            said.seek(0)
            self.said.append(said.read())
        attempts = len(re.findall(r"; attempt \d+ on ", self.said[-1])) + 1
        last = f"attempt {attempts}" if attempts > 1 else "the first attempt"
        return seconds if met else None, code, last

    def detached(self) -> tuple[float | None, int | str, str]:
        """The command that started the run has ended before the fault."""
        started = subprocess.run(
            self.run("-d"), cwd=self.bench.folder, env=environment(),
            stdin=subprocess.DEVNULL, capture_output=True, text=True,
        )  # fmt: skip
        self.said.append(started.stdout + started.stderr)
        assert started.returncode == 0, self.said[-1]
        run_id = started.stdout.split()[-1]
        began = self.strike(lambda: True)
        in_time = wait_until(self.all_gone, self.limit - (time.monotonic() - began))
        gone_at = time.monotonic()
        row = self.listed(run_id)
        while _is_alive(row) and time.monotonic() - began < self.limit:
            row = self.listed(run_id)
            gone_at = time.monotonic()
        if _is_alive(row):
            in_time = False
            self.said.append(f"after {self.limit:g} s:\n{self.journals(run_id)}")
            self.other("stop", run_id, "-t", "1")
        code: int | str = "?"
        if not _is_alive(self.listed(run_id)):
            waited = self.other("wait", run_id)
            code = waited.returncode
            self.said.append(f"$ wait: {code}\n{waited.stdout}{waited.stderr}")
        self.said.append(self.journals(run_id))
        cause = row["cause"] or ""
        cause += f" ({row['state']})" * (row["state"] in ("lost", "not listed"))
        return gone_at - began if in_time else None, code, cause

    def listed(self, run_id: str) -> dict[str, str]:
        done = self.other("ps", "-a", "--json")
        runs = json.loads(done.stdout)["runs"]
        empty = {"state": "not listed", "cause": ""}
        row = next((row for row in runs if row["run_id"] == run_id), empty)
        self.said.append(f"$ ps -a: {done.returncode}\n{json.dumps(row)}\n{done.stderr}")
        return row

    def other(self, *words: str) -> subprocess.CompletedProcess[str]:
        """By a second controller."""
        return subprocess.run(
            [*COMMAND, *words, *self.where], cwd=self.second, stdin=subprocess.DEVNULL,
            env=environment(HOME=str(self.second)), capture_output=True, text=True, timeout=120,
        )  # fmt: skip

    def journals(self, run_id: str) -> str:
        said = []
        for name, host in self.bench.lab.hosts.items():
            if host.pid:
                runs = host.files / f".{self.bench.mpi}" / "runs"
                data = journal.read_journal_bytes(runs / run_id / "journals" / name)
                said += [f"-- {name}", *map(json.dumps, journal.parse_records(data))]
        return "\n".join(said)

    def all_gone(self) -> bool:
        hosts = [host for host in self.bench.lab.hosts if host != self.fault.off]
        return not any(self.bench.processes(host) for host in hosts)

    def left(self) -> int:
        """Where sshd still closes its sessions, a second later. What is left is killed by us."""
        if self.fault.off or "disk" in self.fault.name:
            self.bench.lab.heal(self.fault.off or "node03")
        hosts = self.bench.lab.hosts
        wait = self.timeout + 10 if self.fault.off else 1.5
        wait_until(lambda: not any(self.bench.processes(host) for host in hosts), wait)
        found = {pid: words for host in hosts for pid, words in self.bench.processes(host).items()}
        for pid, words in found.items():
            self.said.append(f"left: {words}")
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return len(found)


def _is_alive(row: dict[str, str]) -> bool:
    return row["state"] in ("running", "stopping")


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(REPO), "COLUMNS": "100", **more}


# --- the table -----------------------------------------------------------------------------------

HEADER = """
| fault | MPI | attached: seconds | code | left | first line | \
detached: seconds | wait | left | cause |
|---|---|---|---|---|---|---|---|---|---|
"""


def table(results: list[Seen]) -> str:
    """What is equal under several MPIs is one row; seconds then are the least and the most."""
    by_case = {(seen.fault, seen.mpi, seen.mode): seen for seen in results}
    rows = []
    for fault in FAULTS:
        groups: dict[object, list[str]] = {}
        for mpi in MPIS:
            key = tuple(_facts(by_case.get((fault.name, mpi, mode))) for mode in MODES)
            groups.setdefault(key, []).append(mpi)
        groups.pop((None, None), None)
        for mpis in groups.values():
            attached, detached = (
                [by_case[case] for mpi in mpis if (case := (fault.name, mpi, mode)) in by_case]
                for mode in MODES
            )
            cells = [fault.name, ", ".join(mpis), *_cells(attached), *_cells(detached)]
            if cells[-1] == cells[5]:
                cells[-1] = "the same" * bool(cells[5])
            rows.append("| " + " | ".join(cells) + " |\n")
    return HEADER.lstrip() + "".join(rows)


def table_of_restarts(results: list[Seen]) -> str:
    rows = []
    for fault in FAULTS:
        groups: dict[object, list[Seen]] = {}
        for seen in results:
            if (seen.fault, seen.mode) == (fault.name, RESTARTS):
                groups.setdefault(_facts(seen), []).append(seen)
        for group in groups.values():
            mpis = ", ".join(mpi for mpi in MPIS if mpi in {seen.mpi for seen in group})
            rows.append(f"| {fault.name} | {mpis} | " + " | ".join(_cells(group)) + " |\n")
    return (
        "| fault | MPI | seconds | code | left | ends in |\n|---|---|---|---|---|---|\n"
        + "".join(rows)
    )


def _facts(seen: Seen | None) -> object:
    if seen is None:
        return None
    return seen.seconds is None, seen.code, seen.left, re.sub(r"\d+ s\b", "", seen.cause)


def _cells(seen: list[Seen]) -> list[str]:
    if not seen:
        return ["", "", "", ""]
    times = sorted({f"{s.seconds:.1f}" for s in seen if s.seconds is not None}, key=float)
    none = "" if seen[0].mode == RESTARTS else "not over"
    seconds = "-".join(dict.fromkeys((times[0], times[-1]))) if times else none
    return [seconds, str(seen[0].code), str(seen[0].left), seen[0].cause]


# --- all of them ---------------------------------------------------------------------------------


@contextmanager
def a_lab(name: str, mpis: list[str], folder: Path) -> Iterator[Lab]:
    if name:
        yield Lab.open(name)
        return
    hosts = (HostSpec(), HostSpec(), HostSpec(disk=12 << 30))
    lab = Lab.up(LabSpec(name=f"faults-{os.getpid()}", hosts=hosts), owner=os.getpid())
    try:
        for mpi in mpis:
            install = ["install", "-y", "--stack", "stock", "--mpi", mpi, "--root", f"~/.{mpi}"]
            where = ["-f", str(lab.hostfile), "-F", str(lab.ssh_config)]
            (folder / mpi).mkdir()
            subprocess.run(
                [*COMMAND, *install, *where], cwd=folder / mpi, env=environment(), check=True
            )
        yield lab
    finally:
        lab.down()


def cases(mpis: list[str], modes: list[str], only: list[str]) -> Iterator[tuple[str, str, Fault]]:
    for mpi in mpis:
        for fault in FAULTS:
            named = not only or any(word in fault.name for word in only)
            for mode in modes if named and not (fault.mpirun and mpi == "none") else ():
                if mode in (*fault.modes, RESTARTS):
                    yield mpi, mode, fault


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lab", default="")
    parser.add_argument("--mpi", default="none")
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--only", default="", help="words that are in the fault's name")
    parser.add_argument("--host-timeout", type=float, default=10.0)
    parser.add_argument("--boxes", type=Path, help="a file for each case: all that was said")
    parser.add_argument("--results", type=Path, help="add each case to this file")
    parser.add_argument("--table", action="store_true", help="print the table of that file")
    asked = parser.parse_args()
    results: list[Seen] = []
    if asked.results and asked.results.exists():
        lines = asked.results.read_text().splitlines()
        results = [Seen(**json.loads(line)) for line in lines]
    if not asked.table:
        results = _measured(asked, results)
    print(table(results), table_of_restarts(results), sep="\n")


def _measured(asked: argparse.Namespace, before: list[Seen]) -> list[Seen]:
    """A case that is measured again takes the place of what it was before."""
    results = {(s.fault, s.mpi, s.mode): s for s in before}
    only = [word for word in asked.only.split(",") if word]
    mpis = asked.mpi.split(",")
    with (
        tempfile.TemporaryDirectory(dir="/var/tmp") as made,
        a_lab(asked.lab, mpis, Path(made)) as lab,
    ):
        for mpi, mode, fault in cases(mpis, asked.modes.split(","), only):
            began = time.monotonic()
            case = Case(Bench(lab, mpi, Path(made)), fault, mode, asked.host_timeout)
            try:
                seen = case.seen()
            except AssertionError as error:  # the fault could not be done
                print(f"{fault.name} {mpi} {mode}: {error}", file=sys.stderr)
                continue
            results[fault.name, mpi, mode] = seen
            took = time.monotonic() - began
            print(f"{seen} in {took:.0f} s", file=sys.stderr, flush=True)
            if asked.boxes:
                asked.boxes.mkdir(parents=True, exist_ok=True)
                name = f"{fault.name} {mpi} {mode}".replace(" ", "-").replace("/", "-")
                (asked.boxes / f"{name}.txt").write_text("\n".join(case.said))
            if asked.results:
                rows = [json.dumps(asdict(s)) for s in results.values()]
                asked.results.write_text("\n".join(rows) + "\n")
    return list(results.values())


if __name__ == "__main__":
    main()
