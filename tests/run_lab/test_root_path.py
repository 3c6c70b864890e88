"""A root folder whose path no MPI can use: refused by every command before a file is written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

REPO = Path(__file__).parents[2]
WHY = "MPI launchers split or misread such a path, so no run could start from it"


def ipexctl(lab, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "ipexctl", words[0], "-H", "node01", "-F", str(lab.ssh_config)]
    env = {**os.environ, "PYTHONPATH": str(REPO)}
    return subprocess.run(
        [*argv, *words[1:]], stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=folder,
        env=env, timeout=120,
    )  # fmt: skip


def test_doctor_install_and_run_refuse_a_space(lab3, tmp_path):
    (tmp_path / "train.py").write_text("")
    root = "~/my files"
    seen = ipexctl(lab3, tmp_path, "doctor", "--root", root, "--json")
    found = {f["id"]: f for f in json.loads(seen.stdout)["hosts"][0]["findings"]}
    assert seen.returncode == 1
    assert found["DISK-009"]["evidence"].startswith("/home/trainer/my files ")
    assert found["DISK-009"]["why"].startswith(WHY)
    for words in (("install", "-y"), ("run", "train.py")):
        done = ipexctl(lab3, tmp_path, words[0], "--root", root, *words[1:])
        said = done.stdout + done.stderr
        assert done.returncode != 0
        assert "the root folder /home/trainer/my files contains a space" in said
        assert lab3.run_in("node01", ["ls", "/home/trainer/my files"]).returncode == 2


def test_a_root_may_have_letters_other_than_ascii(installed_lab, tmp_path):
    """Moved there: an environment may lie anywhere."""
    (tmp_path / "train.py").write_text("import os; print('rank', os.environ['RANK'])")
    move = "mkdir größe && cp -al .ipexctl/envs .ipexctl/current größe"
    for host in installed_lab.hosts:
        assert installed_lab.run_in(host, ["sh", "-c", move], user="trainer").returncode == 0
    argv = ["-f", str(installed_lab.hostfile), "-F", str(installed_lab.ssh_config), "-n", "3"]
    done = subprocess.run(
        [sys.executable, "-m", "ipexctl", "run", *argv, "--root", "~/größe", "train.py"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPO)}, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert sorted(line[-6:] for line in done.stdout.splitlines() if "| rank" in line) == [
        "rank 0", "rank 1", "rank 2"
    ]  # fmt: skip
    for host in installed_lab.hosts:
        installed_lab.run_in(host, ["rm", "-r", "/home/trainer/größe"])
