"""`kill -9` of the controller at random moments: `current` is always whole, a rerun completes.

IPEXCTL_KILLS=10 tries ten moments, IPEXCTL_SEED repeats the moments of another run.
"""

from __future__ import annotations

import os
import random
import signal
import time

import pytest

from ipexctl.lab import HostSpec, Lab, LabSpec
from tests.conftest import MakeLab
from tests.install.conftest import Shop, finish, until
from tests.install.over_ssh import current, running, start, stock

pytestmark = [pytest.mark.lab, pytest.mark.soak]

KILLS = int(os.environ.get("IPEXCTL_KILLS", "3"))
SEED = int(os.environ.get("IPEXCTL_SEED", time.time_ns() % 1_000_000))


def anew(shop: Shop, lab: Lab, number: int) -> tuple[str, dict[str, str]]:
    """Options and environment of an install that finds nothing done, here or on the hosts."""
    (shop.work / "ipexctl.lock").unlink(missing_ok=True)
    return f"~/root{number}", {"XDG_CACHE_HOME": str(shop.folder / f"cache{number}")}


def test_after_a_kill_at_any_moment_every_host_is_whole_and_a_rerun_completes(
    shop: Shop, make_lab: MakeLab
) -> None:
    stock(shop, copied=40 << 20)
    lab = make_lab(LabSpec(name="kill9", hosts=(HostSpec(rate="400mbit"), HostSpec())))
    root, environ = anew(shop, lab, 0)
    began = time.monotonic()
    first = finish(start(shop, lab, "--root", root, environ=environ))
    whole = time.monotonic() - began
    assert first.code == 0, first.err
    moments = random.Random(SEED)  # noqa: S311
    for number in range(1, KILLS + 1):
        root, environ = anew(shop, lab, number)
        after = whole * (number - 1 + moments.random()) / KILLS
        said = f"seed {SEED}, kill {number} after {after:.2f} of {whole:.2f} s"
        print(said)
        killed = start(shop, lab, "--root", root, environ=environ)
        time.sleep(after)  # the moment itself, not a wait for something
        killed.send_signal(signal.SIGKILL)
        finish(killed)
        for host in lab.hosts:
            until(lambda host=host: not running(lab, host), 20)
            assert current(lab, host, f"$HOME/root{number}") in ("absent", "whole"), said
        again = finish(start(shop, lab, "--root", root, environ=environ))
        assert (again.code, set(again.states) <= {"changed", "ok"}) == (0, True), said + again.out
        wholes = {current(lab, host, f"$HOME/root{number}") for host in lab.hosts}
        assert wholes == {"whole"}, said
