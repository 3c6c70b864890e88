"""IPEXCTL_SHARE on practice hosts with the real torch, one of them with little CPU time."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.examples import losses
from tests.run_lab.conftest import runner  # noqa: F401  (a fixture)

EXAMPLE = Path(__file__).parents[2] / "examples" / "unequal_hosts.py"
TWO = ("-n", "2", "-ppn", "1", "-l", "node01,node02")
GROUPS = Path("/sys/fs/cgroup/cpu")  # of version 1


@contextmanager
def slowed(lab, host: str, cpus: float) -> Iterator[None]:
    """All processes of the host in a control group with that much CPU time."""
    space = Path(f"/proc/{lab.hosts[host].pid}/ns/pid_for_children").stat().st_ino
    group = GROUPS / f"ipexctl-test-{os.getpid()}"
    try:
        group.mkdir()
        (group / "cpu.cfs_quota_us").write_text(str(int(cpus * 100_000)))
    except OSError as e:
        with suppress(OSError):
            group.rmdir()
        pytest.skip(f"no control group of version 1 can be made here: {e}")
    try:
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if (process / "ns/pid").stat().st_ino == space:
                    (group / "cgroup.procs").write_text(process.name)
        yield
    finally:
        while pids := (group / "cgroup.procs").read_text().split():
            for pid in pids:
                with suppress(OSError):
                    (GROUPS / "cgroup.procs").write_text(pid)
        group.rmdir()


@pytest.mark.timeout(1800)  # torch is loaded with a twentieth of a CPU
def test_a_slow_host_gets_the_smaller_part(full_rung, runner, tmp_path):  # noqa: F811
    script = runner.script(EXAMPLE.read_text())
    with slowed(runner.lab, "node02", 0.06):
        state = str(tmp_path / "state")
        words = (*TWO, "--explain", "--json", str(script))
        done = runner.plain(*words, XDG_STATE_HOME=state)
    assert done.returncode == 0, done.stderr
    found = {}
    for host in json.loads(done.stdout)["hosts"]:
        (share,) = [v for v in host["variables"] if v["name"] == "IPEXCTL_SHARE"]
        assert "GFLOP/s" in share["why"]
        found[host["name"]] = float(share["value"])
    assert sum(found.values()) == pytest.approx(1) and found["node02"] < 0.4 < found["node01"]
    shutil.rmtree(tmp_path / "state", ignore_errors=True)


def test_an_unequal_split_has_the_loss_of_an_equal_one(namespaces, runner):  # noqa: F811
    script, found = runner.script(EXAMPLE.read_text()), []
    for shares in ("0.5,0.5", "0.2,0.8"):
        run, _ = runner.train(*TWO, str(script), "--shares", shares)
        found += losses(run.lines())
    assert len(found) == 4 and {one.world for one in found} == {2}
    assert [one.first for one in found] == pytest.approx([found[0].first] * 4, abs=2e-6)
    assert [one.last for one in found] == pytest.approx([found[0].last] * 4, abs=2e-6)
