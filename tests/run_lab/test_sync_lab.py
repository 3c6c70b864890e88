"""What ranks on real hosts find: the project, where they start in it, and data."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.any_rung

REPO = Path(__file__).parents[2]

LOOK = (
    "import json, os, sys\n"
    "seen = sorted(os.listdir('..'))  # before an import leaves its cache there\n"
    "sys.path.insert(0, '..')\n"
    "import lib\n"
    "data = {k: v for k, v in os.environ.items() if k.startswith(('IPEXCTL_DATA', 'HF_'))}\n"
    "open('made.txt', 'w').write('x')\n"
    "print(json.dumps([os.getcwd(), seen, data]))\n"
)


def project(runner):
    for name in (".git", "jobs", "empty", "secret"):
        (runner.folder / name).mkdir()
    runner.script("lib = 1\n", "lib.py")
    runner.script("TOKEN=1\n", ".env")
    runner.script("/secret/\n", ".gitignore")
    return runner.script(LOOK, "jobs/look.py")


def test_the_work_tree_goes_and_ranks_start_beside_a_script_that_is_named_from_elsewhere(
    namespaces, runner
):
    script = project(runner)
    outside = runner.folder.parent / "outside"
    outside.mkdir(exist_ok=True)
    runner.folder = outside
    run = runner.start("-n", "3", "--fetch", "made.txt", str(script))
    assert run.finish()["exit_code"] == 0
    work = f"/home/trainer/.ipexctl/runs/{run.run_id}/work"
    said = [run.lines(rank) for rank in range(3)]
    wanted = f'["{work}/jobs", [".gitignore", "empty", "jobs", "lib.py"], {{}}]'
    assert said == [[wanted]] * 3
    outputs = outside / ".ipexctl/runs" / run.run_id / "outputs"
    assert (outputs / "jobs/made.txt").read_text() == "x"


def test_small_data_that_git_ignores_is_on_the_hosts_and_no_secret_is(namespaces, runner):
    for folder in (".git", "data/set", "out", "keys"):
        (runner.folder / folder).mkdir(parents=True)
    names = ("data/set/train.bin", "data/set/val.bin", "data/set/meta.pkl", "data/set/big.w")
    names += ("data/set/small.w", "out/ckpt.bin", "keys/a.bin", ".env")
    for name in names:
        runner.script("1", name)
    runner.script("*.bin\n*.pkl\n*.w\n.env\n", ".gitignore")
    script = runner.script(
        "import os, sys\n"
        "seen = [os.path.join(d, f) for d, _, fs in os.walk('.') for f in fs]\n"
        "print(*sorted(seen))\n"
        "if len(sys.argv) > 1: open('data/set/big.w')\n"
    )
    done = runner.plain("-n", "3", str(script))
    assert done.returncode == 0, done.stderr
    found = (
        f"./.gitignore ./data/set/meta.pkl ./data/set/train.bin ./data/set/val.bin ./{script.name}"
    )
    assert done.stdout.count(found) in (1, 3), done.stdout  # the same line of all is folded
    assert done.stderr.count(" .gitignore: 4 files (4 bytes): ") == 1
    failed = runner.plain("-n", "3", str(script), "fail")
    assert failed.returncode == 1
    (way,) = [x[7:] for x in failed.stderr.splitlines() if x.startswith("  try: ")]
    subprocess.run(["sh", "-c", way], check=True)
    assert runner.plain("-n", "3", str(script), "fail").returncode == 0
    assert (runner.folder / ".ipexctlignore").read_text().split() == [
        "!/data/set/big.w", "!/data/set/small.w",
    ]  # fmt: skip


def test_without_sync_ranks_start_where_the_files_are_and_hosts_without_are_named(
    namespaces, runner
):
    put = "mkdir -p ~/place; echo 'import os; print(os.getcwd())' >~/place/there.py"
    for name in runner.lab.hosts:
        runner.lab.run_in(name, ["sh", "-c", put], user="trainer")
    done = runner.plain("-n", "3", "--no-sync", "/home/trainer/place/there.py")
    assert done.returncode == 0, done.stderr
    ranks = [line for line in done.stdout.splitlines() if " | " in line]
    assert [line.partition(" | ")[2] for line in ranks] == ["/home/trainer/place"] * 3
    assert " /home/trainer/place\n" in done.stderr
    gone = runner.plain("-n", "3", "--no-sync", "/no-such-folder/there.py")
    assert (gone.returncode, gone.slug) == (120, "hosts-not-ready")
    assert " there.py in /no-such-folder" in gone.stderr


def test_data_is_found_by_ranks_under_the_path_of_their_own_host(runner):
    hub = runner.folder / "hub" / "models--org--m"
    (hub / "snapshots" / "rev").mkdir(parents=True)
    (hub / "snapshots" / "rev" / "config.json").write_text("{}")
    lab = ["-f", str(runner.lab.hostfile), "-F", str(runner.lab.ssh_config)]
    argv = [sys.executable, "-m", "ipexctl", "data", "push", "hub", "--as", "m-1", *lab]
    env = {**os.environ, "PYTHONPATH": str(REPO)}
    pushed = subprocess.run(argv, cwd=runner.folder, env=env, capture_output=True, text=True)
    assert pushed.returncode == 0, pushed.stderr
    script = runner.script(
        "import os\n"
        "home, data = os.environ['HF_HOME'], os.environ['IPEXCTL_DATA_M_1']\n"
        "print(os.path.samefile(f'{home}/hub', data), os.environ['HF_HUB_OFFLINE'],\n"
        "  os.listdir(f'{data}/models--org--m/snapshots/rev'))\n"
    )
    run = runner.start("-n", "3", "--data", "m-1", str(script))
    assert run.finish()["exit_code"] == 0
    assert [run.lines(r) for r in range(3)] == [["True 1 ['config.json']"]] * 3
    notes = [e["text"] for e in run.events if e["event"] == "note"]
    (note,) = [text for text in notes if "m-1: version " in text]
    assert note.endswith(f":{runner.folder}/hub")
    lacking = runner.plain("-n", "1", "--data", "other", str(script))
    assert (lacking.returncode, lacking.slug) == (120, "dataset-versions-differ")
    assert "node01: " in lacking.errors[0].why
