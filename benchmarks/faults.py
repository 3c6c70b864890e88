"""Break a training in every way we can on three lab hosts, and print what ipexctl says of each.

    python benchmarks/faults.py [--mpi intel,mpich,openmpi] [--only NAME,...] [--boxes FOLDER]

Needs root (for the lab). Each MPI is installed once, a minute each. Every training is real: torch,
gloo, an all_reduce per step, three ranks on three hosts. `seconds` is from the fault to the end of
the command (from its start, where the script fails at once). `left` is counted by us in /proc of
every host afterwards, not by ipexctl: all that the user of the training has there, but sshd. Where
a host was down or its cable out, it is healed first, and counted then. --lab NAME takes a lab that
is up, with node03 on a disk of its own, and each MPI installed with --root ~/.MPI.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

REPO = Path(__file__).parents[1]
sys.path.insert(0, str(REPO))

from ipexctl.lab import HostSpec, Lab, LabSpec  # noqa: E402

COMMAND = [sys.executable, "-m", "ipexctl"]
HOST = "node02"  # where rank 1 is, which most faults hit
LEASE = 40.0  # a host that hears nothing ends its part after --host-timeout

HEAD = """
import argparse, ctypes, os, resource, socket, sys, time
"""
TRAIN = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
for step in range(1000000):
    total = torch.ones(1000)
    dist.all_reduce(total)
    if step == 10:
        print("up", flush=True)
    if step == 30 and rank == 1 and FAULT:
        print("fault", flush=True)
        exec(FAULT)
    time.sleep(0.01)
"""


@dataclass(frozen=True)
class Fault:
    """`code` is what rank 1 does; `first` what every rank does before it trains; `act` is ours."""

    name: str
    code: str = ""
    first: str = ""
    act: Callable[[Bench], None] | None = None
    options: Callable[[Bench], list[str]] = field(default=lambda bench: [])
    words: tuple[str, ...] = ()  # of the script
    heal: str = ""  # a host


@dataclass
class Bench:
    lab: Lab
    mpi: str
    folder: Path
    process: subprocess.Popen[str] | None = None
    undo: list[Callable[[], None]] = field(default_factory=list)

    def on(self, host: str, line: str) -> str:
        return self.lab.run_in(host, ["/bin/sh", "-c", line]).stdout

    def kill(self, host: str, pattern: str, number: str = "-9") -> None:
        found = self.on(host, f"pgrep -o -f '{pattern}'").split()
        assert found, f"no {pattern} on {host}:\n" + self.on(host, "ps axo pid,args")
        self.on(host, f"kill {number} {found[0]}")

    def processes(self, host: str) -> dict[int, str]:
        """What the user has there, as this machine numbers it: a look into every /proc/PID."""
        with suppress(OSError):
            space = Path(f"/proc/{self.lab.hosts[host].pid}/ns/pid").stat().st_ino
            return dict(_of_space(space))
        return {}


def _of_space(space: int) -> Iterator[tuple[int, str]]:
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (folder / "ns/pid").stat().st_ino == space and folder.stat().st_uid:
                words = (folder / "cmdline").read_bytes().split(b"\0")
                if words[0] and not words[0].startswith(b"sshd"):
                    yield int(folder.name), b" ".join(words).decode(errors="replace")


# --- the faults ----------------------------------------------------------------------------------


def memory_limit(bench: Bench) -> None:
    """A control group around all that the user has on the host, as containers and systemd do it."""
    base = Path("/sys/fs/cgroup/memory")
    group = base / f"ipexctl-faults-{os.getpid()}"
    v1 = base.is_dir()
    if not v1:
        group = Path("/sys/fs/cgroup") / group.name
    group.mkdir()
    (group / ("memory.limit_in_bytes" if v1 else "memory.max")).write_text(str(900 << 20))
    pids = bench.processes(HOST)
    for pid in pids:
        (group / "cgroup.procs").write_text(str(pid))

    def away() -> None:
        deadline = time.monotonic() + 60
        while (group / "cgroup.procs").read_text() and time.monotonic() < deadline:
            time.sleep(0.1)
        group.rmdir()

    bench.undo.append(away)
    bench.on(HOST, "touch /dev/shm/go")


def take_port(bench: Bench) -> list[str]:
    """Somebody else listens on the port that is asked for."""
    listen = (
        "import socket; s = socket.create_server(('', 29512)); print('up', flush=True)\n"
        "kept = []\nwhile True: kept.append(s.accept())"
    )
    pid = str(bench.lab.hosts["node01"].pid)
    other = subprocess.Popen(
        ["nsenter", "-t", pid, "-n", sys.executable, "-c", listen], stdout=subprocess.PIPE
    )
    assert other.stdout and other.stdout.readline()
    bench.undo += [other.kill, lambda: other.wait() and None]
    return ["--env", "MASTER_PORT=29512"]


def only_two(bench: Bench) -> list[str]:
    for host in ("node01", "node02"):
        bench.on(host, "mkdir -p ~trainer/own; cd ~trainer/own; echo 1 >lexer.py; echo 1 >data.bin")
    return []


MPIRUN = {
    "intel": "[m]piexec.hydra",
    "mpich": "[m]piexec|[m]pirun",
    "openmpi": "[p]rterun|[m]pirun",
}
DAEMON = {"intel": "[h]ydra_pmi_proxy", "mpich": "[h]ydra_pmi_proxy", "openmpi": "[p]rted"}
WAIT = "\nwhile not os.path.exists('/dev/shm/go'): time.sleep(0.01)\n"
ALLOCATE = "kept = []\nwhile True: kept.append(b'x' * (8 << 20))\n"
OWN = "sys.path.insert(0, os.path.expanduser('~/own'))\n"

FAULTS = (
    Fault("a rank exits with 3", "dist.destroy_process_group(); sys.exit(3)"),
    Fault("SIGSEGV in a rank", "ctypes.string_at(0)"),
    Fault("kill -9 of a rank", act=lambda b: b.kill(HOST, "[t]rain.py")),
    Fault("kill -9 of mpirun", act=lambda b: b.kill("node01", MPIRUN[b.mpi])),
    Fault("kill -9 of a daemon", act=lambda b: b.kill(HOST, DAEMON[b.mpi])),
    Fault("kill -9 of a wrapper", act=lambda b: b.kill(HOST, "[r]ank.py$")),
    Fault("kill -9 of an agent", act=lambda b: b.kill(HOST, "[p]ython3 -ISc")),
    Fault("kill -9 of ipexctl", act=lambda b: b.process and b.process.kill()),
    Fault("OOM kill", f"{WAIT}{ALLOCATE}", act=memory_limit),
    Fault(
        "MemoryError (ulimit -v)",
        f"resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))\n{ALLOCATE}",
    ),
    Fault("SIGSTOP of a rank", act=lambda b: b.kill(HOST, "[t]rain.py", "-STOP")),
    Fault("host powered off", act=lambda b: b.lab.fault(HOST, "kill"), heal=HOST),
    Fault("cable of a host out", act=lambda b: b.lab.fault(HOST, "unplug"), heal=HOST),
    Fault("cable of node01 out", act=lambda b: b.lab.fault("node01", "unplug"), heal="node01"),
    Fault(
        "disk full on node03",
        act=lambda b: b.lab.fault("node03", "fill-disk"),
        first="import threading\n"
        "def save():\n"
        "    while True:\n"
        "        with open('checkpoint', 'ab') as f: f.write(b'x' * 100000)\n"
        "        time.sleep(0.05)\n"
        "def end(failure):\n"
        "    sys.__excepthook__(*failure[:3]); sys.stderr.flush(); os._exit(1)\n"
        "threading.excepthook = end\n"
        "threading.Thread(target=save, daemon=True).start()\n",
        heal="node03",
    ),
    Fault("MASTER_PORT taken", options=take_port),
    Fault(
        "wrong arguments",
        first="p = argparse.ArgumentParser(); p.add_argument('--epochs', type=int)\n"
        "p.parse_args()\n",
        words=("--epochs", "three"),
    ),
    Fault("import error on node03", first=OWN + "import lexer\n", options=only_two),
    Fault(
        "missing file on node03",
        first="open(os.path.expanduser('~/own/data.bin')).close()\n",
        options=only_two,
    ),
)  # fmt: skip


# --- one of them ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Seen:
    fault: str
    mpi: str
    seconds: float
    code: int
    left: int
    box: str  # all of it

    @property
    def first_line(self) -> str:
        lines = [line for line in self.box.splitlines() if line.startswith(("failed:", "ipexctl:"))]
        return lines[0].removeprefix("failed: ") if lines else "(killed: it cannot say anything)"


def one(bench: Bench, fault: Fault, timeout: float) -> Seen:
    script = bench.folder / "train.py"
    script.write_text(f"{HEAD}FAULT = {fault.code!r}\n{fault.first}\n{TRAIN}")
    lab = ["-f", str(bench.lab.hostfile), "-F", str(bench.lab.ssh_config)]
    argv = [
        *COMMAND, "run", *lab, "--root", f"~/.{bench.mpi}", "-n", "3", "--ui", "plain",
        "--host-timeout", f"{timeout:g}", *fault.options(bench), "train.py", *fault.words,
    ]  # fmt: skip
    env = {**os.environ, "PYTHONPATH": str(REPO), "COLUMNS": "100"}
    with tempfile.TemporaryFile("w+") as err:
        process = bench.process = subprocess.Popen(
            argv, cwd=bench.folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=err, text=True,
        )  # fmt: skip
        began = _break(bench, fault, process)
        code = process.wait()
        if fault.name == "kill -9 of ipexctl":
            _until_gone(bench, LEASE)
        seconds = time.monotonic() - began
        err.seek(0)
        box = err.read()
    if fault.heal:
        bench.lab.heal(fault.heal)
    _until_gone(bench, timeout + 5 if fault.heal else 1.0)  # sshd is still closing its sessions
    left = {host: bench.processes(host) for host in bench.lab.hosts}
    for undo in bench.undo:
        undo()
    bench.undo.clear()
    bench.on(HOST, "rm -f /dev/shm/go")
    for words in (w for found in left.values() for w in found.values()):
        print(f"   left: {words}", file=sys.stderr)
    return Seen(fault.name, bench.mpi, seconds, code, sum(map(len, left.values())), box)


def _break(bench: Bench, fault: Fault, process: subprocess.Popen[str]) -> float:
    """Reads what the ranks say, and does our part when all are up. Returns when it happened."""
    began, up = time.monotonic(), 0
    assert process.stdout
    for line in process.stdout:
        up += line.endswith("| up\n")
        if line.endswith("| fault\n"):
            began = time.monotonic()
        if up == 3 and fault.act:
            if fault.code and not line.endswith("| fault\n"):
                continue
            up, began = 0, time.monotonic()
            fault.act(bench)
    return began


def _until_gone(bench: Bench, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not any(bench.processes(host) for host in bench.lab.hosts):
            return
        time.sleep(0.1)


# --- all of them ---------------------------------------------------------------------------------


@contextmanager
def a_lab(name: str, mpis: list[str], folder: Path) -> Iterator[Lab]:
    if name:
        yield Lab.open(name)
        return
    hosts = (HostSpec(), HostSpec(), HostSpec(disk=8 << 30))
    lab = Lab.up(LabSpec(name=f"faults-{os.getpid()}", hosts=hosts), owner=os.getpid())
    try:
        for mpi in mpis:
            install = ["install", "-y", "--stack", "stock", "--mpi", mpi, "--root", f"~/.{mpi}"]
            where = ["-f", str(lab.hostfile), "-F", str(lab.ssh_config)]
            (folder / mpi).mkdir()
            env = {**os.environ, "PYTHONPATH": str(REPO)}
            subprocess.run([*COMMAND, *install, *where], cwd=folder / mpi, env=env, check=True)
        yield lab
    finally:
        lab.down()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lab", default="")
    parser.add_argument("--mpi", default="intel")
    parser.add_argument("--only", default="", help="words that are in the fault's name")
    parser.add_argument("--host-timeout", type=float, default=30.0)
    parser.add_argument("--boxes", type=Path, help="a file for each fault: all that was said")
    asked = parser.parse_args()
    only = [word for word in asked.only.split(",") if word]
    wanted = [f for f in FAULTS if not only or any(word in f.name for word in only)]
    print(f"| fault | MPI | seconds | code | left | first line of the box |\n{'|---' * 6}|")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as made:
        folder = Path(made)
        with a_lab(asked.lab, asked.mpi.split(","), folder) as lab:
            for fault in wanted:
                for mpi in asked.mpi.split(","):
                    seen = one(Bench(lab, mpi, folder), fault, asked.host_timeout)
                    code = seen.code if seen.code >= 0 else signal.Signals(-seen.code).name
                    row = (fault.name, mpi, f"{seen.seconds:.1f}", code, seen.left, seen.first_line)
                    print("| " + " | ".join(map(str, row)) + " |", flush=True)
                    if asked.boxes:
                        asked.boxes.mkdir(parents=True, exist_ok=True)
                        name = f"{fault.name} {mpi}".replace(" ", "-").replace("/", "-")
                        (asked.boxes / f"{name}.txt").write_text(seen.box)


if __name__ == "__main__":
    main()
