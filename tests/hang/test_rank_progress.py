"""What counts as progress of a rank, by the kernel's counters."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ipexctl.remote.hang import look
from ipexctl.remote.rank import socket_table
from ipexctl.remote.run import rank_progress


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """One rank, whose counts the test sets; its time passes by `clock[0]`."""
    (tmp_path / "logs").mkdir()
    clock, moved, disk = [100.0], {0: [0, 0]}, [0]
    monkeypatch.setattr(rank_progress.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(rank_progress, "process_trees", lambda pids: dict.fromkeys(pids, {1}))
    monkeypatch.setattr(rank_progress, "file_bytes", lambda pid: disk[0])
    supervisor = SimpleNamespace(
        sampler=SimpleNamespace(rank_pids=lambda: {0: 1}), dir=str(tmp_path),
        traffic=SimpleNamespace(exchanged=lambda: {r: list(m) for r, m in moved.items()}),
    )  # fmt: skip
    progress = rank_progress.Progress(supervisor)

    def after(seconds: float = 2.5) -> float:
        clock[0] += seconds
        return progress.measure()

    log = tmp_path / "logs" / "rank00000.log"
    return SimpleNamespace(after=after, moved=moved, disk=disk, log=log, progress=progress)


def quiet_for_20_s(made: Any) -> None:
    for _ in range(9):
        seconds = made.after()
    assert seconds == 20.0


def test_a_rank_that_does_nothing_is_quiet(made) -> None:
    quiet_for_20_s(made)


@pytest.mark.parametrize(
    ("near", "far", "disk", "progress"),
    [
        (1, 0, 0, True),  # a small all_reduce
        (0, 1000, 0, False),  # a heartbeat
        (0, 4000, 0, True),
        (0, 0, 4096, False),
        (0, 0, 20000, True),
    ],
)
def test_bytes_count_by_where_they_go(made, near, far, disk, progress) -> None:
    quiet_for_20_s(made)
    made.moved[0] = [near, far]
    made.disk[0] = disk
    assert made.after() == (0.0 if progress else 22.5)


def test_output_is_progress(made) -> None:
    quiet_for_20_s(made)
    made.log.write_text("step 1\n")
    assert made.after() == 0.0


def test_what_a_look_makes_a_rank_write_is_none(made) -> None:
    quiet_for_20_s(made)
    with made.progress.paused():
        made.log.write_text("interrupted system call\n")
        made.disk[0] = 1 << 20
        assert made.after() == 22.5
    assert made.after() == 25.0
    assert made.after() == 27.5


def test_a_step_between_two_looks_is_progress(made) -> None:
    quiet_for_20_s(made)
    with made.progress.paused():
        made.log.write_text("interrupted system call\n")
    made.log.write_text("step 1\n")
    assert made.after(0.5) == 0.0


def test_what_a_rank_did_just_before_a_look_counts(made, monkeypatch) -> None:
    quiet_for_20_s(made)
    made.log.write_text("step 1\n")
    made.progress.supervisor.programs = SimpleNamespace(site=str)
    monkeypatch.setattr(look, "look_at_ranks", lambda site, pids: [])
    quiet, _, _ = made.progress.look()
    assert (quiet, made.after()) == (0.0, 2.5)


def test_networks_without_a_gateway_are_near() -> None:
    networks = [(0x0000A8C0, 0x00FFFFFF)]  # 192.168.0.0/24 as /proc/net/route writes it
    for address, near in (
        ("192.168.0.9", True), ("192.168.1.9", False), ("34.1.2.3", False), ("fe80::1", False)
    ):  # fmt: skip
        assert socket_table.is_in(address, networks) == near
    assert all(mask for _, mask in socket_table.near_networks())
