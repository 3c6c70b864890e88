"""The same steps by ipexctl, Ansible and pyinfra, side by side.

    python benchmarks/plays.py --tools DIR [--rounds 5] [--only few,many,step]

Needs root (for the lab); DIR is the `bin` of an environment with ansible-core and pyinfra. All use
the same ssh_config. Ansible has 64 forks, pipelining, no facts.

few: 12 steps on 4 practice hosts. many: file, line, copy and sh in the homes of 64 flat hosts.
step: what one more step costs on 64 hosts. first: the hosts have nothing. unchanged: once more.
Hosts and controller share this machine's CPUs. Ratios below 1 mean that ipexctl needs less.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from ipexctl.lab import Lab, LabSpec  # noqa: E402

FEW = ("dir a", "dir b", "copy a/x", "copy a/y", "copy b/z", "line a/c 1", "line a/c 2",
       "line b/c 3", "link a/l", "link b/l", "sh a/s", "sh b/s")  # fmt: skip
MANY = ("dir a", "line a/c 1", "copy a/x", "sh a/s")
TOP = "bench"


@dataclass(frozen=True)
class Tool:
    name: str
    write: Callable[[tuple[str, ...]], str]
    file: str
    argv: Callable[[Lab, Path, Path], list[str]]


def ipexctl_play(steps: tuple[str, ...]) -> str:
    lines = ["steps:"]
    for step in steps:
        kind, path, rest = (step + " - -").split()[:3]
        at = f"~/{TOP}/${{host}}/{path}"
        lines.append("  - " + {
            "dir": f"file: {{path: '{at}', state: directory}}",
            "copy": f"copy: {{src: payload, dest: '{at}'}}",
            "line": f"line: {{path: '{at}', line: 'value {rest}', create: true}}",
            "link": f"file: {{path: '{at}', state: link, src: x}}",
            "sh": f"sh: {{cmd: 'touch {at}', creates: '{at}'}}",
        }[kind])  # fmt: skip
    return "\n".join(lines) + "\n"


def ansible_play(steps: tuple[str, ...]) -> str:
    lines = ["- hosts: all", "  gather_facts: false", "  tasks:"]
    for step in steps:
        kind, path, rest = (step + " - -").split()[:3]
        at = f"~/{TOP}/{{{{ inventory_hostname }}}}/{path}"
        lines.append("    - " + {
            "dir": f"file: {{path: '{at}', state: directory}}",
            "copy": f"copy: {{src: payload, dest: '{at}'}}",
            "line": f"lineinfile: {{path: '{at}', line: 'value {rest}', create: true}}",
            "link": f"file: {{path: '{at}', state: link, src: x, force: true}}",
            "sh": f"shell: {{cmd: 'touch {at}', creates: '{at}'}}",
        }[kind])  # fmt: skip
    return "\n".join(lines) + "\n"


def pyinfra_deploy(steps: tuple[str, ...]) -> str:
    """It has no `creates`: its shell code looks for itself, and counts as changed."""
    lines = ["from pyinfra import host", "from pyinfra.operations import files, server"]
    for step in steps:
        kind, path, rest = (step + " - -").split()[:3]
        at = f"{TOP}/{{host.name}}/{path}"
        lines.append({
            "dir": f"files.directory(path=f'{at}')",
            "copy": f"files.put(src='payload', dest=f'{at}')",
            "line": f"files.line(path=f'{at}', line=\"value {rest}\", ensure_newline=True)",
            "link": f"files.link(path=f'{at}', target='x')",
            "sh": f"server.shell(commands=[f'test -e {at} || touch {at}'])",
        }[kind])  # fmt: skip
    return "\n".join(lines) + "\n"


def tools(folder: Path) -> list[Tool]:
    reach = lambda lab: ["-f", str(lab.hostfile), "-F", str(lab.ssh_config)]  # noqa: E731
    return [
        Tool("ipexctl", ipexctl_play, "play.yaml", lambda lab, top, _: [
            sys.executable, "-m", "ipexctl", "play", "play.yaml", *reach(lab)]),
        Tool("ansible", ansible_play, "site.yml", lambda lab, top, bin: [
            str(bin / "ansible-playbook"), "-i", "inventory", "site.yml", "-f", "64",
            f"--ssh-common-args=-F {lab.ssh_config}"]),
        Tool("pyinfra", pyinfra_deploy, "deploy.py", lambda lab, top, bin: [
            str(bin / "pyinfra"), "-y", "--data", f"ssh_config_file={lab.ssh_config}",
            "inventory.py", "deploy.py"]),
    ]  # fmt: skip


def measure(argv: list[str], folder: Path) -> tuple[float, float]:
    """Wall and controller CPU, seconds."""
    environment = {
        **os.environ, "PYTHONPATH": str(HERE.parent), "ANSIBLE_PIPELINING": "1",
        "XDG_STATE_HOME": str(folder), "ANSIBLE_HOME": str(folder / "ansible"),
    }  # fmt: skip
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    done = subprocess.run(
        argv,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()[-3000:]
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def write_project(lab: Lab, folder: Path, steps: tuple[str, ...]) -> None:
    (folder / "payload").write_bytes(b"payload\n" * 500)
    names = lab.hostfile.read_text().split()
    (folder / "inventory").write_text("\n".join(names) + "\n")
    (folder / "inventory.py").write_text(f"hosts = {names!r}\n")
    for tool in tools(folder):
        (folder / tool.file).write_text(tool.write(steps))


def compare(lab: Lab, folder: Path, bin: Path, steps: tuple[str, ...], rounds: int) -> None:
    write_project(lab, folder, steps)
    unchanged: dict[str, list[tuple[float, float]]] = {}
    first: dict[str, tuple[float, float]] = {}
    for tool in tools(folder):
        clean(lab)
        first[tool.name] = measure(tool.argv(lab, folder, bin), folder)
    for _ in range(rounds):
        for tool in tools(folder):
            unchanged.setdefault(tool.name, []).append(measure(tool.argv(lab, folder, bin), folder))
    print("\n| tool | first s | unchanged s | spread | cpu s | ipexctl's wall / its | cpu / its |")
    print("|---|---|---|---|---|---|---|")
    ours = [statistics.median(values) for values in zip(*unchanged["ipexctl"], strict=True)]
    for name, found in unchanged.items():
        wall, cpu = (statistics.median(values) for values in zip(*found, strict=True))
        walls = sorted(w for w, _ in found)
        print(
            f"| {name} | {first[name][0]:.2f} | {wall:.2f} | {walls[0]:.2f}-{walls[-1]:.2f} "
            f"| {cpu:.2f} | {ours[0] / wall:.2f} | {ours[1] / cpu:.2f} |"
        )
    print()


def clean(lab: Lab) -> None:
    for home in {host.files for host in lab.hosts.values()}:
        shutil.rmtree(Path(home) / TOP, ignore_errors=True)


def one_step_more(lab: Lab, folder: Path, bin: Path, rounds: int) -> None:
    """12 further steps in the same play, divided by 12."""
    ipexctl = tools(folder)[0]
    costs = []
    for _ in range(rounds):
        walls = []
        for steps in (MANY, MANY + tuple(f"dir a/{i}" for i in range(12))):
            write_project(lab, folder, steps)
            measure(ipexctl.argv(lab, folder, bin), folder)
            walls.append(measure(ipexctl.argv(lab, folder, bin), folder)[0])
        costs.append((walls[1] - walls[0]) / 12)
    print(f"one step more: {statistics.median(costs) * 1000:.1f} ms "
          f"({min(costs) * 1000:.1f}-{max(costs) * 1000:.1f})")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tools", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="few,many,step")
    asked = parser.parse_args()
    bin, wanted = asked.tools.resolve(), asked.only.split(",")
    with tempfile.TemporaryDirectory(prefix="plays-") as top:
        folder = Path(top)
        if "few" in wanted:
            lab = Lab.up(LabSpec.plain(4, name="few"), owner=os.getpid(), root=folder / "labs")
            print(f"{len(FEW)} steps on 4 hosts, {asked.rounds} rounds")
            compare(lab, folder, bin, FEW, asked.rounds)
            lab.down()
        if {"many", "step"} & set(wanted):
            spec = LabSpec(name="many", flat=64)
            lab = Lab.up(spec, owner=os.getpid(), root=folder / "labs")
            if "many" in wanted:
                print(f"{len(MANY)} steps on 64 hosts, {asked.rounds} rounds")
                compare(lab, folder, bin, MANY, asked.rounds)
            if "step" in wanted:
                one_step_more(lab, folder, bin, asked.rounds)
            lab.down()


if __name__ == "__main__":
    main()
