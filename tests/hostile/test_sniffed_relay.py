"""A third party on the hosts' network, while hosts pass data and packages on to one another."""

from __future__ import annotations

from pathlib import Path

import pytest

from ipexctl.blobs import blob_relay
from ipexctl.data import data
from ipexctl.lab import LabSpec
from ipexctl.machines.target import Target
from ipexctl.terminal.progress import HostProgress
from tests.conftest import MakeLab
from tests.install.conftest import Shop, shop
from tests.install.over_ssh import install, stock
from tests.sniffer import sniffed

__all__ = ["shop"]  # a fixture

CANARY = b"patient-4711-diagnosis"
HALVES = (CANARY[:11], CANARY[11:])  # a packet may end anywhere
SHOWN = b"shown-by-the-control-8841"  # what the search must find, or it finds nothing at all
NAMED = b"numpy-2.0.dist-info"  # readable in every wheel


@pytest.mark.lab
def test_who_listens_learns_nothing_of_data_and_packages(
    full_rung: None, shop: Shop, make_lab: MakeLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blob_relay, "LEAST", 1 << 20)
    stock(shop, copied=2 << 20)
    lab = make_lab(LabSpec.plain(3, name="sniffed"))
    folder = tmp_path / "set"
    folder.mkdir()
    size = (folder / "records").write_bytes(CANARY * 500_000)
    with sniffed(lab, tmp_path / "packets"):
        sends = (
            "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); "
            f"s.sendto({SHOWN!r}, ({lab.hosts['node02'].address!r}, 9))"
        )
        assert lab.run_in("node01", ["python3", "-c", sends]).returncode == 0
        target = Target(hostfile=lab.hostfile, ssh_config=lab.ssh_config)
        pushed = data.push_dataset(target, folder, None, HostProgress())
        installed = install(shop, lab)
    assert (pushed.sent, pushed.passed) == (size, 2 * size)
    assert installed.code == 0, installed.err
    assert installed.document["bytes_between_hosts"] > 2 << 20
    seen = (tmp_path / "packets").read_bytes()
    assert SHOWN in seen
    assert len(seen) > 2 * size
    assert [word for word in (*HALVES, NAMED, b"GET /") if word in seen] == []
