"""What a host may say during a run, and what it may not."""

import pytest

from ipexctl.common import run_events
from ipexctl.errors import HostFailed
from ipexctl.run.outcome import event_reader
from ipexctl.run.outcome.event_reader import read_host_event
from ipexctl.run.outcome.rank_exchange import ExchangeGroup, ExchangeReport, Process
from ipexctl.run.outcome.run_state import RankEnd, Usage

OK_END = {"code": 0, "signal": None, "lost": False, "hints": []}
USAGE = {"seconds": 2.0, "cpu": 1.5, "memory": 4096}
KILLED = {"code": None, "signal": 9, "lost": False, "hints": ["oom"]}


PROCESS = {
    "rank": 3, "main": True, "age": 0.5, "seconds": 9, "ended": True, "joined": True,
    "master": "a:1", "place": 3, "world": 4, "torch": "2.13.0", "others": ["ray"],
    "groups": [[[], "gloo", True, 9], [[2, 3], "gloo", None, 0]],
}  # fmt: skip
PROGRAM = {"who": "mpirun", "code": -9, "killed": True, "said": "", "up": 2, "alive": 1}


def heard(body: bytes = b"", **header: object) -> event_reader.Event:
    return read_host_event("node02", {"id": 1, **header}, body, {2, 3})


@pytest.mark.parametrize(
    ("name", "fields", "event"),
    [
        ("ready", {"port": 40000}, run_events.Ready(40000)),
        ("pong", {}, run_events.Pong()),
        ("lost", {"why": "no message"}, run_events.HostLost("no message")),
        ("frozen", {"rank": 3, "seconds": 31}, run_events.RankFrozen(3, 31.0)),
        ("timeout", {"seconds": 60}, run_events.TimedOut(60.0)),
        ("program", PROGRAM, run_events.ProgramEnded(**PROGRAM)),
        ("asked", {"by": "Ctrl-C", "seconds": 9}, run_events.EndAsked("Ctrl-C", 9.0)),
        ("note", {"text": "odd"}, run_events.Noted("odd")),
        ("over", {"why": "ended"}, run_events.Over("ended")),
        ("broken", {"what": "no disk"}, run_events.Broken("no disk")),
        ("rank", {"rank": 2, "started": 77}, run_events.RankStarted(2, 77)),
        ("rank", {"rank": None, "refused": "why"}, run_events.RankRefused("why")),
        ("log", {"key": 3, "end": True}, event_reader.OutputEnd(3)),
        ("load", {}, run_events.Sample()),
        ("load", {"cpu": 0.5, "used": 3, "total": 7, "stopped": {"3": 12}},
         run_events.Sample(0.5, 3, 7, stopped={3: 12.0})),
        ("swept", {"survivors": 1}, run_events.Swept(1)),
        ("swept", {"survivors": 0, "left": 9 << 40}, run_events.Swept(0, 9 << 40)),
        ("abandoned", {"why": "x"}, run_events.Abandoned("x")),
    ],
)  # fmt: skip
def test_every_word_of_a_host_is_understood(name, fields, event):
    assert heard(event=name, **fields) == event


def test_output_is_of_a_rank_or_a_program():
    assert heard(b"text", event="log", key=3) == event_reader.Output(3, b"text")
    assert heard(b"text", event="log", key="mpirun") == event_reader.Output(None, b"text", "mpirun")


@pytest.mark.parametrize(
    ("how", "end"),
    [
        (OK_END, RankEnd(3, "node02", 0)),
        (KILLED, RankEnd(3, "node02", None, 9, hints=("oom",))),
        ({**OK_END, "at_exit": 6}, RankEnd(3, "node02", 0, at_exit=6)),
        ({**OK_END, "usage": USAGE}, RankEnd(3, "node02", 0, usage=Usage(2.0, 1.5, 4096))),
    ],
)
def test_how_a_rank_ended_is_understood_with_its_last_words(how, end):
    assert heard(event="rank", rank=3, ended=how) == event_reader.RankEnded(end)
    found = heard(event="rank", rank=3, ended=how, tail="x" * 3000)
    assert found == event_reader.RankEnded(end, "x" * event_reader.LAST_WORDS)


def test_the_last_answer_has_what_is_left_or_why_there_is_none():
    done = {"survivors": 0, "logs": "/l"}
    assert heard(done=done) == event_reader.RunDone(0, "/l")
    assert heard(done={**done, "found": {"a": 2}}) == event_reader.RunDone(0, "/l", {"a": 2})
    killed = {"survivors": None, "logs": "/l", "killed": "k"}
    assert heard(done=killed) == event_reader.RunDone(None, "/l", killed="k")
    assert heard(error={"what": "no disk"}) == run_events.Broken("no disk")


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ({"event": "boom"}, "an event named 'boom'"),
        ({"event": 5}, "'event'"),
        ({}, "'done' is missing"),
        ({"event": "rank", "rank": 0, "started": 1}, "rank 0, which is not on this host"),
        ({"event": "log", "key": 0}, "rank 0, which is not on this host"),
        ({"event": "log", "key": True}, "'key'"),
        ({"event": "log", "key": [2]}, "'key'"),
        ({"event": "rank", "rank": 2, "ended": "well"}, "'ended'"),
        ({"event": "rank", "rank": 2, "ended": {"code": "0"}}, "'code'"),
        ({"event": "rank", "rank": 2, "ended": {"code": 1, "hints": "oom"}}, "'hints'"),
        ({"event": "rank", "rank": 2, "ended": {**OK_END, "usage": {}}}, "'usage' 'seconds'"),
        ({"event": "ready"}, "'port' is missing"),
        ({"event": "ready", "port": 1 << 70}, "'port'"),
        ({"event": "frozen", "rank": 0, "seconds": 9}, "rank 0, which is not on this host"),
        ({"event": "program", "who": "mpirun"}, "'code' is missing"),
        ({"event": "asked", "by": "x", "seconds": "9"}, "'seconds'"),
        ({"event": "load", "cpu": "much"}, "'cpu'"),
        ({"event": "load", "used": -1}, "'used'"),
        ({"event": "load", "stopped": [3]}, "'stopped'"),
        ({"event": "load", "stopped": {"x": 1}}, "'stopped'"),
        ({"event": "load", "stopped": {"0": 1}}, "rank 0, which is not on this host"),
        ({"event": "load", "ranks": {"3": float("nan")}}, "'ranks'"),
        ({"event": "traffic", "moved": [[3, "a", "b", 5]]}, "'moved'"),
        ({"event": "traffic", "moved": [[0, "a", "b", 5, 5]]}, "not on this host"),
        ({"event": "traffic", "processes": [{"rank": 3}]}, "'processes'"),
        ({"event": "traffic", "processes": [{**PROCESS, "rank": 0}]}, "not on this host"),
        ({"event": "timeout", "seconds": 10**400}, "'seconds'"),
        ({"event": "timeout", "seconds": float("nan")}, "'seconds'"),
        ({"done": {"survivors": [], "logs": ""}}, "'survivors'"),
        ({"done": []}, "not a document"),
        ({"error": "no"}, "not a document"),
    ],
)
def test_anything_else_is_refused_with_the_reason(header, words):
    with pytest.raises(HostFailed, match=words):
        heard(**header)


def test_what_processes_of_ranks_say_is_understood():
    header = {"event": "traffic", "moved": [[3, "a", "b", 5, 6]], "processes": [PROCESS]}
    groups = (ExchangeGroup((), "gloo", True, 9), ExchangeGroup((2, 3), "gloo", None, 0))
    said = Process(3, True, 0.5, 9.0, True, True, "a:1", 3, 4, "2.13.0", ("ray",), groups)
    assert heard(**header) == event_reader.Traffic(ExchangeReport((said,), ((3, "a", "b", 5, 6),)))
