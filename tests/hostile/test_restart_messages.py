"""Messages between keepers: none names a folder on a host, and none ends a keeper."""

from __future__ import annotations

import base64
import pickle
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ipexctl.common.attempt_record import AttemptBegins
from ipexctl.common.restart_plan import VoterPlan
from ipexctl.remote.restart.keeper import Keeper
from tests.link.links import KEYS
from tests.made import restart_common, start_order

BASE = "20261127-100000-abcdef"


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[Keeper]:
    """It leads; no host but this one has a keeper."""
    plan = VoterPlan(
        run_id=BASE, hosts=["a", "b"], first=["a", "b"], places=[("a", "127.0.0.1", 0)],
        restarts=3, least=1, lease=30.0, kept=True, without="wait", queued=0.0,
        common=restart_common(BASE), host_plans={},
    )  # fmt: skip
    asked = start_order(
        restart_plan=plan.document(), keys=KEYS, root=str(tmp_path / "root"), spare=True
    )
    made = Keeper(asked, SimpleNamespace(has_ended=lambda: False))
    until = time.monotonic() + 10
    while not made.record.leader and time.monotonic() < until:
        made.turn()
    assert made.record.leader == "a"
    yield made
    if made.hub:
        made.hub.close()


def test_a_run_id_in_a_line_of_the_record_is_not_used(keeper: Keeper, tmp_path: Path) -> None:
    kept = tmp_path / "victim/shelf/kept"
    kept.parent.mkdir(parents=True)
    kept.write_text("kept")
    for run_id in ("../../victim", f"{tmp_path}/victim"):
        keeper.record.fold(AttemptBegins(2, ["a"], run_id))
        assert set(keeper.attempts()) == {BASE, f"{BASE}-r02"}
        keeper.copies.remove_old_copies(keeper.attempts(), 9)
    assert kept.read_text() == "kept"


OVER = {
    "attempt": 1, "well": False, "finished": False, "facts": [],
    "seconds": 1.0, "ago": 0.0, "complete": "",
}  # fmt: skip
ODD = [
    None, 7, [], "", {"over": 7}, {"over": {"attempt": 1}}, {"over": ""},
    {"over": {**OVER, "facts": [7]}}, {"over": {**OVER, "facts": 7}}, {"over": {**OVER, "ago": []}},
    {"cleared": {"attempt": 1}},
    {"cleared": {"attempt": 1, "port": 1, "open": 7, "checkpoints": []}},
    {"cleared": {"attempt": 1, "port": 1, "open": [], "checkpoints": [{"name": "x"}]}},
    {"ready": {"attempt": 1}}, {"ready": []}, {"failed": {"why": "x"}},
    {"failed": {"attempt": "x", "why": 1}},
]  # fmt: skip


def vote(what: Any) -> str:
    return base64.b64encode(what if isinstance(what, bytes) else pickle.dumps(what)).decode()


VOTES = [7, "?", vote(b"no pickle"), vote(7), vote({}), vote({"type": "append_entries"})]


@pytest.mark.parametrize(
    "message",
    [{"mine": odd} for odd in ODD]
    + [{"vote": odd} for odd in VOTES]
    + [{"order": odd, "term": 99} for odd in (None, 7, {})]
    + [{"order": {"clear": 0, "number": 1}, "term": "x"}, {}, {"part": 1}, {"stop": "b"}],
)
def test_a_message_that_cannot_be_read_does_not_end_a_keeper(keeper: Keeper, message: Any) -> None:
    keeper.take("b", message)
    keeper.turn()
    assert not keeper.over and not keeper.state.stop
    keeper.take("b", {"mine": {"over": OVER}})
    keeper.turn()
    assert keeper.said["b"].over.attempt == 1
    assert not keeper.over
