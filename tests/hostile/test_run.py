"""Hosts that do not keep to the protocol: the run ends with a reason that names the host."""

from __future__ import annotations

import json
import resource

import pytest

from ipexctl.explain.known_failures import known_failures
from ipexctl.run.command.summary import summary_lines
from ipexctl.run.outcome.result_document import result_document
from tests.hostile.speaker import END, GOOD, READY, Stuck, drive


@pytest.mark.parametrize(
    ("says", "why"),
    [
        ("raw(b'garbage ' * 100)", "invalid reply"),
        ("raw(head.pack(1 << 30, 0))", "invalid reply"),
        ("raw(head.pack(2, 0) + b'{}')", "a header without an id"),
        ("say({'event': {'kind': 'Boom'}})", "'event' has the unknown kind 'Boom'"),
        ("say({'event': CopierEnded().document()})", "has the unknown kind 'CopierEnded'"),
        ("say({'event': 'Pong'})", "'event' is not in the expected format"),
        ("tell(RankStarted(0, 1))", "rank 0, which is not on this host"),
        ("tell(LogPart(1), body=b'x' * (100 << 20))", "invalid reply"),
        ("say({'done': 7})", "not a document"),
        ("sys.exit(0)", "the connection ended"),
    ],
)
def test_what_no_host_of_ours_sends_ends_the_run_and_names_the_host(tmp_path, says, why):
    result = drive(tmp_path, [GOOD, f"{READY}{says}\ntime.sleep(60)\n"])
    assert (result.exit_code, result.ended_by) == (121, "host-lost")
    assert result.cause.startswith("n1 was lost: ")
    assert why in result.cause
    assert [(h.host, h.survivors) for h in result.hosts] == [("n0", 0), ("n1", None)]


GONE = f"{READY}sys.exit(0)\n"


@pytest.mark.parametrize(
    ("hosts", "line", "known"),
    [
        ([GOOD, GONE], "unknown on n1, 0 on the others", [0, None]),
        ([GONE], "unknown on n0", [None]),
    ],
)
def test_what_is_left_on_a_lost_host_is_unknown_and_not_0(tmp_path, hosts, line, known):
    result = drive(tmp_path, hosts)
    shown = [text.plain.strip() for text in summary_lines(result)]
    assert any(text.endswith(f": {line}") for text in shown), shown
    document = json.loads(json.dumps(result_document(result, known_failures)))
    assert [h["survivors"] for h in document["hosts"]] == known


def test_a_host_that_floods_is_stopped_before_memory_is_full(tmp_path):
    flood = READY + "while True: tell(LogPart(1), body=b'x\\n' * 30000)\n"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = drive(tmp_path, [GOOD, flood], view=Stuck())
    assert (result.lost_host, "output" in result.cause) == ("n1", True)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 100 * 1024, f"{grown} KiB more memory"


def test_what_only_the_hub_may_say_is_passed_over_from_another(tmp_path):
    evil = READY + (
        "tell(Over('x'))\n"
        "tell(HostLost('x'), 'n0')\n"
        "tell(TimedOut(1), 'n0')\n"
        "tell(EndAsked('x', 1))\n"
        "tell(ProgramEnded('x', code=1, killed=False, said='', up=1, alive=1))\n"
        "for i in range(3): wait_for(Ping)\n"
    )
    result = drive(tmp_path, [GOOD, evil], host_timeout=2.0)
    assert (result.lost_host, "connection" in result.cause) == ("n1", True)


def test_a_host_that_says_nothing_is_lost_after_the_timeout(tmp_path):
    result = drive(tmp_path, [GOOD, "time.sleep(60)\n"], host_timeout=1.0)
    assert (result.lost_host, result.cause.endswith(" 1 s")) == ("n1", True)


def test_a_terminal_that_stands_still_does_not_stop_the_run(tmp_path):
    talks = READY + (
        "tell(LogPart(0), body=b'line\\n')\n"
        "for i in range(6): wait_for(Ping)\n"
        "tell(RankExited(0, Exit(5)))\n"
        "tell(OVER)\n" + END
    )
    result = drive(tmp_path, [talks], view=Stuck(), host_timeout=2.0)
    assert (result.exit_code, result.ended_by) == (5, "rank-failed")
    assert result.hosts[0].survivors == 0
