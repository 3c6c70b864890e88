"""Every way in which benchmarks/faults.py breaks a training, and the script that is trained."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

REPO = Path(__file__).parents[1]
sys.path.insert(0, str(REPO))

from ipexctl.lab import Lab  # noqa: E402

HOST = "node02"  # where rank 1 is, which most faults hit
HUB = "node01"
FILES = "dev/shm/faults"  # on each host; by files there we and the script speak

HEAD = f"""
import argparse, ctypes, os, resource, socket, sys, time
rank, files = os.environ["RANK"], "/{FILES}/"
first = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0"
def is_there(name): return os.path.exists(files + name)
os.makedirs(files, exist_ok=True)
def say(name): open(files + name, "w").close()
"""
AT_ONCE = """
if first: say("up")
while not is_there("go"): time.sleep(0.01)
"""
TRAIN = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
for step in range(1000000):
    total = torch.ones(1000) * (2 if is_there("done") else 1)
    dist.all_reduce(total)
    if total[0] > dist.get_world_size():
        break
    if step == 10:
        say("up" if first else "again")
    if rank == "1" and FAULT and first and is_there("go"):
        exec(FAULT)
    time.sleep(0.01)
dist.destroy_process_group()
"""


@dataclass(frozen=True)
class Fault:
    """`code` is what rank 1 does; `first` what each rank does before it trains; `act` is ours."""

    name: str
    code: str = ""
    first: str = ""
    beside: str = ""  # what each rank does while it trains
    act: Callable[[Bench], None] | None = None
    options: Callable[[Bench], list[str]] = field(default=lambda bench: [])
    words: tuple[str, ...] = ()  # of the script
    off: str = ""  # a host that cannot be reached then
    timeout: float = 0.0  # --host-timeout, if it must be another one
    modes: tuple[str, ...] = ("attached", "detached")
    mpirun: bool = False  # only where there is one

    def script(self) -> str:
        before = AT_ONCE + self.first if self.first else ""
        return f"{HEAD}FAULT = {self.code!r}\n{before}\n{self.beside}\n{TRAIN}"


@dataclass
class Bench:
    lab: Lab
    mpi: str
    folder: Path
    process: subprocess.Popen[str] | None = None
    undo: list[Callable[[], None]] = field(default_factory=list)

    def on(self, host: str, line: str) -> str:
        return self.lab.run_in(host, ["/bin/sh", "-c", line]).stdout

    def signal(self, host: str, wanted: str, number: str) -> None:
        """`wanted`: words for pgrep."""
        found = self.on(host, f"pgrep {wanted}").split()
        assert found, f"no {wanted} on {host}:\n" + self.on(host, "ps axo pid,args")
        self.on(host, f"kill -{number} {found[0]}")

    def files(self, host: str) -> Path:
        return Path(f"/proc/{self.lab.hosts[host].pid}/root/{FILES}")

    def say(self, word: str) -> None:
        for host in self.lab.hosts:
            if self.lab.hosts[host].pid:
                self.files(host).mkdir(exist_ok=True)
                (self.files(host) / word).touch()

    def clear_files(self) -> None:
        for host in self.lab.hosts:
            self.on(host, f"mkdir -p /{FILES}; chmod 777 /{FILES}; rm -f /{FILES}/*")

    def all_up(self, word: str = "up", without: str = "") -> bool:
        there = [host for host in self.lab.hosts if host != without]
        return all((self.files(host) / word).exists() for host in there)

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


def memory_limit(bench: Bench) -> None:
    """A control group around all that the user has on the host, as containers and systemd do it."""
    base = Path("/sys/fs/cgroup/memory")
    group = base / f"ipexctl-faults-{os.getpid()}"
    v1 = base.is_dir()
    if not v1:
        group = Path("/sys/fs/cgroup") / group.name
    group.mkdir()
    (group / ("memory.limit_in_bytes" if v1 else "memory.max")).write_text(str(900 << 20))
    for pid in bench.processes(HOST):
        (group / "cgroup.procs").write_text(str(pid))

    def away() -> None:
        deadline = time.monotonic() + 60
        while (group / "cgroup.procs").read_text() and time.monotonic() < deadline:
            time.sleep(0.1)
        group.rmdir()

    bench.undo.append(away)
    bench.say("go")


def take_port(bench: Bench) -> list[str]:
    """Another program listens on the port that is asked for."""
    listen = (
        "import socket; s = socket.create_server(('', 29512)); print('up', flush=True)\n"
        "kept = []\nwhile True: kept.append(s.accept())"
    )
    pid = str(bench.lab.hosts[HUB].pid)
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
DAEMON = {
    "intel": "[h]ydra_pmi_proxy",
    "mpich": "[h]ydra_pmi_proxy",
    "openmpi": "[p]rted",
    "none": "[r]ank.pyc [0-9]",
}
TARGETS: dict[str, Callable[[Bench], tuple[str, str]]] = {
    "a rank": lambda b: (HOST, "-o -f '[t]rain.py'"),
    "a wrapper": lambda b: (HOST, "-n -f '[r]ank.pyc'"),
    "mpirun": lambda b: (HUB, f"-o -f '{MPIRUN[b.mpi]}'"),
    "a daemon": lambda b: (HOST, f"-o -f '{DAEMON[b.mpi]}'"),
    "a supervisor": lambda b: (HOST, "-o -x ipexctl-run"),
    "a guardian": lambda b: (HOST, "-o -x ipexctl-guard"),
    "the hub": lambda b: (HUB, "-o -x ipexctl-run"),
}
ALLOCATE = "kept = []\nwhile True: kept.append(b'x' * (8 << 20))\n"
OWN = "sys.path.insert(0, os.path.expanduser('~/own'))\n"
SAVE = """
import threading
def save():
    while True:
        with open('checkpoint', 'ab') as f: f.write(b'x' * 100000)
        time.sleep(0.05)
def end(failure):
    sys.__excepthook__(*failure[:3]); sys.stderr.flush(); os._exit(1)
threading.excepthook = end
threading.Thread(target=save, daemon=True).start()
"""


def signals(number: str, target: str, *, ends: bool = False) -> Fault:
    """`ends`: the training goes on, and we end it 2 s later."""

    def act(bench: Bench) -> None:
        bench.signal(*TARGETS[target](bench), number)
        if ends:
            end_training(bench)

    name = "kill -9" if number == "KILL" else "SIGSTOP"
    return Fault(f"{name} of {target}", act=act, mpirun=target == "mpirun")


def kill_agent(host: str, *, ends: bool) -> Callable[[Bench], None]:
    def act(bench: Bench) -> None:
        bench.signal(host, "-o -f '[p]ython3 -ISc'", "KILL")
        if ends:
            end_training(bench)

    return act


def end_training(bench: Bench) -> None:
    time.sleep(2)
    bench.say("done")


def fault_of(host: str, kind: str) -> Callable[[Bench], None]:
    return lambda bench: bench.lab.fault(host, kind)


def cable_back(bench: Bench) -> None:
    bench.lab.fault(HOST, "unplug")
    time.sleep(10)
    bench.lab.heal(HOST)
    end_training(bench)


def reboot(bench: Bench) -> None:
    bench.lab.fault(HOST, "kill")
    bench.lab.heal(HOST)


def lets_go(bench: Bench) -> None:
    bench.say("go")


ATTACHED = ("attached",)
FAULTS = (
    Fault("a rank exits with 3", "dist.destroy_process_group(); sys.exit(3)"),
    Fault("SIGSEGV in a rank", "ctypes.string_at(0)"),
    Fault("OOM kill", ALLOCATE, act=memory_limit),
    Fault(
        "MemoryError (ulimit -v)",
        "size = int(open('/proc/self/statm').read().split()[0]) * 4096 + (256 << 20)\n"
        f"resource.setrlimit(resource.RLIMIT_AS, (size, size))\n{ALLOCATE}",
    ),
    Fault("disk full on node03", beside=SAVE, act=fault_of("node03", "fill-disk")),
    Fault("MASTER_PORT taken", first="\n", options=take_port),
    Fault(
        "wrong arguments",
        first="p = argparse.ArgumentParser(); p.add_argument('--epochs', type=int)\n"
        "p.parse_args()\n",
        words=("--epochs", "three"),
    ),
    Fault("import error on node03", first=f"{OWN}import lexer\n", options=only_two),
    Fault(
        "missing file on node03",
        first="open(os.path.expanduser('~/own/data.bin')).close()\n",
        options=only_two,
    ),
    *(signals("KILL", target, ends=target == "a guardian") for target in TARGETS),
    signals("STOP", "a rank"),
    signals("STOP", "a supervisor"),
    signals("STOP", "the hub"),
    *(
        signals("STOP", target, ends=True)
        for target in ("a wrapper", "mpirun", "a daemon", "a guardian")
    ),
    Fault("kill -9 of node01's agent", act=kill_agent(HUB, ends=False), modes=ATTACHED),
    Fault("kill -9 of another agent", act=kill_agent(HOST, ends=True), modes=ATTACHED),
    Fault("kill -9 of ipexctl", act=lambda b: b.process and b.process.kill(), modes=ATTACHED),
    Fault("host powered off", act=fault_of(HOST, "kill"), off=HOST),
    Fault("node01 powered off", act=fault_of(HUB, "kill"), off=HUB),
    Fault("host rebooted", act=reboot),
    Fault("cable of a host out", act=fault_of(HOST, "unplug"), off=HOST),
    Fault("cable of node01 out", act=fault_of(HUB, "unplug"), off=HUB),
    Fault("cable of a host out for 10 s", act=cable_back, timeout=20),
)
