"""Every command line of the guides on four practice hosts, and what it does today.

    python benchmarks/guide_lines.py [--mpi intel,mpich,openmpi] [--only NUMBER,...]
                                     [--results FILE] [--write FILE]

Each line of guide_lines/lines.toml is typed as it is, after `ipexctl run`. "works" means that the
script's ranks saw one world of the size in the table, and that the command ended with 0. --results
keeps what was found, a line for each, and the table has all of it. Needs root, for the hosts'
namespaces, and installs torch, Accelerate and transformers for each MPI. Ranks
outnumber the CPUs of these hosts: --force.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ipexctl.base.toml import loads
from ipexctl.lab import HostSpec, Lab, LabSpec

HERE = Path(__file__).parent / "guide_lines"
EXAMPLES = Path(os.environ.get("EXAMPLES", Path(__file__).parents[1] / "examples"))
IPEXCTL = [sys.executable, "-m", "ipexctl"]
MPIS = ("intel", "mpich", "openmpi")
TODAY, OLD = "today", "accelerate-1.12"
PACKAGES = {
    TODAY: "accelerate\ntransformers\ndatasets\n",
    OLD: "accelerate==1.12.0\ntransformers==4.57.3\ndatasets\n",
}
PATIENCE = 600.0  # 16 ranks on two CPUs
Found = dict[int, dict[str, str]]  # line -> MPI -> what it did
CONFIG = ".cache/huggingface/accelerate/default_config.yaml"  # where Accelerate looks, at home


@dataclass(frozen=True)
class Line:
    guide: str
    line: str
    config: str = ""
    packages: str = TODAY


@dataclass(frozen=True)
class Project:
    """A folder with one MPI and one set of packages, as a user would have it."""

    lab: Lab
    mpi: str
    folder: Path
    root: str

    @property
    def reach(self) -> list[str]:
        return [
            "-f",
            str(self.folder / "hostfile"),
            "-F",
            str(self.lab.ssh_config),
            "--root",
            self.root,
        ]

    def run(self, words: list[str], home: Path) -> tuple[int, str]:
        done = subprocess.run(
            [*IPEXCTL, *words], cwd=self.folder, stdin=subprocess.DEVNULL, check=False, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE,
            env={**os.environ, "HF_HOME": str(home / ".cache/huggingface")},
        )  # fmt: skip
        return done.returncode, done.stdout


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mpi", default=",".join(MPIS))
    parser.add_argument("--only", default="")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--write", type=Path)
    asked = parser.parse_args()
    lines = [read(raw) for raw in loads((HERE / "lines.toml").read_text())["lines"]]
    chosen = [int(n) for n in asked.only.split(",") if n] or range(1, len(lines) + 1)
    results = asked.results or Path(os.devnull)
    found: Found = {}
    for text in results.read_text().splitlines() if results.exists() else ():
        number, mpi, said = json.loads(text)
        found.setdefault(number, {})[mpi] = said
    with tempfile.TemporaryDirectory(prefix="guide-lines-") as folder:
        hosts = (HostSpec(), HostSpec(nics=("ens3",)), HostSpec(), HostSpec())
        spec = LabSpec(name="guides", hosts=hosts)
        lab = Lab.up(spec, owner=os.getpid(), root=Path(folder) / "labs")
        try:
            for mpi in asked.mpi.split(","):
                for packages in PACKAGES:
                    wanted = [n for n in chosen if lines[n - 1].packages == packages]
                    if not wanted:
                        continue
                    project = install(lab, mpi, packages, Path(folder))
                    for number in wanted:
                        said = tried(project, lines[number - 1])
                        found.setdefault(number, {})[mpi] = said
                        print(number, mpi, said, flush=True)
                        with results.open("a") as file:
                            file.write(json.dumps([number, mpi, said]) + "\n")
        finally:
            lab.down()
    text = table(found, lines)
    print(text)
    if asked.write:
        asked.write.write_text((HERE / "head.md").read_text() + text + "\n")


def table(found: Found, lines: list[Line]) -> str:
    mpis = [mpi for mpi in MPIS if any(mpi in of_mpi for of_mpi in found.values())]
    rows = ["| | guide | line | with | " + " | ".join(mpis) + " |"]
    rows.append("|---|---|---|---|" + "---|" * len(mpis))
    for number, of_mpi in sorted(found.items()):
        rows.append(row(number, lines[number - 1], of_mpi, mpis))
    return "\n".join(rows)


def read(raw: dict[str, str]) -> Line:
    return Line(raw["guide"], raw["line"], raw.get("config", ""), raw.get("with", TODAY))


def install(lab: Lab, mpi: str, packages: str, top: Path) -> Project:
    folder = top / f"{mpi}-{packages}"
    (folder / "examples").mkdir(parents=True)
    project = Project(lab, mpi, folder, f"~/.{mpi}-{packages}")
    text = (EXAMPLES / "text_classification.py").read_text()  # so many ranks have a step each
    text = text.replace("if after >= before:", "if after != after:")
    (folder / "examples/nlp_example.py").write_text(text)
    shutil.copy(HERE / "run_qa.py", folder)
    for name in ("my_script.py", "script.py"):
        text = text.replace("parser.parse_args()", "parser.parse_known_args()[0]")
        (folder / name).write_text(text)
    shutil.copy(HERE / "single.yaml", folder / "xxxxx.yaml")
    (folder / "hostfile").write_text("".join(f"{name}\n" for name in lab.hosts))
    (folder / "requirements.txt").write_text(PACKAGES[packages])
    words = ["install", *project.reach, "--mpi", mpi, "-r", "requirements.txt", "-y"]
    code, said = project.run(words, top)
    assert code == 0, said
    return project


def tried(project: Project, line: Line) -> str:
    home = project.folder / "home"
    shutil.rmtree(home, ignore_errors=True)
    config = home / CONFIG
    config.parent.mkdir(parents=True)
    if line.config:
        text = (HERE / line.config).read_text().replace("/home/user/hostfile", "hostfile")
        node0 = next(iter(project.lab.hosts.values()))
        text = text.replace("36.112.23.24", node0.address)  # the guide's own main_process_ip
        config.write_text(text)
    words = ["run", *project.reach, "--force", *split(line.line)]
    try:
        code, said = project.run(words, home)
    except subprocess.TimeoutExpired:
        return f"**hangs** ({PATIENCE:.0f} s)"
    return outcome(code, said)


def split(line: str) -> list[str]:
    """As the user's shell does it."""
    done = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {line}"], capture_output=True, check=True, text=True
    )
    return done.stdout.split("\0")[:-1]


def outcome(code: int, said: str) -> str:
    told = re.findall(r"world size (\d+)", said)
    sizes = set(told)
    if code == 0 and sizes == {"1"} and len(told) > 1:
        return f"**{len(told)} ranks, each alone**"
    if code == 0 and len(sizes) == 1:
        return f"works, world size {sizes.pop()}"
    if code == 0:
        return f"ends with 0; {'world sizes ' + ', '.join(sorted(sizes)) if sizes else 'no ranks'}"
    return " ".join(last_words(said)) + f" (code {code})"


def last_words(said: str) -> Iterator[str]:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    ours = [i for i, line in enumerate(lines) if re.match(r"ipexctl: (?!note:)", line)]
    if ours:
        yield from lines[ours[-1] : ours[-1] + 4]
        return
    causes = [line for line in lines if line.startswith(("cause:", "failed:", "why:", "fix:"))]
    yield from causes or lines[-2:]


def short(said: str) -> str:
    """Without paths of this run, and not longer than a cell."""
    said = re.sub(r"/\S*/envs/\w+", "ENV", said)
    return said if len(said) <= 400 else f"{said[:200]} ... {said[-180:]}"


def row(number: int, line: Line, found: dict[str, str], mpis: list[str]) -> str:
    text = " ".join(line.line.replace("\\\n", " ").split())
    cells = [short(found.get(mpi, "")).replace("|", "\\|") for mpi in mpis]
    cells = [cells[0], *("the same" if c == cells[0] else c for c in cells[1:])]
    typed = f"`ipexctl run {text}`"
    return f"| {number} | {line.guide} | {typed} | {line.packages} | {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
