"""Pasted lines that run, on this machine, which has a stand-in for torch."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.run.test_ps_local import Here

SHOW = (
    "import os, sys, torch\n"
    "names = ('WORLD_SIZE', 'A', 'B', 'ACCELERATE_MIXED_PRECISION')\n"
    "print('rank', *(os.environ.get(name) for name in names), *sys.argv[1:], flush=True)\n"
    "sys.exit(int(os.environ['RANK']) * int(os.environ.get('FAILS', '0')))\n"
)
CONFIG = "num_machines: 1\nnum_processes: 2\nmixed_precision: bf16\n"


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Here]:
    made = Here(tmp_path)
    (made.code / "show.py").write_text(SHOW)
    (made.code / "c.yaml").write_text(CONFIG)
    yield made


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        ("python3 -u show.py x", "rank 1 None None None x"),
        ("torchrun --nproc-per-node 2 show.py x", "rank 2 None None None x"),
        ("mpirun -n 2 -genv A=5 -genv B 3 python3 show.py", "rank 2 5 3 None"),
        ("accelerate launch --config_file c.yaml show.py", "rank 2 None None bf16"),
        ("-n 1 --env A=1 accelerate launch --config_file c.yaml show.py", "rank 1 1 None bf16"),
        ("mpirun -n 2 accelerate launch --mixed_precision no show.py", "rank 2 None None no"),
        ("--accelerate c.yaml --env A=7 show.py -n 5", "rank 2 7 None bf16 -n 5"),
    ],
)
def test_a_pasted_line_runs(here: Here, line: str, seen: str) -> None:
    done = here.call("run", "--force", "--ui", "plain", *line.split())
    assert done.returncode == 0, done.stderr
    got = [text[text.index("rank ") :] for text in done.stdout.splitlines() if "rank " in text]
    assert got == [seen] * int(seen.split()[1])
    assert done.stderr.count("replaced by: ") == (not line.startswith("--accelerate"))


@pytest.mark.parametrize(
    ("line", "again"),
    [
        ("mpirun -n 2 -genv FAILS 3 -genv MY_TOKEN=x python3 show.py x",
         "-n 2 --env FAILS=3 --env MY_TOKEN --force --ui plain show.py x"),
        ("--env FAILS=3 accelerate launch --config_file c.yaml show.py x",
         "--accelerate c.yaml --force --ui plain --env FAILS=3 show.py x"),
    ],
)  # fmt: skip
def test_the_summary_says_how_to_start_it_again(here: Here, line: str, again: str) -> None:
    done = here.call("run", "--force", "--ui", "plain", *line.split())
    assert done.returncode == 3, done.stderr
    assert f": ipexctl run {again}\n" in done.stderr
    assert "MY_TOKEN=x" not in done.stderr


def test_the_line_after_a_missing_file_brings_it_and_names_it_as_hosts_see_it(here: Here) -> None:
    (here.code.parent / "set.txt").write_text("5")
    (here.code / "read.py").write_text("import sys, torch\nprint(open(sys.argv[1]).read())\n")
    done = here.call("run", "--force", "-n", "2", "read.py", "../set.txt")
    assert done.returncode == 1
    lines = [text.strip() for text in done.stderr.splitlines()]
    offered = [text for text in lines if text.startswith(("try: ", "again: "))]
    source = here.code.parent / "set.txt"
    line = f"cp {source} . && ipexctl run --force -n 2 read.py set.txt"
    assert offered == [f"try: {line}"], done.stderr
    copy, _, again = line.partition(" && ipexctl ")
    subprocess.run(["sh", "-c", copy], cwd=here.code, check=True)
    done = here.call(*again.split())
    assert (done.returncode, done.stdout.count("| 5")) == (0, 2), done.stderr


def test_what_is_refused_starts_nothing(here: Here) -> None:
    done = here.call("run", "torchrun", "--nnodes", "1:4", "show.py")
    assert (done.returncode, done.stdout) == (2, "")
    what, why, *hint = done.stderr.splitlines()
    assert what.startswith("ipexctl: torchrun --nnodes 1:4 ")
    assert why.startswith("  why: MIN:MAX ")
    assert hint == ["  try: ipexctl run torchrun --nnodes 4 show.py", "       # --nnodes N"]
    assert here.call("ps", "-a").stdout.count("show.py") == 0
