"""What a host may say during a run, and what it may not."""

import json
from typing import Any

import pytest

from ipexctl.common import copy_messages, run_events, watch_orders
from ipexctl.common.exchange_report import ExchangeReport, RankGroup, RankProcess
from ipexctl.common.run_events import Exit, Usage
from ipexctl.common.supervisor_messages import PartReport
from ipexctl.errors import HostFailed
from ipexctl.run.outcome import event_reader
from ipexctl.run.outcome.event_reader import read_host_event
from ipexctl.run.outcome.rank_states import RankEnd
from ipexctl.run.outcome.rank_states import Usage as UsageOfEnd
from tests.made import event_document

OK_END = {"code": 0, "signal": None, "lost": False, "hints": []}
GROUPS = (RankGroup((), "gloo", True, 9), RankGroup((2, 3), "gloo", None, 0))
PROCESS = RankProcess(3, True, 0.5, 9.0, True, True, "a:1", 3, 4, "2.13.0", ("ray",), GROUPS)


def heard(header: dict[str, Any], body: bytes = b"") -> event_reader.Event:
    sent = json.loads(json.dumps({"id": 1, **header}))
    return read_host_event("node02", sent, body, {2, 3})


def said(event: run_events.Event, body: bytes = b"") -> event_reader.Event:
    return heard(event_document(event), body)


@pytest.mark.parametrize(
    "event",
    [
        run_events.Ready(40000),
        run_events.Pong(),
        run_events.HostLost("no message"),
        run_events.RankFrozen(3, 31.0),
        run_events.TimedOut(60.0),
        run_events.ProgramEnded("mpirun", -9, killed=True, said="", up=2, alive=1),
        run_events.EndAsked("Ctrl-C", 9.0),
        run_events.Noted("odd"),
        run_events.Over("ended"),
        run_events.Broken("no disk"),
        run_events.RankStarted(2, 77),
        run_events.RankRefused("why"),
        run_events.Sample(),
        run_events.Sample(0.5, 3, 7),
        run_events.Swept(1),
        run_events.Swept(0, 9 << 40),
        run_events.Abandoned("x"),
        run_events.Exchanged(ExchangeReport((PROCESS,), ((3, "a", "b", 5, 6),))),
    ],
)
def test_every_word_of_a_host_is_understood(event):
    assert said(event) == event


def test_ranks_in_a_sample_are_numbers():
    event = run_events.Sample(stopped={3: 12.0}, doing={2: "importing torch"})
    assert said(event) == event


def test_output_is_of_a_rank_or_a_program():
    log = run_events.LogPart
    assert said(log(3), b"text") == event_reader.Output(3, b"text")
    assert said(log("mpirun"), b"text") == event_reader.Output(None, b"text", "mpirun")
    assert said(log(3, end=True)) == event_reader.OutputEnd(3)


@pytest.mark.parametrize(
    ("how", "end"),
    [
        (Exit(0), RankEnd(3, "node02", 0)),
        (Exit(None, 9, hints=("oom",)), RankEnd(3, "node02", None, 9, hints=("oom",))),
        (Exit(0, at_exit=6), RankEnd(3, "node02", 0, at_exit=6)),
        (
            Exit(0, usage=Usage(2.0, 1.5, 4096)),
            RankEnd(3, "node02", 0, usage=UsageOfEnd(2.0, 1.5, 4096)),
        ),
    ],
)
def test_how_a_rank_ended_is_understood_with_its_last_words(how, end):
    assert said(run_events.RankExited(3, how)) == event_reader.RankEnded(end)
    found = said(run_events.RankExited(3, how, "x" * 3000))
    assert found == event_reader.RankEnded(end, "x" * event_reader.LAST_WORDS)


@pytest.mark.parametrize(
    "report",
    [
        PartReport(0, "/l"),
        PartReport(0, "/l", {"a": 2}),
        PartReport(None, "/l", killed="k"),
        PartReport(0, "/l", traffic=ExchangeReport((PROCESS,))),
    ],
)
def test_the_last_answer_has_what_is_left_or_why_there_is_none(report):
    found = heard({"done": report.document()})
    assert isinstance(found, event_reader.RunDone) and found.report == report


def test_a_host_that_cannot_go_on_says_why():
    assert heard({"error": {"what": "no disk"}}) == run_events.Broken("no disk")


def odd(kind: str, **fields: object) -> dict[str, Any]:
    return {"event": {"kind": kind, **fields}}


def odd_end(**how: object) -> dict[str, Any]:
    return odd("RankExited", rank=2, ended=how)


def odd_report(**fields: object) -> dict[str, Any]:
    return odd("Exchanged", report=fields)


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (odd("Boom"), "'event' has the unknown kind 'Boom'"),
        (odd("x\nboom" * 20), "has the unknown kind 'xboom"),
        (odd("Event"), "has the unknown kind 'Event'"),
        ({"event": watch_orders.Ping().document()}, "has the unknown kind 'Ping'"),
        ({"event": copy_messages.CopierEnded().document()}, "the unknown kind 'CopierEnded'"),
        (odd("CopierReported", event={"kind": "Pong"}), "'event' has the unknown kind 'Pong'"),
        ({"event": {}}, "'event' is not in the expected format"),
        ({"event": {"kind": 5}}, "'event' is not in the expected format"),
        ({"event": 5}, "'event' is not in the expected format"),
        ({"event": "Pong"}, "'event' is not in the expected format"),
        ({"event": [1]}, "'event' is not in the expected format"),
        ({}, "'event' is missing"),
        (odd("RankStarted", rank=0, started=1), "rank 0, which is not on this host"),
        (odd("LogPart", key=0), "rank 0, which is not on this host"),
        (odd("LogPart", key=0, end=True), "rank 0, which is not on this host"),
        (odd("LogPart", key=True), "'key'"),
        (odd("LogPart", key=[2]), "'key'"),
        (odd("LogPart", key=2, end=1), "'end'"),
        (odd("RankExited", rank=2, ended="well"), "'ended'"),
        (odd("RankExited", rank=2), "'ended' is missing"),
        (odd("RankExited", rank=0, ended=OK_END), "rank 0, which is not on this host"),
        (odd_end(code="0"), "'code'"),
        (odd_end(code=1, hints="oom"), "'hints'"),
        (odd_end(**OK_END, usage={}), "'usage' 'seconds'"),
        (odd("Ready"), "'port' is missing"),
        (odd("Ready", port=1 << 70), "'port'"),
        (odd("RankFrozen", rank=0, seconds=9), "rank 0, which is not on this host"),
        (odd("ProgramEnded", who="mpirun"), "'code' is missing"),
        (odd("EndAsked", by="x", seconds="9"), "'seconds'"),
        (odd("Sample", cpu="much"), "'cpu'"),
        (odd("Sample", used=-1), "'used'"),
        (odd("Sample", stopped=[3]), "'stopped'"),
        (odd("Sample", stopped={"x": 1}), "'stopped'"),
        (odd("Sample", stopped={"0": 1}), "rank 0, which is not on this host"),
        (odd("Sample", ranks={"0": 1}), "rank 0, which is not on this host"),
        (odd("Sample", ranks={"3": float("nan")}), "'ranks'"),
        (odd_report(moved=[[3, "a", "b", 5]]), "'moved'"),
        (odd_report(moved=[[0, "a", "b", 5, 5]]), "not on this host"),
        (odd_report(processes=[{"rank": 3}]), "'processes'"),
        (odd_report(processes=[PROCESS.replace(rank=0).document()]), "not on this host"),
        (odd("Exchanged"), "'report' is missing"),
        (odd("TimedOut", seconds=10**400), "'seconds'"),
        (odd("TimedOut", seconds=float("nan")), "'seconds'"),
        ({"done": {"survivors": [], "logs": ""}}, "'survivors'"),
        (
            {"done": PartReport(0, "/l", traffic=ExchangeReport(
                moved=((0, "a", "b", 5, 5),))).document()},
            "not on this host",
        ),
        ({"done": []}, "not a document"),
        ({"error": "no"}, "not a document"),
    ],
)  # fmt: skip
def test_anything_else_is_refused_with_the_reason(header, words):
    with pytest.raises(HostFailed, match=words):
        heard(header)
