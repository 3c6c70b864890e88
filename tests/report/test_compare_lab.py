"""Real runs on practice hosts: the same twice, and one with more work in a step."""

from __future__ import annotations

import pytest

from ipexctl.machines.target import Target
from ipexctl.report.run_report import report
from tests.run_lab.conftest import runner  # noqa: F401

TRAIN = """\
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo")
model = torch.nn.Sequential(torch.nn.Linear(1024, 2048), torch.nn.Linear(2048, 1024))
model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.randn(64, 1024)
for step in range(250):
    for _ in range({work}):
        optimizer.zero_grad()
        loss = (model(data) - data).pow(2).mean()
        loss.backward()
    optimizer.step()
    print("step", step, "loss", loss.item(), flush=True)
"""


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_more_work_in_a_step_is_found_and_the_same_run_blames_no_input(runner):  # noqa: F811
    def train(name: str, *options: str, work: int = 1) -> None:
        script = runner.script(TRAIN.format(work=work))
        runner.train("--name", name, *options, str(script))

    def first(name: str, other: str) -> list[tuple[str, str]]:
        lab = runner.lab
        target = Target(hostfile=lab.hostfile, ssh_config=lab.ssh_config)
        found = report(target, name, compare=other, to="-").comparison
        return [(one.slug, one.host) for one in found.differences if one.explains][:1]

    two = ("-l", "node0[1-2]", "-n", "2", "--env", "OMP_NUM_THREADS=1")
    train("base", *two)
    train("again", *two)
    train("work", *two, work=3)
    assert ("code", "") not in first("again", "base")
    assert first("work", "base") == [("code", "")]
