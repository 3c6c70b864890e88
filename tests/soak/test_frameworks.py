"""Framework scripts on 4 hosts with 2 ranks each: does every rank train with the others?

Writes the table of docs/frameworks.md from what it saw. `make soak` only: it fetches real packages.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from ipexctl.lab import LabSpec
from tests.conftest import MakeLab

pytestmark = pytest.mark.lab
REPO = Path(__file__).parents[2]
SCRIPTS = Path(__file__).parent / "frameworks"
PAGE = REPO / "docs" / "frameworks.md"
# of the scripts beside this file, and of the examples
REPORT = re.compile(r"(?:REPORT rank=\d+ world=|world size )(\d+)(?: digest=|, loss )(.+)")
COMMON = "accelerate==1.15.0\nscikit-learn\n"
SETS = {
    "newest": COMMON + "transformers\nlightning\ntrl\npeft\ndatasets\ndeepspeed\n",
    "4.57": COMMON + "transformers==4.57.*\n",
}
TRAINER = ("--output_dir", "out", "--max_steps", "6", "--logging_steps", "1", "--report_to", "none")


@dataclass(frozen=True)
class Row:
    """One line of the table. `expected`: together, alone, or the words of the refusal."""

    what: str
    script: str
    expected: str = "together"
    args: tuple[str, ...] = ()
    options: tuple[str, ...] = ("-ppn", "2")
    sets: tuple[str, ...] = ("newest",)


def trainer(*args: str, expected: str = "together") -> Row:
    words = " ".join(("Trainer", *args)) if args else "Trainer, no flag"
    sets = ("newest", "4.57")
    return Row(words, "trainer.py", expected, (*TRAINER, *args), sets=sets)


NEEDS_CPU = "Your setup doesn't support bf16/gpu"
ROWS = (
    Row("`Accelerator()`", "accelerate_loop.py"),
    Row("`Accelerator(cpu=True)`", "accelerate_loop.py", args=("--cpu",)),
    Row("`PartialState()`", "partial_state.py", "alone"),
    Row("`PartialState(cpu=True)` and DDP", "partial_state.py", args=("--cpu",)),
    Row("Accelerate with an FSDP plugin", "accelerate_plugin.py", "alone", ("--plugin", "fsdp")),
    Row(
        "Accelerate with a DeepSpeed plugin", "accelerate_plugin.py",
        "Check batch related parameters", ("--plugin", "deepspeed"),
    ),
    trainer(),
    trainer("--use_cpu"),
    trainer("--use_cpu", "--bf16"),
    trainer("--bf16", expected=NEEDS_CPU),
    Row("TRL's SFTTrainer with PEFT's LoRA, `use_cpu=True`", "examples/lora_sft.py"),
    Row("Lightning's Trainer, devices=2, num_nodes=4", "lightning_trainer.py"),
    Row(
        "the same on unequal hosts (7 ranks)", "lightning_trainer.py",
        "Lightning needs the same number of ranks on every host", options=("-ppn", "2", "-n", "7"),
    ),
    Row("the same with `--env GROUP_RANK=0`", "lightning_trainer.py",
        options=("-ppn", "2", "--env", "GROUP_RANK=0")),
    Row("Lightning's Trainer, devices=1, num_nodes=1 (its defaults)", "lightning_trainer.py",
        "does not match the world size", ("--devices", "1", "--nodes", "1")),
    Row("Fabric, devices=2, num_nodes=4", "examples/lightning_fabric.py"),
    Row("DeepSpeed ZeRO-1 over gloo", "deepspeed_zero.py"),
    Row("FSDP2 (`fully_shard`)", "examples/fsdp2_checkpoint.py"),
)  # fmt: skip


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", SETS)
def test_every_rank_trains_with_the_others_or_it_is_said(
    make_lab: MakeLab, tmp_path: Path, name: str
) -> None:
    lab = make_lab(LabSpec.plain(4, name=f"soak{len(name)}"))
    where = ["-f", str(lab.hostfile), "-F", str(lab.ssh_config)]
    shutil.copytree(SCRIPTS, tmp_path / "project")
    shutil.copytree(REPO / "examples", tmp_path / "project" / "examples")
    (tmp_path / "project" / "requirements.txt").write_text(SETS[name])

    # a second index of this machine would hide what the first one has
    environ = {**os.environ, "PYTHONPATH": str(REPO), "PIP_CONFIG_FILE": os.devnull}
    wheels = tmp_path / "wheels"
    build_deepspeed(wheels)

    def ipexctl(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "ipexctl", words[0], *where, *words[1:]],
            cwd=tmp_path / "project", env=environ,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip

    asked = ("--stack", "stock", "-r", "requirements.txt", "--find-links", str(wheels), "-y")
    installed = ipexctl("install", *asked)
    assert installed.returncode == 0, installed.stdout + installed.stderr
    lines, wrong = [], []
    for row in (row for row in ROWS if name in row.sets):
        words = ("run", "--json", *row.options, row.script, *row.args)
        done = ipexctl(*words)
        seen, good = outcome(done, row)
        print(f"{'ok ' if good else 'BAD'} {row.what}: {seen}", flush=True)
        lines.append(f"| {row.what} | {seen} |")
        if not good:
            wrong.append((row.what, seen, done.stdout[-3000:], done.stderr[-3000:]))
    assert not wrong
    write(name, versions(tmp_path / "project" / "ipexctl.lock"), lines)


def build_deepspeed(folder: Path) -> None:
    """It has no wheel on the index; its build wants a torch to be there."""
    venv = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    pip = [str(venv / "bin" / "pip"), "-q"]
    for words in (
        ("install", "torch==2.13.0", "setuptools", "wheel"),
        ("wheel", "--no-deps", "--no-build-isolation", "deepspeed", "-w", str(folder)),
    ):
        subprocess.run([*pip, *words], check=True)
    shutil.rmtree(venv)


def outcome(done: subprocess.CompletedProcess[str], row: Row) -> tuple[str, bool]:
    """What happened in words, and whether it is what was expected."""
    events = [json.loads(line) for line in done.stdout.splitlines()]
    if events and "errors" in events[0]:  # it was refused before it started
        events = []
    texts = [e["text"] for e in events if e["event"] == "line"]
    reports = [m.groups() for m in map(REPORT.search, texts) if m]
    result = next((e for e in events if e["event"] == "result"), None)
    worlds = sorted({int(world) for world, _ in reports})
    said = ", ".join(map(str, worlds)) or "none"
    if row.expected == "together":
        same = len({digest for _, digest in reports}) == 1
        good = (
            done.returncode == 0 and len(reports) == 8 and worlds == [8] and same
            and result["exchange"]["verdict"] == "together"
        )  # fmt: skip
        equal = "equal" if same else "different"
        return f"{len(reports)} of 8 ranks report world size {said}, parameters {equal}", good
    if row.expected == "alone":
        good = worlds == [1] and result["exchange"]["alarm"]
        return (
            f"alarm: {result['exchange']['verdict']}, each rank reports world size {said}",
            good,
        )
    text = "\n".join([*texts, done.stdout, done.stderr])
    return f"exit code {done.returncode}: {row.expected}", (
        done.returncode != 0 and row.expected in text and not reports
    )


def versions(lock: Path) -> str:
    import tomllib

    wanted = ("torch", "accelerate", "transformers", "trl", "peft", "lightning", "deepspeed")
    found = {p["name"]: p["version"] for p in tomllib.loads(lock.read_text())["package"]}
    return ", ".join(f"{name} {found[name]}" for name in wanted if name in found)


def write(name: str, packages: str, lines: list[str]) -> None:
    begin, end = f"<!-- {name}: made by `make soak` -->", f"<!-- end of {name} -->"
    page = PAGE.read_text("utf-8")
    head, _, rest = page.partition(begin)
    _, _, tail = rest.partition(end)
    table = ["| script | what was seen |", "|---|---|", *lines]
    body = "\n".join(["", f"With {packages}:", "", *table, ""])
    PAGE.write_text(f"{head}{begin}\n{body}\n{end}{tail}", "utf-8")
