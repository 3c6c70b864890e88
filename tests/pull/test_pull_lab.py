"""data pull to practice hosts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ipexctl.base.host_outcome import HostState
from ipexctl.data.pull import Pull, pull_dataset
from ipexctl.lab import HostSpec, LabSpec
from ipexctl.machines.target import Target
from ipexctl.terminal.progress import HostProgress
from tests.conftest import MakeLab
from tests.pull.hub_server import TOKEN, Hub, served

pytest.importorskip("huggingface_hub")


def test_a_full_disk_is_the_failure_of_its_host_and_no_host_gets_the_token(
    make_lab: MakeLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = make_lab(LabSpec(name="pull", hosts=(HostSpec(), HostSpec(disk=64 << 20))))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    hub = Hub()
    hub.add("models", "acme/tiny", gated=True).files = {"x.bin": os.urandom(3 << 20)}
    with served(hub):
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        target = Target(hostfile=lab.hostfile, ssh_config=lab.ssh_config)
        done = pull_dataset(target, Pull("hf:acme/tiny", agreed=lambda plan: True), HostProgress())
    first, second = done.recaps
    assert (done.exit_code, first.state, second.state) == (1, HostState.CHANGED, HostState.FAILED)
    assert (second.host, second.slug) == ("node02", "no-space")
    assert "MB" in second.detail
    assert hub.sent["x.bin"] == 3 << 20
    homes = [host.files for host in lab.hosts.values()]
    small = [p for h in homes for p in Path(h).rglob("*") if p.is_file() and p.stat().st_size < 1e6]
    assert small
    assert [p for p in small if TOKEN.encode() in p.read_bytes()] == []
