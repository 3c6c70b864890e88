"""Messages between keepers: none names a folder on a host, and none ends a keeper."""

from __future__ import annotations

import base64
import gzip
import pickle
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ipexctl.common.attempt_record import AttemptBegins, StopNoted
from ipexctl.common.restart_plan import VoterPlan
from ipexctl.remote.connection.hub_link import Spoke
from ipexctl.remote.restart.keeper import Keeper
from tests.link.links import KEYS
from tests.made import restart_common, start_order

BASE = "20261127-100000-abcdef"


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[Keeper]:
    """It leads; no host but this one has a keeper."""
    plan = VoterPlan(
        run_id=BASE, hosts=["a", "b"], first=["a", "b"], ranks=[1, 1],
        places=[("a", "127.0.0.1", 0)],
        restarts=3, least=1, lease=30.0, kept=True, without="wait", queued=0.0, returns=0.0,
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


NUMBERS = {"term": 9, "commit_index": 2, "prevLogIdx": 1, "prevLogTerm": 0}
LED = {"vote": "append_entries", "numbers": NUMBERS}
VOTES = [
    {"vote": 7}, {"vote": "?"}, {"vote": "response_vote"}, {"vote": "?", "numbers": {}},
    {"vote": "response_vote", "numbers": {}}, {"vote": "response_vote", "numbers": {"term": "9"}},
    {"vote": "response_vote", "numbers": {"term": None}}, {"vote": "response_vote", "numbers": 9},
    {"vote": "response_vote", "numbers": {"term": 9, "more": 1}},
    {"vote": "timeout_now", "numbers": {"term": 9}}, {"vote": "apply_command", "numbers": {}},
    {**LED, "numbers": {**NUMBERS, "serialized": 1}}, {**LED, "entries": 7},
    {**LED, "entries": [[b"\0".decode(), 2, 9]]}, {**LED, "entries": [{"index": 2}]},
    {**LED, "entries": [{"index": 2, "term": 9, "line": 7}]},
    {**LED, "entries": [{"index": 2, "term": 9, "line": {"leads": 7}}]},
    {**LED, "entries": [{"index": 2, "term": 9, "line": {"attempt": 2}}]},
]  # fmt: skip


@pytest.mark.parametrize(
    "message",
    [{"mine": odd} for odd in ODD]
    + VOTES
    + [{"order": odd, "term": 99} for odd in (None, 7, {})]
    + [{"order": {"clear": 0, "number": 1}, "term": "x"}, {}, {"part": 1}, {"stop": "b"}],
)
def test_a_message_that_cannot_be_read_does_not_end_a_keeper(keeper: Keeper, message: Any) -> None:
    keeper.take("b", message)
    keeper.turn()
    assert not keeper.over and not keeper.state.stop and keeper.record.leader == "a"
    keeper.take("b", {"mine": {"over": OVER}})
    keeper.turn()
    assert keeper.said["b"].over.attempt == 1
    assert not keeper.over


class RunsProgram:
    """An object whose pickle runs a program where it is read."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (str(self.mark), "w")


def pickled_votes(mark: Path) -> list[dict[str, Any]]:
    """Messages with such a pickle wherever a voter could read one."""
    pickled = pickle.dumps(RunsProgram(mark), 2)
    command = "\0" + pickled.decode("latin-1")
    begun = {**NUMBERS, "type": "append_entries", "term": 99}
    whole = [
        {"type": "apply_command", "command": b"\0" + pickled},
        {"type": "apply_command", "command": b"\2" + pickled},
        {**begun, "entries": [(b"\0" + pickled, 2, 99)]},
        {**begun, "transmission": "start", "data": b""},
        {**begun, "transmission": "finish", "data": pickled},
        {**begun, "serialized": (gzip.compress(pickled), True, True)},
        RunsProgram(mark),
    ]
    entry = {"index": 2, "term": 99, "line": command, "command": command}
    return [
        *({"vote": base64.b64encode(pickle.dumps(message, 2)).decode()} for message in whole),
        {"vote": "append_entries", "numbers": {**NUMBERS, "term": 99}, "entries": [entry]},
        {"vote": "apply_command", "numbers": {}, "entries": [entry]},
        {"vote": "append_entries", "numbers": {**NUMBERS, "serialized": command}},
    ]


def test_a_pickle_of_a_lost_host_is_not_read_and_the_vote_goes_on(tmp_path: Path) -> None:
    """The host has the key of the run, as long as that lasts."""
    hosts, mark = ["a", "b", "lost"], tmp_path / "ran"
    with closing(socket.create_server(("127.0.0.1", 0))) as one:
        port = one.getsockname()[1]
    plan = VoterPlan(
        run_id=BASE, hosts=hosts, first=hosts, ranks=[1, 1, 1],
        places=[("a", "127.0.0.1", port), ("b", "127.0.0.1", 0)], restarts=3, least=1, lease=30.0,
        kept=True, without="wait", queued=0.0, returns=0.0, common=restart_common(BASE),
        host_plans={},
    )  # fmt: skip
    keepers = [
        Keeper(
            start_order(
                restart_plan=plan.document(), keys=KEYS, root=str(tmp_path / name), spare=True,
                host=name,
            ),
            SimpleNamespace(has_ended=lambda: False),
        )
        for name in "ab"
    ]  # fmt: skip
    lost = Spoke("lost", "a", KEYS, lambda message: None, renews=True)
    lost.connect("127.0.0.1", port)

    def turn_until(condition: Callable[[], bool]) -> None:
        until = time.monotonic() + 120
        while not condition():
            assert time.monotonic() < until
            for keeper in keepers:
                keeper.turn()

    def attack() -> None:
        turn_until(lost.connected)
        for message in pickled_votes(mark):
            lost.send(message)
        assert lost.flush(60)

    try:
        attack()
        turn_until(lambda: all(keeper.record.leader for keeper in keepers))
        attack()
        (leader,) = (keeper for keeper in keepers if keeper.leader)
        leader.member.add(StopNoted("ann").document(), leader.member.term())
        turn_until(lambda: all(keeper.record.stopped == "ann" for keeper in keepers))
        assert not mark.exists()
    finally:
        for link in (lost, keepers[0].hub, keepers[1].hub, *keepers[1].spokes.values()):
            if link is not None:
                link.close()
