"""Asking 64 hosts (or 200) what they are: ipexctl doctor beside its peers, in turns, in a flat lab.

    python benchmarks/fanout.py [--hosts 64] [--rounds 3] [--tools DIR] [--only NAME,NAME]

Needs root (for the lab). Peers that are not installed are left out and named. DIR is the `bin` of a
virtual environment with ansible-core and pyinfra; clush and pdsh come from the distribution.

wall: seconds. cpu: user + system seconds of the tool and all its children on this side (ssh
clients included, the hosts' sshd not). rss: its largest process. Ratios compare medians: below 1
means that ipexctl needs less. The tools do unequal work: ipexctl gathers all facts, judges them and
lets hosts connect to each other; `ansible setup` gathers facts; the rest print /proc/cpuinfo. The
row "paramiko same imports" runs a Python that imports what our agent imports, and no more.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import bytecode

from ipexctl.lab import Lab, LabSpec

HERE = Path(__file__).parent
REMOTE = "python3 -I -S -c 'print(open(\"/proc/cpuinfo\").read())'"
# what our agent imports before it can answer: the modules of bootstrap, main, probe, machine, net
IMPORTS = "ast,array,fcntl,json,os,pwd,queue,select,socket,struct,sys,threading,time,types,zlib"
SAME_IMPORTS = f"python3 -I -S -c 'import {IMPORTS};print(open(\"/proc/cpuinfo\").read())'"


@dataclass(frozen=True)
class Tool:
    name: str
    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Sample:
    wall: float
    cpu: float
    rss: float
    code: int


def tools(lab: Lab, work: Path, bin_dir: Path | None, count: int) -> list[Tool]:
    hostfile, config = str(lab.hostfile), str(lab.ssh_config)
    names = Path(hostfile).read_text().split()
    known = plain_known_hosts(lab, work, names)
    found = [
        Tool(
            "ipexctl doctor",
            (sys.executable, "-m", "ipexctl", "doctor", "-f", hostfile, "-F", config, "--json"),
        ),
        Tool(
            "threaded paramiko",
            (sys.executable, str(HERE / "paramiko_loop.py"), hostfile, config, known, REMOTE),
        ),
    ]
    loop = found[-1].argv[:-1]
    found.append(Tool("paramiko same imports", (*loop, SAME_IMPORTS)))
    ssh = f"-F {config}"
    for name, argv, env in (
        ("clush", ("clush", f"-f{count}", "-o", ssh, "-w", ",".join(names), REMOTE), ()),
        (
            "pdsh",
            ("pdsh", "-R", "ssh", "-f", str(count), "-w", ",".join(names), REMOTE),
            (("PDSH_SSH_ARGS_APPEND", ssh),),
        ),
        ("pyinfra fact", _pyinfra(work, names, config, known), ()),
        ("ansible setup", _ansible(work, names, config, count), _ansible_env(work)),
    ):
        program = _which(argv[0], bin_dir)
        if program:
            found.append(Tool(name, (program, *argv[1:]), env))
        else:
            print(f"left out: {name} ({argv[0]} is not installed)", file=sys.stderr)
    return found


def _which(name: str, bin_dir: Path | None) -> str | None:
    path = f"{bin_dir}:{os.environ['PATH']}" if bin_dir else None
    return shutil.which(name, path=path)


def _pyinfra(work: Path, names: list[str], config: str, known: str) -> tuple[str, ...]:
    inventory = work / "inventory.py"
    data = {"ssh_config_file": config, "ssh_known_hosts_file": known}
    inventory.write_text(f"hosts = {[(n, data) for n in names]!r}\n")
    return ("pyinfra", "--parallel", str(len(names)), "-y", str(inventory), "fact", "server.Arch")


def _ansible(work: Path, names: list[str], config: str, count: int) -> tuple[str, ...]:
    inventory = work / "hosts.ini"
    inventory.write_text(
        "\n".join(names)
        + "\n[all:vars]\n"
        + f"ansible_ssh_common_args=-F {config}\n"
        + "ansible_python_interpreter=/usr/bin/python3\n"
    )
    return ("ansible", "all", "-i", str(inventory), "-m", "setup", "-f", str(count))


def _ansible_env(work: Path) -> tuple[tuple[str, str], ...]:
    return (
        ("ANSIBLE_SSH_CONTROL_PATH_DIR", str(work / "cp")),
        ("ANSIBLE_LOCAL_TEMP", str(work / "tmp")),
        ("ANSIBLE_CONFIG", str(_empty(work / "ansible.cfg"))),
    )


def _empty(path: Path) -> Path:
    path.write_text("")
    return path


def plain_known_hosts(lab: Lab, work: Path, names: list[str]) -> str:
    """One line per host: Paramiko's own reader knows no patterns."""
    key = Path(lab.known_hosts).read_text().split()[1:3]
    path = work / "known_hosts"
    path.write_text("".join(f"{name} {' '.join(key)}\n" for name in names))
    return str(path)


def measure(tool: Tool, work: Path) -> Sample:
    out = work / f"{tool.name.replace(' ', '-')}.out"
    began = time.monotonic()
    with out.open("wb") as log:
        process = subprocess.Popen(
            tool.argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **dict(tool.env)},
            cwd=HERE.parent,
        )
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.monotonic() - began
    _end_masters(work)
    return Sample(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, process.returncode)


def _end_masters(work: Path) -> None:
    """Ansible leaves one ssh master per host for a minute: each round begins cold."""
    for socket in (work / "cp").glob("*"):
        subprocess.run(
            ["ssh", "-O", "exit", "-o", f"ControlPath={socket}", "none"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


def table(found: list[Tool], samples: dict[str, list[Sample]]) -> str:
    base = _medians(samples[found[0].name])
    lines = [
        "| tool | wall s | cpu s | rss MiB | ipexctl's wall / its | ipexctl's cpu / its | exit |",
        "|---|---|---|---|---|---|---|",
    ]
    for tool in found:
        wall, cpu, rss = _medians(samples[tool.name])
        codes = sorted({s.code for s in samples[tool.name]})
        lines.append(
            f"| {tool.name} | {wall:.2f} | {cpu:.2f} | {rss:.0f} | {base[0] / wall:.2f} "
            f"| {base[1] / cpu:.2f} | {','.join(map(str, codes))} |"
        )
    return "\n".join(lines)


def _medians(samples: list[Sample]) -> tuple[float, float, float]:
    return (
        statistics.median(s.wall for s in samples),
        statistics.median(s.cpu for s in samples),
        statistics.median(s.rss for s in samples),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tools", type=Path, help="bin folder with ansible and pyinfra")
    parser.add_argument("--only", help="comma list of tool names")
    args = parser.parse_args()
    bytecode.make()
    with tempfile.TemporaryDirectory(prefix="ipexctl-bench-") as folder:
        work = Path(folder)
        spec = LabSpec(name="bench", flat=args.hosts).checked()
        lab = Lab.up(spec, owner=os.getpid(), root=work / "labs")
        try:
            found = tools(lab, work, args.tools, args.hosts)
            if args.only:
                wanted = args.only.split(",")
                found = [t for t in found if t.name in wanted]
            samples: dict[str, list[Sample]] = {t.name: [] for t in found}
            for round_ in range(args.rounds + 1):  # the first warms caches and is not counted
                for tool in found:
                    sample = measure(tool, work)
                    if sample.code:
                        out = (work / f"{tool.name.replace(' ', '-')}.out").read_text(
                            "utf-8", "replace"
                        )
                        print(f"{tool.name}: exit {sample.code}: {out[-500:]}", file=sys.stderr)
                    if round_:
                        samples[tool.name].append(sample)
            print(
                f"{args.hosts} hosts, {args.rounds} rounds, {os.cpu_count()} CPUs for both sides\n"
            )
            print(table(found, samples))
        finally:
            lab.down()


if __name__ == "__main__":
    main()
