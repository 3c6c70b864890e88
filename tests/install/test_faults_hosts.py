"""What happens to hosts in the middle of an install: the others go on, and a rerun completes."""

from __future__ import annotations

import hashlib

import pytest

from ipexctl.lab import HostSpec, Lab, LabSpec
from ipexctl.stack.lock_file import parse_lock
from tests.conftest import MakeLab
from tests.install.conftest import Shop, finish, until
from tests.install.over_ssh import (
    HELD,
    HOLD,
    current,
    install,
    on,
    part_size,
    start,
    stock,
)  # fmt: skip

pytestmark = pytest.mark.lab

COPIED = 40 << 20
SLOW = "80mbit"  # four seconds for it


def slow_second(make_lab: MakeLab, name: str, **shape: int) -> Lab:
    return make_lab(LabSpec(name=name, hosts=(HostSpec(), HostSpec(rate=SLOW, **shape))))


@pytest.mark.soak
def test_a_host_unplugged_while_it_is_sent_to_goes_on_from_there_once_it_is_back(
    shop: Shop, make_lab: MakeLab
) -> None:
    stock(shop, copied=COPIED)
    lab = slow_second(make_lab, "unplugged")
    installing = start(shop, lab)
    until(lambda: part_size(lab, "node02") > COPIED // 3)
    lab.fault("node02", "unplug")
    outcome = finish(installing)
    assert (outcome.code, outcome.states) == (4, ["changed", "unreachable"]), outcome.out
    assert " node02 uptime " in outcome.document["hosts"][1]["notes"][-1]
    assert current(lab, "node01") == "whole"
    lab.heal("node02")
    again = install(shop, lab)
    assert (again.code, again.states) == (0, ["ok", "changed"]), again.err
    total = sum(p.stat().st_size for p in shop.wheels.iterdir())
    assert 0 < again.document["bytes_sent"] < total - COPIED // 3


@pytest.mark.soak
def test_a_disk_that_fills_while_it_is_copied_to_is_told_with_what_it_takes_and_has(
    shop: Shop, make_lab: MakeLab
) -> None:
    stock(shop, copied=COPIED)
    lab = slow_second(make_lab, "fullcopy", disk=400 << 20)
    installing = start(shop, lab)
    until(lambda: part_size(lab, "node02") > COPIED // 2)  # not of uv, which comes first
    lab.fault("node02", "fill-disk")
    outcome = finish(installing)
    assert (outcome.code, outcome.states) == (1, ["changed", "failed"]), outcome.out
    assert outcome.slugs == [None, "no-space"]
    assert " 42 MB, 0 MB " in str(outcome.document["hosts"][1]["notes"])
    lab.heal("node02")
    assert install(shop, lab).states == ["ok", "changed"]


def test_a_disk_that_fills_while_it_is_built_on_keeps_nothing_half_and_a_rerun_completes(
    shop: Shop, make_lab: MakeLab
) -> None:
    stock(shop, unpacked=60 << 20)
    lab = make_lab(LabSpec(name="fullbuild", hosts=(HostSpec(disk=400 << 20),)))
    on(lab, "node01", f"touch {HOLD}")
    installing = start(shop, lab)
    until(lambda: on(lab, "node01", f"ls {HELD}"))
    lab.fault("node01", "fill-disk")
    on(lab, "node01", f"rm {HOLD}")
    outcome = finish(installing)
    assert (outcome.code, outcome.states) == (1, ["failed"]), outcome.out
    assert outcome.slugs == ["no-space"]
    assert current(lab, "node01") == "absent"
    assert on(lab, "node01", "ls -A ~/.ipexctl/envs") == ".lock"
    lab.heal("node01")
    assert install(shop, lab).states == ["changed"]


@pytest.mark.soak
def test_a_disk_that_is_full_already_is_told_as_such(shop: Shop, make_lab: MakeLab) -> None:
    stock(shop)
    lab = make_lab(LabSpec(name="full", hosts=(HostSpec(disk=400 << 20),)))
    on(lab, "node01", "mkdir -m 700 ~/.ipexctl")
    lab.fault("node01", "fill-disk")
    outcome = install(shop, lab)
    assert (outcome.code, outcome.states) == (1, ["failed"]), outcome.out
    assert outcome.slugs == ["no-space"]
    assert "/home/trainer/.ipexctl" in outcome.detail and "0 MB " in outcome.detail
    lab.heal("node01")
    assert install(shop, lab).states == ["changed"]


@pytest.mark.soak
def test_a_wheel_damaged_in_this_machines_store_is_fetched_anew(
    shop: Shop, make_lab: MakeLab
) -> None:
    stock(shop)
    lab = make_lab(LabSpec.plain(2, name="rotten"))
    assert install(shop, lab).states == ["changed"] * 2
    lock = parse_lock((shop.work / "ipexctl.lock").read_text(), "")
    for package in lock.files:
        path = shop.folder / "cache/ipexctl/blobs/sha256" / package.sha256[:2] / package.sha256
        flipped = bytearray(path.read_bytes())
        flipped[len(flipped) // 2] ^= 1
        path.write_bytes(flipped)
    again = install(shop, lab, "--root", "~/other")
    assert again.states == ["changed"] * 2, again.out
    assert hashlib.sha256(path.read_bytes()).hexdigest() == package.sha256
