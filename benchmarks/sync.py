"""2,000 small files to four lab hosts: what `run` does before it starts, beside parallel rsync.

    python benchmarks/sync.py [--hosts 4] [--files 2000] [--rounds 5]

Needs root (for the lab) and rsync. The files are sources of the Python that runs this, at most
16 kB each, in its folders. first: a folder that the hosts have never seen. unchanged: the same
folder once more, as the next run does it. edited: ten files have changed. Both sides connect anew
each time, over the same SSH; ipexctl reads the folder, connects to all hosts, sends, and lays out a
new snapshot for this run, which rsync does not: it changes one folder in place. Of ipexctl, `sync`
is the part that comes after connecting: what `run` adds to the connections that it has anyway.
Rounds take turns; the median is shown. Hosts and controller share this machine's CPUs.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import bytecode

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from ipexctl.lab import Lab, LabSpec  # noqa: E402
from ipexctl.machines.agent_start import start_host_agent  # noqa: E402
from ipexctl.machines.fleet import fan_out  # noqa: E402
from ipexctl.machines.ssh.paramiko_transport import SshTransport  # noqa: E402
from ipexctl.machines.target import Target, read_inventory  # noqa: E402
from ipexctl.project.send_agreed import answer_no  # noqa: E402
from ipexctl.project.send_project import Project, read_project  # noqa: E402

STATES = ("first", "unchanged", "edited")
EDITED = 10


def main() -> None:
    args = _arguments()
    bytecode.make()
    with tempfile.TemporaryDirectory() as scratch:
        lab = Lab.up(LabSpec.plain(args.hosts, name="syncbench"), owner=os.getpid())
        try:
            _compare(lab, Path(scratch), args.files, args.rounds)
        finally:
            lab.down()


def _compare(lab: Lab, scratch: Path, count: int, rounds: int) -> None:
    cache = {"XDG_CACHE_HOME": str(scratch / "cache")}
    times: dict[tuple[str, str], list[float]] = {}
    for number in range(rounds):
        folder = scratch / f"project{number}"
        size = _fill(folder, count, f"# {number}\n".encode())
        time.sleep(2.5)  # a project is older than that; hashes of younger files are not kept
        for state in STATES:
            if state == "edited":
                for path in sorted(folder.rglob("*.py"))[:: count // EDITED]:
                    path.write_bytes(path.read_bytes() + b"# edited\n")
            sides = [("ipexctl", _ipexctl), ("rsync", _rsync)]
            for name, side in sides[:: 1 if number % 2 else -1]:
                for part, seconds in side(lab, folder, f"{number}-{state}", cache).items():
                    times.setdefault((state, f"{name}{part}"), []).append(seconds)
    print(f"{count} files, {size / 1e6:.1f} MB, {len(lab.hosts)} hosts, median of {rounds} (s)")
    print(f"{'':10}{'ipexctl':>9}{'(sync)':>9}{'rsync':>9}{'ratio':>8}{'more':>8}")
    for state in STATES:
        ours, sync, rsync = (
            statistics.median(times[state, side]) for side in ("ipexctl", "ipexctl sync", "rsync")
        )
        print(
            f"{state:10}{ours:9.2f}{sync:9.2f}{rsync:9.2f}{ours / rsync:8.2f}{ours - rsync:+8.2f}"
        )


def _fill(folder: Path, count: int, head: bytes) -> int:
    size = 0
    for source, below in _sources(count):
        path = folder / below
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(head + source.read_bytes())
        size += path.stat().st_size
    return size


def _sources(count: int) -> Iterator[tuple[Path, Path]]:
    """The standard library, as often as it takes."""
    top = Path(os.__file__).parent
    found = [p for p in sorted(top.rglob("*.py")) if p.stat().st_size <= 16_000]
    for i in range(count):
        path = found[i % len(found)]
        yield path, Path(f"part{i // len(found)}") / path.relative_to(top)


def _ipexctl(lab: Lab, folder: Path, name: str, cache: dict[str, str]) -> dict[str, float]:
    hosts = read_inventory(Target(hostfile=lab.hostfile)).hosts
    began = time.monotonic()
    transport = SshTransport(hosts, lab.ssh_config)
    agents = fan_out(hosts, lambda host: start_host_agent(transport, host))
    connected = time.monotonic()
    try:
        snapshot = read_project(Project(folder), answer_no, cache)
        sent = fan_out(hosts, lambda h: snapshot.bring(agents[h], "~/.ipexctl", f"run-{name}"))
        done = time.monotonic()
        assert all(s.cwd for s in sent.values()), sent
    finally:
        for agent in agents.values():
            agent.close()
        transport.close()
    return {"": done - began, " sync": done - connected}


def _rsync(lab: Lab, folder: Path, name: str, cache: dict[str, str]) -> dict[str, float]:
    shell = shlex.join(["ssh", "-F", str(lab.ssh_config)])
    argv = ["rsync", "-a", "--delete", "-e", shell, f"{folder}/"]
    target = f"rsync-{name.partition('-')[0]}/"
    began = time.monotonic()
    running = [subprocess.Popen([*argv, f"{host}:{target}"]) for host in lab.hosts]
    assert [process.wait() for process in running] == [0] * len(running)
    return {"": time.monotonic() - began}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    if not shutil.which("rsync"):
        parser.error("rsync is not installed here")
    return args


if __name__ == "__main__":
    main()
