"""Which ends of ranks a supervisor reports: none that its own end of the run causes."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ipexctl.common.run_events import Placement, RankExited
from ipexctl.common.wrapper_messages import RankAsks, ScriptEnded, ScriptStarted
from ipexctl.remote.rank import rank_wrapper
from ipexctl.remote.run import notifier, rank_sockets, run_list
from ipexctl.remote.run.supervisor import Supervisor
from ipexctl.remote.run_files import journal
from tests.hub.test_judge import run
from tests.made import rank_order, start_order

FAILED, KILLED, DONE = (1, None), (None, 9), (0, None)  # code and signal


@pytest.fixture
def supervisor(tmp_path: Path) -> Supervisor:
    root = tmp_path / "root"
    (root / "runs/r123").mkdir(parents=True)
    asked = start_order(root=str(root), run_id="r123", run=run(), ranks=[rank_order(0)])
    made = Supervisor(None, asked, str(tmp_path), bytearray(1), notifier.RunNotices(None, None))
    made.journal = journal.create_journal(made.dir, "a")
    return made


def ends(supervisor: Supervisor, *last: ScriptEnded) -> tuple[Any, list[dict[str, Any]]]:
    """The first failure in the journal, and the ends that the hub is told, when the rank's wrapper
    says this and goes."""
    ours, theirs = socket.socketpair()
    with ours:
        me = os.getpid()
        began = ScriptStarted(me, me, Placement())
        for message in (RankAsks(0, 0), began, *last):
            rank_wrapper.send_message(ours, message.document())
        ours.shutdown(socket.SHUT_WR)
        supervisor.ranks.serve_connection(theirs)
    told = []
    while not supervisor.role.inbox.empty():
        told.append(supervisor.role.inbox.get()[1])
    records = journal.parse_records(
        journal.read_journal_bytes(journal.path_of(supervisor.dir, "a"))
    )
    own = [fact.event for fact in run_list.summarize_journal(records).own]
    exits = [event.ended.document() for event in told if isinstance(event, RankExited)]
    failed = [(e.rank, e.ended.document()) for e in own if isinstance(e, RankExited)]
    return failed, exits


@pytest.mark.parametrize("how", [FAILED, KILLED])
def test_a_rank_that_failed_before_the_end_is_reported_also_after_it(
    supervisor: Supervisor, how: tuple[int | None, int | None]
) -> None:
    message = ScriptEnded(time.monotonic(), *how)
    supervisor.stop("ended")
    failed, told = ends(supervisor, message)
    assert failed == [(0, told[0])]
    assert told[0].get("signal") == how[1]


@pytest.mark.parametrize("how", [FAILED, KILLED])
def test_a_rank_that_ends_by_the_end_of_the_run_has_not_failed(
    supervisor: Supervisor, how: tuple[int | None, int | None]
) -> None:
    supervisor.stop("ended")
    assert ends(supervisor, ScriptEnded(time.monotonic(), *how)) == ([], [])


def test_a_rank_that_is_done_meanwhile_is_done(supervisor: Supervisor) -> None:
    supervisor.stop("ended")
    failed, told = ends(supervisor, ScriptEnded(time.monotonic(), *DONE))
    assert (failed, [how["code"] for how in told]) == ([], [0])


def test_a_wrapper_that_the_end_of_the_run_killed_is_not_a_lost_rank(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rank_sockets, "HESITATION", 0.0)
    supervisor.stop("ended")
    assert ends(supervisor) == ([], [])


def test_a_wrapper_that_was_killed_just_before_the_end_is_a_lost_rank(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end is decided while the supervisor waits for what else there is to say."""
    clock = SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: supervisor.stop("ended"))
    monkeypatch.setattr(rank_sockets, "time", clock)
    failed, told = ends(supervisor)
    assert failed == [(0, told[0])]
    assert told[0]["lost"]
