"""How a keeper sees that its host's part of an attempt has ended."""

from __future__ import annotations

import os
import subprocess
import types
from pathlib import Path

from ipexctl.remote.rank.rank_wrapper import RUN_MARK
from ipexctl.remote.restart.keeper import Part
from ipexctl.remote.run_files import journal

RUN = "20261126-120000-keeper"


def part(runs: Path) -> Part:
    """Of a supervisor that was there, and is not any more."""
    (runs / RUN).mkdir(parents=True)
    made = Part(types.SimpleNamespace(runs=str(runs)), {"run_id": RUN, "host": "node01"}, 1)
    made.seen = True
    return made


def test_a_part_that_vanished_is_a_lost_host_and_its_ranks_are_ended(tmp_path: Path) -> None:
    made = part(tmp_path)
    rank = subprocess.Popen(["sleep", "60"], env={**os.environ, RUN_MARK: RUN})
    try:
        made.look(0.0)
        assert rank.wait(10) == -9
    finally:
        rank.kill()
    said = made.end()
    assert made.ended and not said["well"]
    assert [(fact["event"], fact["host"]) for fact in said["facts"]] == [("lost", "node01")]


def test_a_part_whose_end_is_in_the_journal_is_not_lost(tmp_path: Path) -> None:
    made = part(tmp_path)
    kept = journal.begin(str(tmp_path / RUN), "node01")
    kept.add({"fact": {"event": "over", "why": "ended", "well": True}})
    kept.add({"over": "ended", "survivors": 0})
    made.look(0.0)
    said = made.end()
    assert made.ended and (said["well"], said["facts"]) == (True, [])
