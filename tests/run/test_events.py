"""What a host may say during a run, and what it may not."""

import pytest

from ipexctl.errors import HostFailed
from ipexctl.run.outcome import run_events
from ipexctl.run.outcome.rank_exchange import Report
from ipexctl.run.outcome.run_events import read
from ipexctl.run.outcome.run_result import Load
from ipexctl.run.outcome.run_state import RankEnd, Usage

OK_END = {"code": 0, "signal": None, "lost": False, "hints": []}
USAGE = {"seconds": 2.0, "cpu": 1.5, "memory": 4096}
KILLED = {"code": None, "signal": 9, "lost": False, "hints": ["oom"]}


@pytest.mark.parametrize(
    ("header", "body", "event"),
    [
        ({"event": "ready", "port": 40000}, b"", run_events.Ready(40000)),
        ({"event": "pong"}, b"", run_events.Pong()),
        ({"event": "lost", "why": "no message"}, b"", run_events.HostLost("no message")),
        ({"event": "frozen", "rank": 3, "seconds": 31}, b"", run_events.RankFrozen(3, 31.0)),
        ({"event": "timeout", "seconds": 60}, b"", run_events.TimedOut(60.0)),
        (
            {
                "event": "program",
                "who": "mpirun",
                "code": -9,
                "killed": True,
                "said": "",
                "up": 2,
                "alive": 1,
            },
            b"",
            run_events.ProgramEnded("mpirun", -9, killed=True, said="", up=2, alive=1),
        ),
        ({"event": "asked", "by": "Ctrl-C", "seconds": 9}, b"", run_events.EndAsked("Ctrl-C", 9.0)),
        ({"event": "note", "text": "odd"}, b"", run_events.Noted("odd")),
        ({"event": "over", "why": "ended"}, b"", run_events.Over("ended")),
        ({"event": "broken", "what": "no disk"}, b"", run_events.Broken("no disk")),
        ({"event": "rank", "rank": 2, "started": 77}, b"", run_events.RankStarted(2)),
        (
            {"event": "rank", "rank": 3, "ended": OK_END},
            b"",
            run_events.RankEnded(RankEnd(3, "node02", 0)),
        ),
        (
            {"event": "rank", "rank": 3, "ended": KILLED},
            b"",
            run_events.RankEnded(RankEnd(3, "node02", None, 9, hints=("oom",))),
        ),
        (
            {"event": "rank", "rank": 3, "ended": {**OK_END, "at_exit": 6}},
            b"",
            run_events.RankEnded(RankEnd(3, "node02", 0, at_exit=6)),
        ),
        ({"event": "rank", "rank": None, "refused": "why"}, b"", run_events.RankRefused("why")),
        ({"event": "log", "key": 3}, b"text", run_events.Output(3, b"text")),
        ({"event": "log", "key": 3, "end": True}, b"", run_events.OutputEnd(3)),
        ({"event": "log", "key": "mpirun"}, b"text", run_events.Output(None, b"text", "mpirun")),
        ({"event": "load"}, b"", run_events.Sample(Load())),
        (
            {"event": "load", "cpu": 0.5, "used": 3, "total": 7, "stopped": {"3": 12}},
            b"",
            run_events.Sample(Load(0.5, 3, 7), {3: 12.0}),
        ),
        (
            {"event": "rank", "rank": 3, "ended": {**OK_END, "usage": USAGE}},
            b"",
            run_events.RankEnded(RankEnd(3, "node02", 0, usage=Usage(2.0, 1.5, 4096))),
        ),
        ({"event": "swept", "survivors": 1}, b"", run_events.Swept(1)),
        ({"event": "swept", "survivors": 0, "left": 9 << 40}, b"", run_events.Swept(0, 9 << 40)),
        ({"event": "abandoned", "why": "x"}, b"", run_events.Abandoned("x")),
        ({"done": {"survivors": 0, "logs": "/l"}}, b"", run_events.Done(0, "/l")),
        (
            {"done": {"survivors": 0, "logs": "/l", "found": {"a": 2}}},
            b"",
            run_events.Done(0, "/l", {"a": 2}),
        ),
        (
            {"done": {"survivors": None, "logs": "/l", "killed": "k"}},
            b"",
            run_events.Done(None, "/l", killed="k"),
        ),
        (
            {"event": "rank", "rank": 3, "ended": {**OK_END}, "tail": "x" * 3000},
            b"",
            run_events.RankEnded(RankEnd(3, "node02", 0), "x" * run_events.LAST_WORDS),
        ),
        ({"error": {"what": "no disk"}}, b"", run_events.Broken("no disk")),
    ],
)
def test_every_word_of_a_host_is_understood(header, body, event):
    assert read("node02", {"id": 1, **header}, body, {2, 3}) == event


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
        ({"event": "rank", "rank": 2, "ended": "well"}, "not a document"),
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
        ({"event": "traffic", "links": [[3, "a", 1, "b", 2, 5]]}, "'links'"),
        ({"event": "traffic", "links": [[0, "a", 1, "b", 2, 5, 5]]}, "not on this host"),
        ({"event": "traffic", "sharing": [[3, 0]]}, "rank 0, which is not on this host"),
        ({"event": "timeout", "seconds": 10**400}, "'seconds'"),
        ({"event": "timeout", "seconds": float("nan")}, "'seconds'"),
        ({"done": {"survivors": [], "logs": ""}}, "'survivors'"),
        ({"done": []}, "not a document"),
        ({"error": "no"}, "not a document"),
    ],
)
def test_anything_else_is_refused_with_the_reason(header, words):
    with pytest.raises(HostFailed, match=words):
        read("node02", {"id": 1, **header}, b"", {2, 3})


def test_the_ends_of_a_connection_are_its_key():
    header = {"event": "traffic", "links": [[3, "a", 1, "b", 2, 5, 6]], "sharing": [[2, 3]]}
    report = Report(((3, ("a", 1, "b", 2), 5, 6),), ((2, 3),))
    assert read("node02", header, b"", {2, 3}) == run_events.Traffic(report)
