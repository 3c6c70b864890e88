"""What is known of a run whose supervisor was killed, with or without its guardian."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ipexctl.common.processes import environ_of, process_ids, stat_of
from ipexctl.common.waiting import wait_until
from tests.run.test_ps_local import LONG, Here, processes_of


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Here]:
    made = Here(tmp_path)
    (tmp_path / "tmp").mkdir()
    made.env["TMPDIR"] = str(tmp_path / "tmp")
    yield made
    for guardian in of(made, "ipexctl-guard"):
        os.kill(guardian, signal.SIGCONT)
    made.call("stop", "@last", "-t", "0")


def of(here: Here, *names: str) -> list[int]:
    """The processes of those names that have this test's HOME."""
    mark = f"HOME={here.env['HOME']}".encode()
    return [pid for pid in process_ids() if mark in environ_of(pid) and stat_of(pid)[0] in names]


def kill(here: Here, *names: str) -> None:
    found = of(here, *names)
    assert len(found) == len(names)
    for pid in found:  # all stand still first: a guardian would sweep
        os.kill(pid, signal.SIGSTOP)
    for pid in found:
        os.kill(pid, signal.SIGKILL)


def scratch(here: Here) -> list[Path]:
    return list(Path(here.env["TMPDIR"]).glob("ipexctl-*"))


def await_output(here: Here, after: float) -> None:
    """Until a rank has printed a line at this time or later."""
    logs = Path(here.env["HOME"], ".ipexctl", "runs")
    assert wait_until(
        lambda: max(path.stat().st_mtime for path in logs.glob("*/logs/*")) >= after, 60, 0.02
    )


def ended(here: Here) -> dict:
    wait_until(lambda: not here.listed(), 20, 0.1)
    (row,) = here.listed("-a")
    return row


@pytest.mark.parametrize("names", [("ipexctl-run",), ("ipexctl-run", "ipexctl-guard")])
def test_how_long_a_run_took_whose_supervisor_was_killed(
    here: Here, names: tuple[str, ...]
) -> None:
    assert here.call("run", "-d", "-n", "2", "--force", *LONG).returncode == 0
    await_output(here, time.time() + 3.0)
    kill(here, *names)
    row = ended(here)
    assert row["state"] == ("failed" if len(names) == 1 else "lost")
    assert 3.0 <= row["seconds"] < 15.0
    assert ("killed (signal 9)" in row["cause"]) == (len(names) == 1)


def test_a_run_is_not_over_before_its_guardian_has_noted_how_it_ended(here: Here) -> None:
    """Else `wait` returned with what other hosts noted, and `ps` told another cause later."""
    assert here.call("run", "-d", "-n", "2", "--force", *LONG).returncode == 0
    (guardian,) = of(here, "ipexctl-guard")
    os.kill(guardian, signal.SIGSTOP)
    kill(here, "ipexctl-run")
    wait_until(lambda: not of(here, "ipexctl-run"), 10, 0.05)
    (row,) = here.listed()
    assert (row["state"], row["hosts_alive"]) == ("running", ["localhost"])
    waiting = subprocess.Popen(
        here.argv("wait", "--json"), stdout=subprocess.PIPE, text=True, cwd=here.code, env=here.env
    )
    os.kill(guardian, signal.SIGCONT)
    said = json.loads(waiting.communicate(timeout=30)[0])
    assert (said["state"], "killed (signal 9)" in said["cause"]) == ("failed", True)
    (row,) = here.listed("-a")
    assert [row[key] for key in ("state", "cause")] == [said[key] for key in ("state", "cause")]


def test_the_next_run_removes_what_a_killed_pair_left(here: Here) -> None:
    assert here.call("run", "-d", "-n", "2", "--force", *LONG).returncode == 0
    (left,) = scratch(here)
    kill(here, "ipexctl-run", "ipexctl-guard")
    ended(here)
    assert scratch(here) == [left]
    here.start("train.py", "3", "0").communicate(timeout=60)
    wait_until(lambda: not processes_of(here.code.parent), 10, 0.1)
    assert scratch(here) == []
