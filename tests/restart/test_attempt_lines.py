"""RUN/attempts: what a keeper writes there, its host reads. Other lines are left out."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from ipexctl.common.attempt_record import (
    AttemptBegins,
    AttemptEnded,
    KeeperNote,
    RecordLine,
    RunEnded,
    RunQueued,
)
from ipexctl.common.run_about import RunAbout
from ipexctl.remote.run_files import attempt_lines, journal

LINES: list[RecordLine] = [
    RunQueued(1000.0, RunAbout(command="train.py")), AttemptBegins(1, ["a", "b"], version=[1, 2]),
    KeeperNote("b sent 7"), AttemptEnded(1, True, True, "b: lost", "", ["b"], 9.0, ""),
    RunEnded("done", True),
]  # fmt: skip


def read(folder: Path) -> list[RecordLine]:
    return [*attempt_lines.read_lines(str(folder), "a")]


def test_lines_are_read_as_they_were_written(tmp_path: Path) -> None:
    assert read(tmp_path) == []
    for line in LINES:
        attempt_lines.append_line(str(tmp_path), "a", line)
    assert read(tmp_path) == LINES
    assert [*attempt_lines.read_lines(str(tmp_path), "b")] == []
    first = journal.read_lines(journal.attempts_path(str(tmp_path), "a"))[0]
    assert first["line"] == LINES[0].document() and abs(first["at"] - time.time()) < 600
    attempt_lines.append_line(str(tmp_path), "a", LINES[-1], is_first=True)
    assert read(tmp_path) == LINES[-1:]


RIGHT = {"at": 5.0, "line": RunEnded("done", True).document()}


@pytest.mark.parametrize(
    "odd",
    [
        {}, 7, None, [], "RunEnded", {"at": 5.0}, {"line": RIGHT["line"]}, RIGHT["line"],
        {"at": "5", "line": RIGHT["line"]}, {"at": 5.0, "end": "done", "well": True},
        *({"at": 5.0, "line": line} for line in (None, 7, [], "RunEnded", {}, [RIGHT["line"]])),
        {"at": 5.0, "line": {"why": "done", "well": True}},
        {"at": 5.0, "line": {"kind": "RunEnded", "why": "done"}},
        {"at": 5.0, "line": {"kind": "RunEnded", "why": "done", "well": "yes"}},
        *(
            {"at": 5.0, "line": {"kind": kind, "why": "done", "well": True}}
            for kind in ("Later", "RecordLine", "WrittenLine", "Vote", 7, None, ["RunEnded"])
        ),
    ],
)  # fmt: skip
def test_a_line_of_another_kind_or_version_is_left_out(tmp_path: Path, odd: Any) -> None:
    path = Path(journal.attempts_path(str(tmp_path), "a"))
    rows = [RIGHT, odd, {**RIGHT, "later": 1}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert read(tmp_path) == [RunEnded("done", True)] * 2
