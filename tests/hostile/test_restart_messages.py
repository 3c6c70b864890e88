"""Messages between keepers: none names a folder on a host, and none ends a keeper."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ipexctl.remote.restart.keeper import Keeper

BASE = "20261127-100000-abcdef"


@pytest.fixture
def keeper(tmp_path: Path) -> Keeper:
    """It leads; no host but this one has a keeper."""
    night = {
        "run_id": BASE, "hosts": ["a", "b"], "first": ["a", "b"], "places": [["a", "127.0.0.1", 0]],
        "restarts": 3, "least": 1, "lease": 30.0, "kept": True, "common": {}, "sheets": {},
    }  # fmt: skip
    asked = {
        "night": night, "host": "a", "keys": {}, "root": str(tmp_path / "root"), "spare": True,
        "secret": False,
    }  # fmt: skip
    made = Keeper(asked, SimpleNamespace(has_ended=lambda: False))
    made.follow(0)
    assert made.leader is not None
    return made


@pytest.mark.parametrize("run_id", ["../../victim", "{}/victim"])
def test_a_run_id_in_a_message_is_not_used(keeper: Keeper, tmp_path: Path, run_id: str) -> None:
    kept = tmp_path / "victim/shelf/kept"
    kept.parent.mkdir(parents=True)
    kept.write_text("kept")
    run_id = run_id.format(tmp_path)
    first = {"attempt": 1, "hosts": ["a", "b"], "run_id": BASE}
    second = {"attempt": 2, "hosts": ["a"], "run_id": run_id, "lasted": 1.0}
    keeper.take("b", {"story": [first, second]})
    keeper.turn()
    assert list(keeper.attempts().values()) == [1, 2]  # it was taken
    keeper.shelves.forget(keeper.attempts(), 9)
    assert kept.read_text() == "kept"


@pytest.mark.parametrize(
    "story",
    [
        None, 7, [], [7], [{}], [{"attempt": "2"}], [{"attempt": 2}], [{"attempt": None}],
        [{"attempt": 1, "hosts": ["a"]}, {"attempt": 2, "hosts": ["a"]}],
        [{"attempt": 1, "hosts": ["a"]}, {"attempt": 2, "hosts": 7, "lasted": 1.0}],
        [{"attempt": 1, "hosts": ["a"]}, {"attempt": 2, "hosts": ["a"], "lasted": []}],
    ],
)  # fmt: skip
def test_a_story_that_cannot_be_read_does_not_end_a_keeper(keeper: Keeper, story: Any) -> None:
    keeper.take("b", {"story": story})
    keeper.turn()
    assert [one["attempt"] for one in keeper.story] == [1]
    keeper.take("b", {"story": [*keeper.story, {"attempt": 2, "hosts": ["a"], "lasted": 1.0}]})
    keeper.turn()
    assert [one["attempt"] for one in keeper.story] == [1, 2]
