"""Two runs on this machine, the second with other code: what they kept is read and compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from ipexctl.machines.target import Target
from ipexctl.report.run_report import report
from tests.run.test_ps_local import Here

TRAIN = """\
for step in range(10):
    print(f"step {step}/10 loss 1.0 20.0 it/s", flush=True)
"""


@pytest.mark.timeout(120)
def test_a_run_is_compared_with_one_of_other_code(tmp_path: Path):
    here, root = Here(tmp_path), str(tmp_path / "home/.ipexctl")
    for name, rate in (("one", "20.0"), ("two", "10.0")):
        (here.code / "train.py").write_text(TRAIN.replace("20.0", rate))
        done = here.call("run", "-n", "2", "--force", "--name", name, "train.py", "--lr", name)
        assert done.returncode == 0, done.stderr
    found = report(Target(), "two", root, compare="one", to="-").comparison
    assert found and found.factor == 0.5
    assert [(one.slug, one.explains) for one in found.differences] == [
        ("code", False), ("arguments", False),
    ]  # fmt: skip
    assert found.differences[0].text == "code: train.py changed"
    (host,) = found.run.hosts.values()
    assert host.cores and dict(host.variables)["IPEXCTL_BACKEND"] == "gloo"
