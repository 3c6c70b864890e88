"""Hosts with one home between them: it is filled once, and every host proves what is in it."""

from __future__ import annotations

import pytest

from ipexctl.lab import LabSpec
from tests.conftest import MakeLab
from tests.install.conftest import Shop
from tests.install.over_ssh import install, stock

pytestmark = pytest.mark.lab


def test_a_home_that_three_hosts_share_is_sent_and_built_once(
    shop: Shop, make_lab: MakeLab
) -> None:
    stock(shop, copied=20 << 20)
    lab = make_lab(LabSpec(name="onehome", flat=3).checked())
    outcome = install(shop, lab)
    assert outcome.code == 0, outcome.err + outcome.out
    assert set(outcome.states) <= {"changed", "ok"}  # who comes second finds it done
    details = [h["detail"] for h in outcome.document["hosts"]]
    assert details == ["torch 2.13.0+cpu"] * 3
    total = sum(p.stat().st_size for p in shop.wheels.iterdir())
    assert outcome.document["bytes_sent"] == total
