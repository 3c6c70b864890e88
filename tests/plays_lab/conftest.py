from __future__ import annotations

from collections.abc import Iterator

import pytest

from ipexctl.lab import HostSpec, LabSpec
from tests.plays_lab.playing import HOSTS, Playing
from tests.practice_hosts import start_lab
from tests.simulated_cpu import cpu


@pytest.fixture(scope="module")
def hosts(lab_root, full_rung, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Playing]:
    """Four hosts of two shapes."""
    shapes = (HostSpec(covers=cpu("amx")), HostSpec(covers=cpu("avx2"), nics=("ens3",))) * 2
    lab = start_lab(LabSpec(name="plays", hosts=shapes), lab_root)
    assert tuple(lab.hosts) == HOSTS
    folder = tmp_path_factory.mktemp("plays")
    (folder / "app.conf").write_text("threads = 4\n")
    yield Playing(lab, folder)
    lab.down()
