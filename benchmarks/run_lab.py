"""What the benchmarks of `run` share: lab hosts with one environment, and keys for the peers.

The hosts of a lab see this machine's files, so one environment (torch, impi-rt) serves them all
and nothing is installed. `ipexctl run` needs no SSH between the hosts; plain mpirun does, and gets
keys, names that resolve, and the script on every host.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import bytecode

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from ipexctl.base import quoting  # noqa: E402
from ipexctl.lab import Lab, LabSpec  # noqa: E402

HOME = "/home/trainer"


@dataclass(frozen=True)
class Hosts:
    lab: Lab
    prefix: str
    work: Path  # where the commands run on this machine

    def put(self, name: str, text: str) -> Path:
        """A script: here for ipexctl, and on every host for the peers."""
        for host in self.lab.hosts.values():
            (host.files / name).write_text(text)
        path = self.work / name
        path.write_text(text)
        return path

    def ipexctl(self, ranks: int, ppn: int, *rest: str) -> tuple[str, ...]:
        lab = ("-f", str(self.lab.hostfile), "-F", str(self.lab.ssh_config))
        size = ("-n", str(ranks), "-ppn", str(ppn))
        return (sys.executable, "-m", "ipexctl", "run", *lab, *size, *rest)

    def typed(self, line: str, env: Mapping[str, str] | None = None) -> tuple[str, ...]:
        """A line that somebody types on node01."""
        prefix = self.prefix
        set_up = {
            "PATH": f"{prefix}/bin:/usr/bin:/bin", "LD_LIBRARY_PATH": f"{prefix}/lib",
            "I_MPI_ROOT": prefix, **(env or {}),
        }  # fmt: skip
        words = quoting.quote(("env", *(f"{k}={v}" for k, v in set_up.items()), "sh", "-c", line))
        return ("ssh", "-F", str(self.lab.ssh_config), "node01", words)

    def mpirun(self, ranks: int, ppn: int, rest: str) -> str:
        return f"mpirun -f {HOME}/hosts -n {ranks} -ppn {ppn} {rest}"


@contextmanager
def hosts(count: int, prefix: str, rate: str = "") -> Iterator[Hosts]:
    bytecode.make()
    with tempfile.TemporaryDirectory(prefix="ipexctl-bench-") as folder:
        work = Path(folder)
        (work / "project").mkdir()
        plain = [replace(host, rate=rate) for host in LabSpec.plain(count).hosts]
        spec = LabSpec(name=f"run{count}", hosts=tuple(plain))
        lab = Lab.up(spec, owner=os.getpid(), root=work / "labs")
        try:
            for name in lab.hosts:
                _furnish(lab, name, prefix)
            yield Hosts(lab, prefix, work / "project")
        finally:
            lab.down()


def _furnish(lab: Lab, name: str, prefix: str) -> None:
    names = "".join(f"{host}\n" for host in lab.hosts)
    files = {
        ".ssh/id_ed25519": Path(lab.identity).read_text(),
        ".ssh/known_hosts": Path(lab.known_hosts).read_text(),
        "hosts": names,
    }
    home = lab.hosts[name].files
    (home / ".ssh").mkdir(mode=0o700, exist_ok=True)
    for path, text in files.items():
        (home / path).write_text(text)
        (home / path).chmod(0o600)
    line = f"mkdir -m 700 ~/.ipexctl && ln -s {prefix} ~/.ipexctl/current"
    known = "".join(f"{host.address} {host.name}\n" for host in lab.hosts.values())
    for argv, user in (
        (["sh", "-c", 'printf %s "$0" >> /etc/hosts', known], None),  # the peers need names
        (["chown", "-R", "trainer:", f"{HOME}/.ssh", f"{HOME}/hosts"], None),
        (["sh", "-c", line], "trainer"),
    ):
        done = lab.run_in(name, argv, user=user) if user else lab.run_in(name, argv)
        assert done.returncode == 0, done.stderr


def timed(argv: Sequence[str], wanted: int, cwd: Path) -> tuple[float, float]:
    """Seconds until the `wanted`th line that says `up`, and until the end."""
    began = time.monotonic()
    process = subprocess.Popen(
        argv, cwd=cwd, env=environment(), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout and process.stderr
    found, first = 0, 0.0
    for line in process.stdout:
        if line.rstrip().endswith("up"):
            found += 1
            first = time.monotonic() - began
    errors = process.stderr.read()
    wall = time.monotonic() - began
    if process.wait() or found != wanted:
        raise SystemExit(
            f"{argv}\nended with {process.returncode}, {found} lines\n{errors[-3000:]}"
        )
    return first, wall


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(HERE.parent)}


def load() -> str:
    return f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} CPUs for all"


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def options(text: str, **defaults: int | str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=text.splitlines()[0])
    parser.add_argument(
        "--prefix", required=True, help="environment with torch and impi-rt; not below /home, /tmp"
    )
    for name, default in defaults.items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    return parser.parse_args()
