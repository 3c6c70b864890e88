"""The examples that need only torch, on practice hosts; `make soak` has all of them."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples import Loss, losses

REPO = Path(__file__).parents[2]
FSDP2 = "examples/fsdp2_checkpoint.py"


@pytest.fixture
def example(runner):
    """Runs an example on the hosts: the losses that all of its ranks agree on, and the run's id."""
    shutil.copytree(REPO / "examples", runner.folder / "examples")

    def run(ranks: int, *options: str) -> tuple[Loss, str]:
        started, _ = runner.train(*options)
        found = losses(started.lines())
        assert len(found) == ranks and len(set(found)) == 1, started.lines()
        assert found[0].world == ranks and found[0].last < found[0].first
        return found[0], started.run_id

    return run


@pytest.mark.timeout(1800)  # three runs of two epochs on a busy machine
def test_shards_of_all_hosts_are_one_checkpoint_to_resume_from(namespaces, example, runner):
    saved, run_id = example(6, "-ppn", "2", "--outputs", "checkpoint", "--merge", FSDP2)
    folder = runner.folder / ".ipexctl/runs" / run_id / "outputs/checkpoint"
    shards = [".metadata", *(f"__{rank}_0.distcp" for rank in range(6))]
    assert sorted(path.name for path in folder.iterdir()) == shards

    where = ("-f", str(runner.hostfile), "-F", str(runner.lab.ssh_config))
    argv = [sys.executable, "-m", "ipexctl", "data", "push", *where, str(folder)]
    pushed = subprocess.run(
        argv, cwd=runner.folder, env=runner.environment(), stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert pushed.returncode == 0, pushed.stderr

    same, _ = example(6, "-ppn", "2", "--data", "checkpoint", FSDP2)
    one_host, _ = example(2, "-n", "2", "-l", "node01", "--data", "checkpoint", FSDP2)
    assert [same.first, one_host.first] == pytest.approx([saved.last] * 2, abs=2e-4)


def test_a_checkpoint_with_the_fused_optimizer_of_ipex_goes_on(namespaces, example):
    example(3, "-n", "3", "examples/ipex_optimizer_state.py")
