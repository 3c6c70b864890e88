"""data pull of 400 MB: the source and this machine send it once, and four hosts take little longer
than one, which only a machine with free CPUs can show."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from ipexctl.data import data
from ipexctl.data.pull import Pull, pull_dataset
from ipexctl.lab import HostSpec, LabSpec
from ipexctl.lab.cluster.lab_network import limit_rate
from ipexctl.machines.target import Target
from ipexctl.terminal.progress import HostProgress
from tests.conftest import MakeLab
from tests.pull.hub_server import Hub, served

RATE = 100 * 10**6  # bits per second: two cores keep up with four hosts, so the links decide
SIZE, FILES = 400 * 10**6, 16

pytest.importorskip("huggingface_hub")


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_four_hosts_take_little_longer_than_one(
    full_rung, make_lab: MakeLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = HostSpec(rate="100mbit")
    lab = make_lab(LabSpec(name="pull4", hosts=(link,) * 4))
    limit_rate(lab.link, "100mbit")  # from here to all of them
    hub = Hub(rate=RATE / 8)
    files = hub.add("models", "acme/large").files
    for i in range(FILES):
        path = tmp_path / f"part-{i}"
        with path.open("wb") as out:
            for _ in range(SIZE // FILES // 10**6):
                out.write(os.urandom(10**6))
        files[path.name] = path
    target = Target(hostfile=lab.hostfile, ssh_config=lab.ssh_config)
    seconds: dict[int, float] = {}
    load = os.getloadavg()[0]  # of others, before the hosts have work
    with served(hub):
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        for count in (1, 4):
            cache = tmp_path / f"cache-{count}"
            monkeypatch.setenv("HF_HUB_CACHE", str(cache))
            these = Target(target.hostfile, ssh_config=lab.ssh_config, limit=(f"node0[1-{count}]",))
            hub.sent.clear()
            began = time.monotonic()
            asked = Pull("hf:acme/large", agreed=lambda plan: True)
            pulled = pull_dataset(these, asked, HostProgress(), "~/.ipexctl")
            seconds[count] = time.monotonic() - began
            assert pulled.exit_code == 0, pulled.recaps
            assert pulled.pushed
            print(
                f"{count} hosts: {seconds[count]:.1f} s, {hub.sent.total():,} bytes of the source, "
                f"{pulled.pushed.sent:,} from here, {pulled.pushed.passed:,} between hosts"
            )
            assert hub.sent.total() == SIZE
            assert SIZE <= pulled.pushed.sent < 1.01 * SIZE
            assert pulled.pushed.passed == (count - 1) * pulled.pushed.sent
            data.remove_dataset(these, "large", lambda going: True, "~/.ipexctl")
            shutil.rmtree(cache)
    print(f"{seconds[4] / seconds[1]:.2f} times as long, at a load of {load:.1f} before")
    if load < (os.cpu_count() or 1):
        assert seconds[4] <= 1.3 * seconds[1]
