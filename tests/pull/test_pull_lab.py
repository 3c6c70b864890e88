"""data pull to practice hosts."""

from __future__ import annotations

import io
import os
import tarfile
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


def test_both_hosts_get_the_files_of_an_archive(
    make_lab: MakeLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = make_lab(LabSpec(name="unpack", hosts=(HostSpec(), HostSpec())))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as packed:
        packed.add(Path(__file__), "train/a.py")
    hub = Hub()
    hub.add("models", "acme/tiny").files = {"set.tgz": archive.getvalue()}
    with served(hub):
        target = Target(hostfile=lab.hostfile, ssh_config=lab.ssh_config)
        asked = Pull(f"{hub.url}/plain/set.tgz", unpack=True, agreed=lambda plan: True)
        done = pull_dataset(target, asked, HostProgress())
    assert (done.exit_code, hub.sent["set.tgz"]) == (0, len(archive.getvalue()))
    files = [Path(h.files, ".ipexctl/data/set/current/files") for h in lab.hosts.values()]
    assert [os.listdir(held) for held in files] == [["train"]] * 2
    copies = [(held / "train/a.py").read_bytes() for held in files]
    assert copies == [Path(__file__).read_bytes()] * 2
