"""Hosts that have IPv6 addresses only: real runs under each MPI, and what MPICH cannot do there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ipexctl.base.host_outcome import HostState
from ipexctl.blobs import blob_relay
from ipexctl.doctor.doctor import run_doctor
from ipexctl.install.install import install
from ipexctl.install.install_options import InstallOptions
from ipexctl.lab import Lab, LabSpec
from ipexctl.machines.target import Target
from ipexctl.terminal.progress import HostProgress
from tests.install import over_ssh
from tests.install.conftest import Shop, shop
from tests.practice_hosts import HOSTS, ROOTS, Homes, Installed, home_with, start_lab
from tests.run_lab.test_mpi_lab import EXAMPLE, FAILS, LISTENS, Fleet, losses

__all__ = ["shop"]  # a fixture

OTHERS = [pytest.param(mpi, marks=pytest.mark.soak) for mpi in ("mpich", "openmpi")]
LIBRARIES = {"intel": "libmpi.so.12", "openmpi": "libmpi.so.40"}


@pytest.fixture(scope="module")
def lab(lab_root) -> Iterator[Lab]:
    lab = start_lab(LabSpec(name="ipv6", hosts=HOSTS, ipv6=True), lab_root)
    yield lab
    lab.down()


@pytest.fixture(scope="module", params=["intel", *OTHERS])
def fleet(
    request: pytest.FixtureRequest, lab: Lab, installed: Installed, homes: Homes,
    tmp_path_factory: pytest.TempPathFactory,
) -> Fleet:  # fmt: skip
    mpi = request.param
    home = home_with(mpi, installed, homes)
    for host in lab.hosts.values():
        home.lay_into(Path(host.files))
    folder = tmp_path_factory.mktemp("hosts")
    lines = [f"{name} root=/home/trainer/{ROOTS[mpi]}\n" for name in lab.hosts]
    (folder / mpi).write_text("".join(lines))
    target = Target(hostfile=lab.hostfile, ssh_config=lab.ssh_config)
    asked = InstallOptions(stack="stock", mpi=mpi, root=f"~/{ROOTS[mpi]}", folder=home.folder)
    report = install(target, asked, HostProgress())
    assert [recap.state for recap in report.recaps] == [HostState.OK] * 3, report.recaps
    return Fleet(lab, mpi, folder / mpi)


def test_stand_ins_are_sent_and_built_there(
    lab: Lab, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From this machine to one host, and from host to host."""
    monkeypatch.setattr(blob_relay, "LEAST", 1 << 20)
    over_ssh.stock(shop, copied=2 << 20)
    done = over_ssh.install(shop, lab, "--root", "~/sent")
    assert (done.code, done.states) == (0, ["changed"] * 3), done.err + done.out
    assert done.document["bytes_between_hosts"] == 2 * done.document["bytes_sent"] > 0
    assert [over_ssh.current(lab, host, "~/sent") for host in lab.hosts] == ["whole"] * 3


@pytest.mark.soak
def test_training_agrees_on_all_ranks(fleet: Fleet, tmp_path: Path) -> None:
    run, _ = fleet.runner(tmp_path).train("-n", "3", str(EXAMPLE), "--epochs", "2")
    seen = [losses(run.lines(rank)) for rank in range(3)]
    assert seen == [seen[0]] * 3
    assert len(seen[0]) == 2
    plan = next(e for e in run.events if e["event"] == "plan")
    address = fleet.lab.hosts["node01"].address
    assert plan["master"].startswith(f"[{address}]:")
    notes = [e["text"] for e in run.events if e["event"] == "note"]
    assert not [n for n in notes if "the route to" in n]
    fallback = [n for n in notes if n.startswith("MPICH needs IPv4 addresses")]
    assert len(fallback) == (fleet.name == "mpich")


def test_a_rank_that_fails_gives_its_code(fleet: Fleet, tmp_path: Path) -> None:
    runner = fleet.runner(tmp_path)
    run = runner.start("-n", "3", str(runner.script(FAILS)))
    result = run.finish()
    assert (result["exit_code"], result["ended_by"]) == (3, "rank-failed")
    assert runner.left(run.run_id) == {}


def test_mpi_itself_sends_over_ipv6(fleet: Fleet, tmp_path: Path) -> None:
    runner = fleet.runner(tmp_path)
    if fleet.name == "mpich":
        done = runner.plain("--env", "IPEXCTL_BACKEND=mpi", "-n", "3", str(runner.script(LISTENS)))
        assert (done.returncode, done.slug) == (120, "mpi-needs-ipv4")
        assert "MPICH" in done.stderr
        return
    script = str(runner.script(LISTENS))
    ports = ("--ports", "31000-31015")
    if fleet.name == "openmpi":
        done = runner.plain("-n", "3", *ports, script, LIBRARIES[fleet.name])
        assert (done.returncode, done.slug) == (120, "ports-need-ipv4")
        ports = ()
    run = runner.start("-n", "3", *ports, script, LIBRARIES[fleet.name])
    result = run.finish()
    assert result["ended_by"] == "ranks", (result["cause"], result["tail"])
    for rank in range(3) if ports else ():
        told = [line.split() for line in run.lines(rank)]
        of_mpi = {int(port) for word, port in told if word == "mpi"} - {22}
        assert of_mpi <= set(range(31000, 31016))


def test_the_doctor_says_the_same(fleet: Fleet) -> None:
    target = Target(hostfile=fleet.lab.hostfile, ssh_config=fleet.lab.ssh_config)
    report = run_doctor(target)
    assert not [f for f in report.findings if f.severity.value == "fail"]
