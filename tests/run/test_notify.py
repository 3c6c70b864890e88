"""--notify: the command runs once for each event, and nothing but it knows its text."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ipexctl.base.retry_command import compose_retry_command
from ipexctl.base.typed_command import Typed
from ipexctl.common.attempt_record import AttemptBegins, AttemptRuns, RunEnded
from ipexctl.common.journal_records import FactNoted, PartEnded
from ipexctl.common.notify_command import describe_event, run_notify_command
from ipexctl.common.run_events import (
    Abandoned,
    Broken,
    EndAsked,
    Event,
    Exit,
    Fact,
    HostLost,
    Noted,
    Over,
    ProgramEnded,
    RankExited,
    RankFrozen,
    RankRefused,
    RanksSucceeded,
    Stalled,
    TimedOut,
)
from ipexctl.machines.target import Target
from ipexctl.remote.restart.keeper_notices import describe_line
from ipexctl.remote.run import notifier
from ipexctl.remote.run_files import journal
from ipexctl.run.watch import event_notifier
from ipexctl.run.watch.event_notifier import EventNotifier
from tests.inventory.conftest import ROOT

VALUES = describe_event("20261129-101010-abcdef", "bert", "failed", "a\x1b[31mb\n\0'; rm -rf x")


def test_what_is_known_comes_in_variables_alone(tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = f'env | grep ^IPEXCTL_ | sort > {out}; tr "\\0" " " < /proc/$$/cmdline >> {out}'
    assert run_notify_command(command, VALUES) == ""
    *lines, argv = out.read_text().splitlines()
    assert lines == [
        "IPEXCTL_CAUSE=a [31mb  '; rm -rf x",
        "IPEXCTL_NAME=bert",
        "IPEXCTL_REPORT=ipexctl report 20261129-101010-abcdef",
        "IPEXCTL_RUN=20261129-101010-abcdef",
        "IPEXCTL_STATE=failed",
    ]
    assert "grep" not in argv


def test_one_that_fails_or_hangs_is_told_of_without_its_text(tmp_path: Path) -> None:
    failed = run_notify_command("echo secret; exit 7", VALUES)
    began, late = time.monotonic(), tmp_path / "late"
    hung = run_notify_command(f"sleep 3 && touch {late} & sleep 60", VALUES, 0.3)
    assert (failed, hung) == (
        "--notify (failed): exit code 7",
        "--notify (failed): it did not end within 0 s",
    )
    assert time.monotonic() - began < 2
    time.sleep(3.1)
    assert not late.exists(), "what it started has ended with it"


SENDER = """
import os, sys
from ipexctl.remote.run import notifier
notifier.CLAIM = 0.2
command = 'echo "$IPEXCTL_STATE $IPEXCTL_NAME" >> "$FOLDER/told"; exit 3'
link = notifier.fork_notifier(command, sys.argv[1], "r1", "bert", "a")
for key in sys.argv[2:]:
    notifier.send_notice(link, key, key)
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("last", ["run", "run-r02"])
def test_the_process_outlives_the_run_and_runs_what_is_not_claimed(
    tmp_path: Path, last: str
) -> None:
    first = str(tmp_path / "run")
    for name in {"run", last}:
        (tmp_path / name).mkdir()
        record = journal.create_journal(str(tmp_path / name), "a")
        record.add(PartEnded("ended", 0), sync=True)
    assert notifier.claim_event(first, "claimed")
    env = {"PYTHONPATH": str(ROOT), "FOLDER": str(tmp_path), "PATH": "/usr/bin:/bin"}
    keys = ("one", "claimed", "one", "two")
    sender = subprocess.run([sys.executable, "-c", SENDER, first, *keys], env=env)
    assert sender.returncode == -9
    deadline, path = time.monotonic() + 20, journal.path_of(str(tmp_path / last), "a")

    def noted() -> list[str]:
        records = [found.record for found, _ in journal.JournalReader(path).new()]
        events = [record.fact.event for record in records if isinstance(record, FactNoted)]
        return [event.text for event in events if isinstance(event, Noted)]

    while len(noted()) < 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert (tmp_path / "told").read_text() == "one bert\ntwo bert\n"
    assert noted() == ["--notify (one): exit code 3", "--notify (two): exit code 3"]


OVER = Over("ended")
ASKED = EndAsked("ann", 3)
STALL = Stalled(45.2, 2)
LOST = HostLost("no message")
KILLED = ProgramEnded("what started b's ranks", -9, killed=True, said="", up=1, alive=0)


@pytest.mark.parametrize(
    ("events", "told"),
    [
        ([Over("ended", well=True)], [("end", "done", "")]),
        ([RanksSucceeded(), OVER], [("end", "done", "")]),
        ([STALL, OVER], [("stalled-2", "stalled", "no progress for 45 s"), ("end", "failed", "")]),
        ([ASKED, STALL, OVER], [("end", "stopped", "ann")]),
        (
            [LOST, RankExited(1, Exit(1)), OVER],
            [("end", "failed", "b was lost: no message")],
        ),
        (
            [RankExited(1, Exit(1), "x\nE: y\n"), OVER],
            [("end", "failed", "rank 1 on b exited with code 1")],
        ),
        (
            [RankExited(1, Exit(None, 9), "x"), OVER],
            [("end", "failed", "rank 1 on b was ended by signal 9 (SIGKILL)")],
        ),
        (
            [KILLED, OVER],
            [("end", "failed", "what started b's ranks was ended by signal 9 (SIGKILL)")],
        ),
        ([TimedOut(3), OVER], [("end", "failed", "--timeout")]),
        ([Abandoned("the command has gone"), OVER], [("end", "stopped", "the command has gone")]),
        ([Broken("no disk"), OVER], [("end", "failed", "no disk")]),
        ([RankRefused("not planned"), OVER], [("end", "failed", "not planned")]),
        ([RankFrozen(1, 31.0), OVER], [("end", "failed", "rank 1 on b was stopped")]),
    ],
)
def test_what_the_hub_tells(events: list[Event], told: list[Any], monkeypatch: Any) -> None:
    facts = [Fact(event, "b") for event in events]
    sent: list[Any] = []
    monkeypatch.setattr(notifier, "send_notice", lambda link, *notice: sent.append(notice))
    run = type("Run", (), {"has_keepers": False})
    notifier.RunNotices(None, run).take_facts(facts)
    assert sent == told
    sent.clear()
    run.has_keepers = True  # type: ignore[attr-defined]
    notifier.RunNotices(None, run).take_facts(facts)
    assert sent == [notice for notice in told if notice[0] != "end"], "the leading keeper tells it"


def test_what_the_leading_keeper_tells() -> None:
    assert describe_line(AttemptBegins(1, ["a"])) is None
    assert describe_line(AttemptRuns(2)) is None
    second = AttemptBegins(2, ["a"], why="b: lost")
    assert describe_line(second) == ("attempt-2", "restarting", "b: lost")
    assert describe_line(RunEnded("done", True)) == ("end", "done", "")
    assert describe_line(RunEnded("b: lost; 1 hosts are too few", False)) == (
        "end", "failed", "b: lost; 1 hosts are too few",
    )  # fmt: skip
    for end in (RunEnded("it was stopped", False), RunEnded("by ann", False, by_user=True)):
        assert describe_line(end) == ("end", "stopped", end.why)


def test_its_text_is_not_in_the_command_to_type_again() -> None:
    for words in (("--notify", "curl X"), ("--notify=curl X",)):
        typed = Typed(("run", *words, "-n", "3"), ("t.py",))
        again = compose_retry_command(typed, (), None)
        assert "curl" not in again and "COMMAND" in again


def test_a_command_that_goes_on_after_the_run_is_noted(monkeypatch: Any) -> None:
    notes: list[str] = []
    target = Target(hosts=("127.0.0.1:1",))  # it is not reached, so this command reports the event
    notifier = EventNotifier(target, "sleep 1.5; exit 7", note=notes.append)
    monkeypatch.setattr(event_notifier, "AT_END", 0.2)
    notifier.report_event("r1", "127.0.0.1", ("end", "lost", ""), is_lost=True)
    notifier.close()
    assert [note.split(";")[0] for note in notes] == ["the command of --notify goes on"]
    monkeypatch.setattr(event_notifier, "AT_END", 20.0)
    notifier.close()
    assert notes[1:] == ["--notify (lost): exit code 7"]
