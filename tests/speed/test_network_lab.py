"""Hosts with two networks: the plan and the ranks take the faster one, which is measured once."""

from __future__ import annotations

import json
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from ipexctl.lab import HostSpec, Lab, LabSpec
from tests.practice_hosts import start_lab
from tests.run_lab.conftest import Runner

SHOWS = "import os\nprint(os.environ['MASTER_ADDR'], os.environ['GLOO_SOCKET_IFNAME'])\n"
LISTENING = "ss -Hltn | grep -vc ':22 ' || true"
SLOW, FAST = 100e6, 1e9


@pytest.fixture(scope="module")
def lab(lab_root) -> Iterator[Lab]:
    """SSH uses eth0. Environments without torch and MPI are enough here."""
    host = HostSpec(nics=("eth0", "eth1"), rate="100mbit+1gbit")
    lab = start_lab(LabSpec(name="networks", hosts=(host, host)), lab_root)
    key = ".ipexctl/envs/0123456789abcdef"
    make = (
        f"python3 -m venv --without-pip {key} && ln -s ~/{key} .ipexctl/current && "
        f'echo \'{{"wheels": [], "blobs": []}}\' > {key}/.ipexctl-ok'
    )
    for name in lab.hosts:
        done = lab.run_in(name, ["/bin/sh", "-c", f"cd && {make}"], user="trainer")
        assert done.returncode == 0, done.stderr
    yield lab
    lab.down()


class OwnState(Runner):
    """With a state folder of its own."""

    def environment(self, **kwargs: str) -> dict[str, str]:
        return {**super().environment(**kwargs), "XDG_STATE_HOME": str(self.folder / "state")}

    @property
    def rates(self) -> Path:
        return self.folder / "state" / "ipexctl" / "networks.json"

    def explained(self, *words: str) -> dict:
        done = self.plain("--explain", "--json", *words, str(self.folder / "script.py"))
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def runner(lab: Lab, tmp_path: Path) -> Iterator[OwnState]:
    made = OwnState(lab, tmp_path)
    made.script(SHOWS)
    yield made
    shutil.rmtree(tmp_path / "state", ignore_errors=True)


def _notes(run) -> list[str]:
    return [e["text"] for e in run.events if e["event"] == "note" and "eth1" in e["text"]]


def test_plan_and_ranks_take_the_faster_network_and_a_second_run_measures_nothing(runner):
    plan = runner.explained("-ppn", "1")
    slow, fast = plan["networks"]
    assert (slow["ssh"], slow["used"], fast["used"]) == (True, False, True)
    assert 0.5 * SLOW < slow["bits_per_second"] < 1.2 * SLOW
    assert 0.4 * FAST < fast["bits_per_second"] < 1.2 * FAST
    assert [host["interface"] for host in plan["hosts"]] == ["eth1", "eth1"]
    address = plan["master"]["address"]
    assert address != runner.lab.hosts["node01"].address
    assert stat.S_IMODE(runner.rates.stat().st_mode) == 0o600
    for name in runner.lab.hosts:  # the ports are closed
        assert runner.lab.run_in(name, ["/bin/sh", "-c", LISTENING]).stdout.strip() == "0"

    before = runner.rates.read_bytes()
    run, _ = runner.train("-ppn", "1", str(runner.folder / "script.py"))
    assert sorted(run.lines()) == [f"{address} eth1"] * 2
    (note,) = _notes(run)
    assert note.startswith("ranks use eth1")
    assert runner.rates.read_bytes() == before


def test_the_user_chooses_and_nothing_is_measured(runner):
    plan = runner.explained("-ppn", "1", "--env", "GLOO_SOCKET_IFNAME=eth0")
    assert plan["networks"] == []
    assert plan["master"]["address"] == runner.lab.hosts["node01"].address
    hostfile = runner.folder / "hosts"
    hostfile.write_text("node01 nic=eth1\nnode02 nic=eth1\n")
    runner.hostfile = hostfile
    plan = runner.explained("-ppn", "1")
    assert [host["interface"] for host in plan["hosts"]] == ["eth1", "eth1"]
    assert plan["networks"] == [] and not runner.rates.exists()


def test_a_network_that_drops_everything_is_noted_and_not_used(runner):
    words = "root tbf rate 8bit burst 10 limit 10"  # every packet is larger
    drop = ["tc", "qdisc", "replace", "dev", "eth1", *words.split()]
    assert runner.lab.run_in("node02", drop).returncode == 0
    try:
        done = runner.plain("--explain", "--json", "-ppn", "1", str(runner.folder / "script.py"))
        plan = json.loads(done.stdout)
        assert [host["interface"] for host in plan["hosts"]] == ["eth0", "eth0"]
        assert [one["used"] for one in plan["networks"]] == [True, False]
        assert done.stderr.count("cannot measure eth1") == 1
        (entry,) = json.loads(runner.rates.read_text()).values()
        assert entry["complete"] is False
    finally:
        runner.lab.run_in("node02", ["tc", "qdisc", "del", "dev", "eth1", "root"])
