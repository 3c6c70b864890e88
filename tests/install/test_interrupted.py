"""Ctrl-C: one line, exit code 130, and no half-made folder."""

from __future__ import annotations

import os
import signal

from tests.install.conftest import Shop, finish, until

SAID = "interrupted; the hosts keep the environment they had; run the same command again\n"


def test_ctrl_c_while_a_host_builds_leaves_nothing_half_made(shop: Shop) -> None:
    shop.hold.touch()
    process = shop.start()
    until(shop.held.exists)
    process.send_signal(signal.SIGINT)
    done = finish(process)
    assert (done.code, done.out) == (130, "")
    assert done.err.endswith(SAID) and "Traceback" not in done.err
    until(lambda: [p for p in os.listdir(shop.root / "envs") if p != ".lock"] == [], 20)
    assert not (shop.root / "current").exists()
    shop.hold.unlink()
    assert shop.install().states == ["changed"]
