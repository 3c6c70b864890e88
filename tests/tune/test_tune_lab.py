"""tune on two practice hosts, with a wrong number of threads in ipexctl.toml."""

from __future__ import annotations

import json
import os

import pytest

from ipexctl.base import toml
from tests.cli import ipexctl

# 20 ms a step, or 120 ms: whatever else this machine does, that is not noise
SCRIPT = """\
import os, time
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
torch.set_num_threads(1)
dist.init_process_group("gloo")
pause = 0.12 if os.environ.get("OMP_NUM_THREADS") == "5" else 0.02
model = DistributedDataParallel(torch.nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.randn(8, 16)
for step in range({steps}):
    optimizer.zero_grad()
    model(data).sum().backward()
    time.sleep(pause)
    optimizer.step()
print("done")
"""
SETTINGS = "# mine\n[run]\nenv = { OMP_NUM_THREADS = '5', MINE = 'x' }\n"


def tuned(lab, folder, *words: str, code: int = 0) -> dict:
    env = {"XDG_STATE_HOME": str(folder.parent / "state")}
    hosts = ("-f", str(lab.hostfile), "-F", str(lab.ssh_config), "-l", "node0[1-2]")
    done = ipexctl("tune", *hosts, "--json", *words, cwd=folder, env={**os.environ, **env})
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "project"
    made.mkdir()
    return made


@pytest.mark.timeout(1800)
@pytest.mark.soak
def test_a_wrong_number_of_threads_is_found_and_written(installed_lab, folder) -> None:
    (folder / "train.py").write_text(SCRIPT.replace("{steps}", "100000"))
    (folder / "ipexctl.toml").write_text(SETTINGS)
    found = tuned(installed_lab, folder, "-y", "--budget", "200s", "-n", "2", "train.py")
    assert found["seconds"] < 210
    assert found["wins"], found
    assert found["gain"] > 1
    assert found["profile"]["env"]["OMP_NUM_THREADS"] is None
    assert found["written"]
    text = (folder / "ipexctl.toml").read_text()
    assert text.startswith("# mine\n")
    env = toml.loads(text)["run"]["env"]
    assert "OMP_NUM_THREADS" not in env
    assert env["MINE"] == "x"
    assert {path.name for path in folder.iterdir()} == {"train.py", "ipexctl.toml"}


@pytest.mark.parametrize(
    ("script", "slug"),
    [("print('hello')\n", "no-steps"), ("raise SystemExit(3)\n", "trial-failed"),
     (SCRIPT.replace("{steps}", "5"), "too-few-steps")],
)  # fmt: skip
def test_a_script_without_steps_is_refused(installed_lab, folder, script, slug) -> None:
    (folder / "train.py").write_text(script)
    found = tuned(installed_lab, folder, "--budget", "110s", "-n", "2", "train.py", code=1)
    assert [e["slug"] for e in found["errors"]] == [slug]
