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

from ipexctl.common.attempt_record import AttemptBegins, KeeperNote, StopNoted
from ipexctl.common.keeper_messages import (
    HostReport,
    HostReported,
    KeeperOrder,
    LeaderOrdered,
    PartOver,
    Vote,
)
from ipexctl.common.restart_plan import VoterPlan
from ipexctl.common.run_events import Fact, HostLost
from ipexctl.remote.connection.hub_link import Spoke
from ipexctl.remote.restart.keeper import Keeper
from ipexctl.remote.run_files import attempt_lines
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
    made.links.close()


def test_a_run_id_in_a_line_of_the_record_is_not_used(keeper: Keeper, tmp_path: Path) -> None:
    kept = tmp_path / "victim/copies/kept"
    kept.parent.mkdir(parents=True)
    kept.write_text("kept")
    for run_id in ("../../victim", f"{tmp_path}/victim"):
        keeper.record.fold(AttemptBegins(2, ["a"], run_id))
        assert set(keeper.host.attempts()) == {BASE, f"{BASE}-r02"}
        keeper.host.copies.remove_old_copies(keeper.host.attempts(), 9)
    assert kept.read_text() == "kept"


OVER = PartOver(1, False, False, [], 1.0, "")
PART, FACT = OVER.document(), Fact(HostLost("x"), "a").document()
REPORTS = [
    None, 7, [], "", {"over": 7}, {"over": {"attempt": 1}}, {"over": ""},
    {"over": {**PART, "facts": [7]}}, {"over": {**PART, "facts": 7}}, {"over": {**PART, "ago": []}},
    {"over": {**PART, "facts": [{"event": {"kind": "?"}}]}},
    {"over": {**PART, "facts": [{"event": "HostLost"}]}},
    {"over": {**PART, "facts": [{**FACT, "event": {"kind": "HostLost", "why": 7}}]}},
    {"over": {**PART, "facts": [{**FACT, "event": StopNoted("b").document()}]}},
    {"over": {**PART, "facts": [FACT["event"]]}},
    {"cleared": {"attempt": 1}},
    {"cleared": {"attempt": 1, "port": 1, "open": 7, "checkpoints": []}},
    {"cleared": {"attempt": 1, "port": 1, "open": [], "checkpoints": [{"name": "x"}]}},
    {"ready": {"attempt": 1}}, {"ready": []}, {"failed": {"why": "x"}},
    {"failed": {"attempt": "x", "why": 1}},
]  # fmt: skip


NUMBERS = {"term": 9, "commit_index": 2, "prevLogIdx": 1, "prevLogTerm": 0}
LED = Vote("append_entries", NUMBERS).document()  # type: ignore[arg-type]
ENTRY = {"index": 2, "term": 9}
LINES: list[Any] = [
    7, [], "Leads", {}, {"host": "b"}, {"kind": "Leads"}, {"kind": "Leads", "host": 7},
    {"kind": "AttemptBegins", "attempt": 2}, {"kind": "StopNoted", "by": None},
    {"kind": "Later", "host": "b"}, {"kind": "RecordLine", "host": "b"}, {"kind": 7, "host": "b"},
    {"kind": ["Leads"], "host": "b"}, {"kind": "HostReported", "report": {}},
    {"kind": "WrittenLine", "at": 1.0, "line": {"kind": "Leads", "host": "b"}},
]  # fmt: skip
VOTES = [
    {"vote": 7, "numbers": NUMBERS}, {"vote": "response_vote"}, {"numbers": NUMBERS},
    {"vote": "?"}, {"vote": "?", "numbers": {}}, {"vote": "?", "numbers": NUMBERS},
    {"vote": "response_vote", "numbers": {}}, {"vote": "response_vote", "numbers": {"term": "9"}},
    {"vote": "response_vote", "numbers": {"term": None}}, {"vote": "response_vote", "numbers": 9},
    {"vote": "response_vote", "numbers": {"term": 9, "more": 1}},
    {"vote": "timeout_now", "numbers": {"term": 9}}, {"vote": "apply_command", "numbers": {}},
    {**LED, "numbers": {**NUMBERS, "serialized": 1}}, {**LED, "entries": 7},
    {**LED, "entries": [[b"\0".decode(), 2, 9]]}, {**LED, "entries": [{"index": 2}]},
    {**LED, "entries": [{**ENTRY, "line_term": "9"}]},
    *({**LED, "entries": [{**ENTRY, "line": line}]} for line in LINES),
]  # fmt: skip
ORDER = LeaderOrdered(KeeperOrder(1, 0), 99).document()
ORDERS = [
    *({**ORDER, "order": odd} for odd in (None, 7, [], {}, {"number": 1})),
    {**ORDER, "order": {"number": "1", "clear": 0}}, {**ORDER, "order": {"number": 1, "clear": []}},
    {**ORDER, "order": {"number": 1, "clear": 0, "end": {"why": "x", "well": True}}},
    {**ORDER, "order": {"number": 1, "clear": 0, "end": {"kind": "Leads", "host": "b"}}},
    {**ORDER, "order": {"number": 1, "clear": 0, "end": {"kind": "RunEnded", "why": "x"}}},
    {**ORDER, "order": {"number": 1, "clear": 0, "begin": {"kind": "BeginPart"}}},
    {**ORDER, "order": {"number": 1, "clear": 0, "hub": "b"}},
    {**ORDER, "term": "x"}, {**ORDER, "term": None}, {**ORDER, "lines": 7},
    *({**ORDER, "lines": [line]} for line in LINES),
]  # fmt: skip
OF_A_KIND = [
    *({"kind": "HostReported", "report": report} for report in REPORTS), {"kind": "HostReported"},
    *({**vote, "kind": "Vote"} for vote in VOTES), *ORDERS,
]  # fmt: skip
REPORT = HostReported(HostReport(stop="b")).document()
OF_NO_KIND = [
    *({**REPORT, "kind": kind} for kind in (None, 7, "", [], ["HostReported"], {}, "Later")),
    *({**REPORT, "kind": kind} for kind in ("HostReport", "KeeperMessage", "StopNoted")),
    {**ORDER, **StopNoted("b").document()}, {"report": {"stop": "b"}}, {"kind": "Variant"},
    {}, {"part": 1}, {"stop": "b"}, {"kind": "Interrupt", "by": "b", "seconds": 0.0},
]  # fmt: skip


def noted(keeper: Keeper) -> list[str]:
    lines = attempt_lines.read_lines(keeper.folder, "a")
    return [line.text for line in lines if isinstance(line, KeeperNote)]


def hear(keeper: Keeper, message: Any) -> list[str]:
    """Return what the keeper notes when b sends a message that changes nothing."""
    term, before = keeper.term, len(noted(keeper))
    keeper.take("b", message)
    keeper.turn()
    assert not keeper.over and not keeper.host.report.stop and keeper.record.leader == "a"
    assert not keeper.record.stopped and keeper.term == term and not keeper.said.get("b")
    return noted(keeper)[before:]


def goes_on(keeper: Keeper) -> None:
    keeper.take("b", HostReported(HostReport(over=OVER)).document())
    keeper.turn()
    assert keeper.said["b"].over == OVER and not keeper.over


@pytest.mark.parametrize("message", OF_A_KIND)
def test_a_message_that_cannot_be_read_does_not_end_a_keeper(
    keeper: Keeper, message: dict[str, Any]
) -> None:
    notes = hear(keeper, message)
    assert not any("KeeperMessage: not a message of it" in note for note in notes), "its kind is"
    if message["kind"] != "Vote":  # PySyncObj ignores some
        (note,) = notes
        assert note.startswith(f"b sent {str(message)[:20]}")
    goes_on(keeper)


@pytest.mark.parametrize("message", OF_NO_KIND)
def test_a_message_of_an_unknown_kind_does_not_end_a_keeper(
    keeper: Keeper, message: dict[str, Any]
) -> None:
    (note,) = hear(keeper, message)
    assert "KeeperMessage: not a message of it" in note
    goes_on(keeper)


def test_what_these_messages_are_made_of_is_valid(keeper: Keeper) -> None:
    """So it is their odd value that is refused."""
    line = StopNoted("ann").document()
    keeper.take("b", {**REPORT, "later": 1})
    keeper.turn()
    assert keeper.said["b"].stop == "b"
    votes, orders = list[Vote](), list[Any]()
    assert keeper.member is not None
    keeper.member.take = lambda name, vote: votes.append(vote)  # type: ignore[method-assign]
    keeper.obey = lambda *order: orders.append(order)  # type: ignore[method-assign]
    keeper.take("b", {**LED, "entries": [{**ENTRY, "line": line}]})
    keeper.turn()
    keeper.take("b", {**ORDER, "lines": [line]})
    keeper.turn()
    (vote,) = votes
    assert vote.entries[0].line == StopNoted("ann")
    assert (KeeperOrder(1, 0), 99, [StopNoted("ann")]) in orders
    assert noted(keeper) == []


HIGH = 1 << 62
FAR = [
    Vote("request_vote", {"term": HIGH, "last_log_index": 2, "last_log_term": 1}).document(),
    Vote("request_vote", {"term": 9, "last_log_index": 2, "last_log_term": HIGH}).document(),
    Vote("response_vote", {"term": HIGH}).document(), {**LED, "numbers": {**NUMBERS, "term": HIGH}},
    {**LED, "numbers": {**NUMBERS, "prevLogTerm": HIGH}},
    {**LED, "entries": [{**ENTRY, "term": HIGH}]},
    {**LED, "entries": [{**ENTRY, "line_term": HIGH}]}, {**ORDER, "term": HIGH},
]  # fmt: skip


@pytest.mark.parametrize("message", FAR)
def test_a_term_that_nobody_can_go_beyond_is_refused(
    keeper: Keeper, message: dict[str, Any]
) -> None:
    assert keeper.member
    before = keeper.member.term()
    (note,) = hear(keeper, message)
    assert f"a term of {HIGH}, and here it is {before}" in note
    assert keeper.member.term() == before and keeper.member.leads()
    goes_on(keeper)


def test_a_term_that_is_somewhat_higher_is_not_refused(keeper: Keeper) -> None:
    assert keeper.member
    term = keeper.member.term() + 1_000_000
    keeper.member.read_vote(Vote("response_vote", {"term": term}))
    keeper.take("b", {**ORDER, "term": term})
    keeper.turn()
    assert noted(keeper) == [] and keeper.term == term


class RunsProgram:
    """An object whose pickle runs a program where it is read."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (str(self.mark), "w")


def vote(name: str, numbers: dict[str, Any] = NUMBERS, entries: Any = ()) -> dict[str, Any]:
    return {"kind": "Vote", "vote": name, "numbers": numbers, "entries": [*entries]}


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
        *(vote(base64.b64encode(pickle.dumps(message, 2)).decode()) for message in whole),
        vote("append_entries", {**NUMBERS, "term": 99}, [entry]),
        vote("append_entries", {**NUMBERS, "term": 99}, [{**entry, "line": {"kind": command}}]),
        vote("apply_command", {}, [entry]),
        vote("append_entries", {**NUMBERS, "serialized": command}),
        {**vote("append_entries"), "kind": command},
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
        (leader,) = (keeper for keeper in keepers if keeper.is_leader())
        leader.member.propose(StopNoted("ann"), leader.member.term())
        turn_until(lambda: all(keeper.record.stopped == "ann" for keeper in keepers))
        assert not mark.exists()
    finally:
        for links in (lost, *(keeper.links for keeper in keepers)):
            links.close()
