"""What the hub and the other supervisors do with a document that they get, valid or not."""

from __future__ import annotations

import queue
import socket
from types import SimpleNamespace
from typing import Any

import pytest

from ipexctl.common import frames, hub_orders, run_events, watch_orders
from ipexctl.common.copy_messages import (
    CopierEnded,
    CopierEvent,
    CopierNote,
    CopierServes,
    PartFound,
    SeekPart,
)
from ipexctl.common.waiting import wait_until
from ipexctl.remote.hub.hub import Hub, HubSpoke
from ipexctl.remote.run.watchers import Watchers
from tests.hub.test_judge import run
from tests.link.links import KEYS


def make_hub() -> tuple[Hub, list[run_events.Fact]]:
    noted = list[run_events.Fact]()
    supervisor: Any = SimpleNamespace(note_facts=noted.extend, plan=SimpleNamespace(keys={}))
    return Hub(supervisor, run()), noted


def test_the_hub_passes_what_copiers_report_to_the_part_that_publishes() -> None:
    hub, noted = make_hub()
    messages: list[CopierEvent] = [
        CopierServes(7), PartFound("c-1", "1", ["m.pt"], [], 0.0),
        CopierNote("slow"), CopierEnded(),
    ]  # fmt: skip
    for message in messages:
        hub.take("b", run_events.CopierReported(message).document())
        hub.take_report(*hub.inbox.get(), 1.0)
    assert hub.checkpoints.places == {"b": ("a", 7)} and noted == []
    told = [(host, order.order.name) for host, order in hub.checkpoints.orders]  # type: ignore[attr-defined]
    assert told == [("a", "c-1"), ("c", "c-1")]
    assert any("b: slow" in str(fact.event) for fact in hub.checkpoints.facts)
    assert hub.judge.facts == [] and hub.judge.orders == []


FOUND = PartFound("c-1", "1", ["m.pt"], [], 0.0).document()


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ({**FOUND, "kind": "Later"}, "CopierEvent: not a message of it"),
        ({**FOUND, "kind": "SeekPart"}, "CopierEvent: not a message of it"),
        ({**FOUND, "kind": ["PartFound"]}, "CopierEvent: not a message of it"),
        ({**FOUND, "kind": None}, "CopierEvent: not a message of it"),
        ({"kind": "PartFound", "name": "c-1"}, "PartFound: stamp, names, needs, age"),
        ({**FOUND, "names": 7}, "PartFound.names: 7"),
        ({**FOUND, "name": ["c-1"]}, "PartFound.name: ['c-1']"),
    ],
)
def test_an_invalid_report_of_a_copier_is_noted_and_the_run_goes_on(
    document: dict[str, Any], why: str
) -> None:
    hub, noted = make_hub()
    hub.take("b", {"kind": "CopierReported", "event": document})
    hub.take_report(*hub.inbox.get(), 1.0)
    (fact,) = noted
    assert isinstance(fact.event, run_events.Noted) and why in fact.event.text
    assert fact.event.text.startswith("checkpoints: b sent an invalid message (")
    assert hub.checkpoints.orders == [] and not hub.judge.over and not hub.over_sent
    hub.take("b", {"kind": "CopierReported", "event": FOUND})
    hub.take_report(*hub.inbox.get(), 2.0)
    assert len(hub.checkpoints.orders) == 2 and noted == [fact]


ENDED = {"kind": "RankExited", "rank": 2, "ended": {"code": 0}, "tail": ""}


@pytest.mark.parametrize(
    "document",
    [
        {**ENDED, "kind": "Later"}, {**ENDED, "kind": "Spawn"}, {**ENDED, "kind": None},
        {**ENDED, "rank": "2"}, {**ENDED, "ended": 0}, {**ENDED, "ended": {"code": "0"}},
        {**ENDED, "ended": {}}, {"kind": "RankExited"}, {"kind": "Ready", "port": None},
        {"kind": "Begun", "plan": None}, {}, [], 7, None,
    ],
)  # fmt: skip
def test_a_report_that_cannot_be_read_costs_its_host_and_not_the_hub(document: Any) -> None:
    hub, noted = make_hub()
    hub.take("b", document)
    hub.take_report(*hub.inbox.get(), 1.0)
    assert noted == []
    (fact,) = hub.judge.facts
    assert fact.host == "b" and fact.event == run_events.HostLost(
        "the host sent an invalid message"
    )
    hub.take("b", ENDED)
    hub.take_report(*hub.inbox.get(), 1.0)
    assert hub.judge.facts == [fact]  # it is not heard any more


def make_spoke() -> tuple[HubSpoke, list[Any], list[str]]:
    inbox, stopped = queue.Queue[Any](), list[str]()
    supervisor: Any = SimpleNamespace(
        plan=SimpleNamespace(host="b"), inbox=inbox, stop=stopped.append
    )
    order: Any = SimpleNamespace(hub="a", keys=KEYS)
    spoke = HubSpoke(supervisor, order)
    return spoke, inbox.queue, stopped  # type: ignore[return-value]


ORDERS: list[hub_orders.HostOrder] = [
    hub_orders.Spawn("daemon1", ["proxy"]), hub_orders.TellCopier(SeekPart("c-1")),
    hub_orders.Stop(), hub_orders.Note([run_events.Fact(run_events.Begun())]),
]  # fmt: skip


def test_a_supervisor_queues_the_orders_of_the_hub() -> None:
    spoke, inbox, stopped = make_spoke()
    for order in ORDERS:
        spoke.take_order(order.document())
    assert [*inbox] == ORDERS and stopped == []


@pytest.mark.parametrize(
    "document",
    [
        {"kind": "Spawn", "program": "daemon1"}, {"kind": "Spawn", "program": 7, "argv": []},
        {"kind": "Spawn", "program": "daemon1", "argv": "proxy"}, {"kind": "Look", "number": "1"},
        {"kind": "TellCopier", "order": {"kind": "PartAbsent", "name": "c-1"}},
        {"kind": "TellCopier", "order": {"kind": "SeekPart", "name": 7}},
        {"kind": "TellCopier", "order": "SeekPart"}, {"kind": "TellCopier"},
        {"kind": "SeekPart", "name": "c-1"}, {"kind": "Interrupt", "by": "b", "seconds": 1.0},
        {"kind": "Later"}, {"kind": ["Stop"]}, {"kind": None}, {"why": "ended"}, {}, [], 7, None,
    ],
)  # fmt: skip
def test_a_supervisor_ends_its_part_if_it_cannot_read_an_order(document: Any) -> None:
    """It cannot do what the hub believes that it does."""
    spoke, inbox, stopped = make_spoke()
    spoke.take_order(document)
    assert (stopped, [*inbox]) == (["a sent an invalid order"], [])


@pytest.mark.parametrize(
    "document",
    [
        {"kind": "Interrupt", "by": "ann"}, {"kind": "Interrupt", "by": 7, "seconds": 1.0},
        {"kind": "Interrupt", "by": "ann", "seconds": "1"}, {"kind": "Doubt", "host": "b"},
        {"kind": "Stop", "why": "x"}, {"kind": "WatchStart"}, {"kind": "Later"}, {"kind": 7},
        {"kind": ["EndPart"]}, {}, [], 7, None,
    ],
)  # fmt: skip
def test_a_program_that_sends_no_order_is_not_listened_to_any_more(document: Any) -> None:
    heard = list[Any]()
    watchers = Watchers(lambda watcher, order: heard.append(order))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        watchers.add_socket(theirs)
        link = frames.of_socket(ours)
        for sent in (watch_orders.Ping().document(), document, watch_orders.EndPart().document()):
            link.write(sent)
        assert wait_until(lambda: None in heard, 60, 0.01)
        assert heard == [watch_orders.Ping(), None] and watchers.all == []


def test_a_command_is_heard_until_it_ends() -> None:
    heard = list[Any]()
    watchers = Watchers(lambda watcher, order: heard.append(order))
    orders = [
        watch_orders.Ping(), watch_orders.Shown(9), watch_orders.Interrupt("ann", 2.5),
        watch_orders.Doubt("b", "gone"), watch_orders.HubAt("127.0.0.1", 7), watch_orders.EndPart(),
    ]  # fmt: skip
    ours, theirs = socket.socketpair()
    with ours, theirs:
        watchers.add_socket(theirs)
        link = frames.of_socket(ours)
        for order in orders:
            link.write(order.document())
        ours.shutdown(socket.SHUT_WR)
        assert wait_until(lambda: None in heard, 60, 0.01)
    assert heard == [*orders, None]
