"""The real IPEX on two practice hosts: installed, proved, and trained with. `make test-ipex` only.

It takes gigabytes and minutes, so neither `make test` nor .ci/run collects it. The real
oneccl_bind_pt is not part of it: no index that could be reached has ever had it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ipexctl.lab import LabSpec
from ipexctl.stack.lock_file import parse_lock
from tests.conftest import MakeLab

pytestmark = pytest.mark.lab
REPO = Path(__file__).parents[2]
ROOM = 26 * 10**9
FLAGS = frozenset({"avx512bw", "avx512dq", "avx512vl"})


@pytest.mark.timeout(3600)
def test_ipex_is_installed_proved_and_trains_in_bf16_on_two_hosts(
    make_lab: MakeLab, tmp_path: Path
) -> None:
    free = shutil.disk_usage(tmp_path).free
    if free < ROOM:
        pytest.skip(f"{free / 1e9:.0f} GB of disk are free, {ROOM / 1e9:.0f} GB are needed")
    lab = make_lab(LabSpec.plain(2, name="ipex"))
    where = ["-f", str(lab.hostfile), "-F", str(lab.ssh_config)]

    def ipexctl(*words: str) -> str:
        command = [sys.executable, "-m", "ipexctl", words[0], *where, *words[1:]]
        environ = {**os.environ, "PYTHONPATH": str(REPO)}
        done = subprocess.run(
            command, cwd=tmp_path, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout
        return done.stdout

    chosen = ("--stack", "ipex", "--backend", "gloo", "--allow-cuda", "-y")
    first = json.loads(ipexctl("install", *chosen, "--json"))
    print(json.dumps(first, indent=1))
    step = "bf16" if _flags() >= FLAGS else "fp32"
    proofs = [re.sub(r"\+\w+", "", host["detail"]) for host in first["hosts"]]
    assert proofs == [
        f"torch 2.8.0, intel_extension_for_pytorch 2.8.0, {step} step, 2 ranks agree"
    ] * 2  # fmt: skip
    lock = parse_lock((tmp_path / "ipexctl.lock").read_text(), "ipexctl.lock")
    assert lock.version("intel-extension-for-pytorch").startswith("2.8.0")
    again = json.loads(ipexctl("install", "-y", "--json"))
    assert ([h["state"] for h in again["hosts"]], again["bytes_sent"]) == (["ok"] * 2, 0)
    if step == "bf16":
        _trains(ipexctl("run", "-n", "4", "-ppn", "2", str(REPO / "examples/train_ipex.py")))


def _trains(said: str) -> None:
    """Four ranks, three epochs, one loss for all ranks, and it falls."""
    print(said)
    losses = re.findall(r"r(\d+) \| epoch (\d) loss ([0-9.]+)", said)
    assert sorted((int(r), int(e)) for r, e, _ in losses) == [
        (rank, epoch) for rank in range(4) for epoch in (1, 2, 3)
    ]
    each = [{float(loss) for _, e, loss in losses if int(e) == epoch} for epoch in (1, 2, 3)]
    assert [len(of_epoch) for of_epoch in each] == [1, 1, 1]
    assert each[2].pop() < each[0].pop()
    assert re.search(r"torch 2\.8\.0\S*, IPEX 2\.8\.0\S*, bf16, gloo", said)


def _flags() -> set[str]:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return set(next((line for line in lines if line.startswith("flags")), "").split())
