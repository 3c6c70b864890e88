"""ipexctl.api on practice hosts, as docs/python.md has it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from ipexctl.api import Cluster, Code, File, Sh, State, StepFailed
from tests.plays_lab.playing import HOSTS, REPO, Playing

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1800)]


@pytest.fixture
def cluster(hosts: Playing) -> Iterator[Cluster]:
    with Cluster(hostfile=hosts.lab.hostfile, ssh_config=hosts.lab.ssh_config) as made:
        yield made


def test_steps_facts_and_results(cluster: Cluster, hosts: Playing):
    amx = {name: "amx_tile" in found.cpu.flags for name, found in cluster.facts().items()}
    assert amx == {"node01": True, "node02": False, "node03": True, "node04": False}
    step = File("~/of-python", content="threads=4\n")
    states = [{h: o.state for h, o in cluster.do(step, check=c).items()} for c in (True, False)]
    assert states == [dict.fromkeys(HOSTS, s) for s in (State.WOULD_CHANGE, State.CHANGED)]
    assert hosts.home("node04").joinpath("of-python").read_text() == "threads=4\n"
    assert set(cluster.do(step, on="node0[2-3]")) == {"node02", "node03"}
    with pytest.raises(StepFailed) as caught:
        cluster.do(Sh(Code("echo not here >&2; exit 3")), on="node02")
    assert "node02" in caught.value.what and caught.value.outcomes["node02"].state is State.FAILED


def test_fabric_connections_to_verified_hosts(cluster: Cluster):
    names = {}
    for name, connection in cluster.connections().items():
        names[name] = connection.run("hostname", hide=True, in_stream=False).stdout
    assert names == {name: f"{name}\n" for name in HOSTS}


def test_a_play_and_the_example(cluster: Cluster, hosts: Playing):
    (hosts.folder / "two.yaml").write_text("steps:\n  - sh: echo ${word}\n")
    report = cluster.play(hosts.folder / "two.yaml", variables={"word": "hi"})
    assert report.exit_code == 0 and len(report.outcomes) == len(HOSTS)
    done = subprocess.run(
        [sys.executable, REPO / "examples/play.py", hosts.lab.hostfile, hosts.lab.ssh_config],
        env=hosts.environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "4 hosts" in done.stdout and "node04: node04" in done.stdout
