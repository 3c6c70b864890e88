"""Whether a run is started again, and where."""

from __future__ import annotations

from typing import Any

import pytest

from ipexctl.common import run_events
from ipexctl.common.attempt_record import AttemptEnded
from ipexctl.common.checkpoint_names import checkpoint_label
from ipexctl.common.checkpoint_reports import CopiedPart
from ipexctl.common.keeper_messages import KeptCheckpoint
from ipexctl.common.run_events import Fact
from ipexctl.remote.checkpoints.newest_checkpoint import (
    SkippedCheckpoints,
    newest_complete_checkpoint,
)
from ipexctl.remote.restart import restart_policy
from ipexctl.run.outcome import verdict


def rank(tail: str = "", *, code: int | None = 1, **how: Any) -> Fact:
    return Fact(run_events.RankExited(1, run_events.Exit(code, **how), tail), "b")


def program(code: int | None, *, killed: bool, who: str = "mpirun") -> Fact:
    return Fact(run_events.ProgramEnded(who, code, killed, "", 3, 2), "b")


def fact_of(fact: Fact, host: str) -> Fact:
    return Fact(fact.event, host)


def ending(fact: Fact) -> AttemptEnded:
    end = restart_policy.classify_ending([fact], 100.0)
    return end.attempt_ended(1, True, 100.0)


LOST = Fact(run_events.HostLost(why="no message from it for 15 s"), "b")


@pytest.mark.parametrize(
    "facts",
    [
        [rank("Traceback\nRuntimeError: Connection closed by peer")],
        [rank("OSError: [Errno 5] Input/output error")],
        [rank(code=None, signal=9)],
        [rank(code=None, lost=True)],
        [LOST],
        [rank("RuntimeError: closed"), LOST],
        [Fact(run_events.RankFrozen(rank=1, seconds=30.0), "b")],
        [program(1, killed=False)],
        [Fact(run_events.EndAsked("--stall-action restart", 0))],
    ],
)
def test_what_may_go_better_is_started_again(facts: list[Fact]) -> None:
    assert restart_policy.classify_ending(facts, 300.0).again


@pytest.mark.parametrize(
    "facts",
    [
        [],
        [rank("  File 'train.py', line 3\nSyntaxError: invalid syntax")],
        [rank("[rank1]: ModuleNotFoundError: No module named 'x'")],
        [rank("FileNotFoundError: [Errno 2] No such file or directory: 'data.csv'")],
        [rank("usage: train.py [-h]\ntrain.py: error: unrecognized arguments: --lrr", code=2)],
        [Fact(run_events.EndAsked("me (ipexctl stop)", 0))],
        [Fact(run_events.TimedOut(seconds=60))],
        [Fact(run_events.Abandoned(why="the connection ended"))],
        [Fact(run_events.Broken(what="cannot write"), "b")],
    ],
)
def test_what_a_restart_does_not_change_is_not(facts: list[Fact]) -> None:
    assert not restart_policy.classify_ending(facts, 300.0).again


MISSING = "ModuleNotFoundError: No module named 'x'"
NO_FILE = "FileNotFoundError: [Errno 2] No such file or directory: 'data.csv'"


@pytest.mark.parametrize(
    ("facts", "lacking"),
    [
        ([rank(MISSING)], "b"),
        ([rank(NO_FILE), Fact(run_events.Over(False, ""), "b")], "b"),
        ([rank(MISSING), fact_of(rank(MISSING), "c")], ""),
        ([rank(MISSING), fact_of(rank("RuntimeError: closed"), "c")], ""),
        ([rank("SyntaxError: invalid syntax")], ""),
        ([fact_of(rank("SyntaxError: invalid syntax"), "")], ""),
        ([rank("usage: train.py [-h]\ntrain.py: error: --data is missing", code=2)], ""),
    ],
)
def test_a_spare_may_have_what_one_host_alone_lacked(facts: list[Fact], lacking: str) -> None:
    end = restart_policy.classify_ending(facts, 5.0, has_spare=True)
    assert (end.again, end.lacking) == (bool(lacking), lacking)
    alone = restart_policy.classify_ending(facts, 5.0)
    assert (alone.again, alone.lacking) == (False, "")


@pytest.mark.parametrize(
    ("path", "again"),
    [
        ("/work/out/c-80/optim.json", True), ("out/optim.pt", True), ("/work/out/optim.pt", True),
        ("/work/data.csv", False), ("out/other.csv", False), ("/elsewhere/out/optim.pt", False),
    ],
)  # fmt: skip
def test_a_missing_file_of_a_checkpoint_may_be_there_next_time(path: str, again: bool) -> None:
    test = restart_policy.make_path_test({"/work"}, ["out/*.pt"], "out/c-80")
    fact = rank(f"FileNotFoundError: [Errno 2] No such file or directory: '{path}'")
    assert restart_policy.classify_ending([fact], 5.0, test).again is again


def test_a_program_that_ended_has_the_same_words_as_in_ps() -> None:
    """Without MPI there is no program of MPI; a killed one took along the wrappers that it had."""
    gone = program(None, killed=False, who="what started b's ranks")
    killed = program(-9, killed=True, who="what started b's ranks")
    words = "what started b's ranks was ended by signal 9 (SIGKILL)"
    for facts in ([killed], [gone, killed], [rank(code=None, lost=True), killed]):
        assert restart_policy.classify_ending(facts, 300.0).why == words
    assert verdict.program_ended(killed.event, 3).startswith(words + " while 2 of 3 ")
    failed = rank("RuntimeError: x")
    assert restart_policy.classify_ending([failed, killed], 300.0).error


def test_memory_that_ran_out_at_once_runs_out_again() -> None:
    killed = rank(code=None, signal=9, hints=("oom-rank",))
    assert not restart_policy.classify_ending([killed], 20.0).again
    assert restart_policy.classify_ending([killed], 2000.0).again


def test_the_same_error_twice_ends_the_run_unless_there_is_a_checkpoint_in_between() -> None:
    end = ending(rank("ValueError: loss is nan at step 812"))
    again = ending(rank("ValueError: loss is nan at step 907"))
    assert end.error == again.error
    same = [(end.error, "checkpoint-500"), (again.error, "checkpoint-500")]
    newer = [(end.error, "checkpoint-500"), (again.error, "checkpoint-900")]
    assert restart_policy.why_same_again(again, same)
    assert not restart_policy.why_same_again(again, newer)
    assert not restart_policy.why_same_again(end, same[:1])


@pytest.mark.parametrize("fact", [LOST, rank(code=None, signal=9), rank(code=None, lost=True)])
def test_what_was_killed_has_no_error_that_could_come_twice(fact: Fact) -> None:
    end = ending(fact)
    assert not restart_policy.why_same_again(end, [(end.error, ""), (end.error, "")])
    assert not restart_policy.why_none_left(end, 4, 5)
    assert restart_policy.why_none_left(end, 5, 5)


def test_restarts_that_nobody_asked_for_are_not_counted() -> None:
    end = ending(rank("RuntimeError: Connection closed by peer"))
    none = restart_policy.why_none_left(end, 0, 0)
    assert none == f"{end.why}; it was started without --restarts"
    assert restart_policy.why_none_left(end, 2, 2).endswith("no restarts are left (--restarts 2)")


def ended(seconds: float, *lost: str) -> AttemptEnded:
    return AttemptEnded(1, True, True, "", "", list(lost), seconds, "")


def test_attempts_that_end_at_once_are_further_and_further_apart() -> None:
    pauses = [restart_policy.restart_pause([ended(1.0)] * n) for n in range(1, 8)]
    assert pauses == sorted(pauses) and pauses[0] == 0.0 and pauses[-1] == 30.0
    assert restart_policy.restart_pause([ended(1.0)] * 3 + [ended(500.0)]) == 0.0
    assert (
        restart_policy.restart_pause([ended(1.0, "node02")] * 6) == 0.0
    )  # not the program's fault
    assert restart_policy.restart_pause([ended(1.0, "node02")] * 6 + [ended(1.0)] * 2) == 5.0


@pytest.mark.parametrize(
    ("there", "least", "found"),
    [
        ("abcxy", 3, "abc"),
        ("acxy", 3, "axc"),
        ("bcxy", 3, "xbc"),
        ("cxy", 3, "xyc"),
        ("cx", 3, ""),
        ("cx", 2, "xc"),
        ("ab", 2, "ab"),
        ("", 1, ""),
    ],
)
def test_spares_take_the_places_of_lost_hosts(there: str, least: int, found: str) -> None:
    assert restart_policy.choose_next_hosts([*"abc"], [*"abcxy"], {*there}, least, 3) == [*found]


@pytest.mark.parametrize(("there", "found"), [("abcxy", "xca"), ("acy", "acy"), ("cx", "xc")])
def test_a_run_that_shrank_grows_again(there: str, found: str) -> None:
    assert restart_policy.choose_next_hosts([*"xc"], [*"abcxy"], {*there}, 2, 3) == [*found]


def kept(order: tuple[int, int], held: str, parts: str = "ab") -> KeptCheckpoint:
    """`held`: whose parts this host has."""
    made = {writer: CopiedPart(f"{writer}{order}", 9, 7) for writer in parts}
    shas = [made[writer].sha for writer in held]
    return KeptCheckpoint(f"c-{order[1]}", order, 1.0, made, shas)


def test_the_newest_checkpoint_is_one_of_which_all_parts_are_there() -> None:
    old, new = (1, 7), (2, 1)
    told = {"b": [kept(old, "ab"), kept(new, "b")], "c": [kept(new, "a"), kept(old, "b")]}
    found = newest_complete_checkpoint(told)
    assert found and (found.name, found.version) == ("c-1", new)
    assert [(part[0], part[3]) for part in found.parts] == [("a", ["c"]), ("b", ["b"])]
    told["c"] = []  # lost: no host has what `a` wrote last
    found = newest_complete_checkpoint(told)
    assert found and found.version == old
    assert newest_complete_checkpoint({"b": []}) is None


def plain(order: tuple[int, int], *members: str) -> KeptCheckpoint:
    part = CopiedPart(f"p{order}", 9, 7)
    label = checkpoint_label(members)
    return KeptCheckpoint(label, order, 1.0, {"a": part}, [part.sha], members=[*members])


@pytest.mark.parametrize(
    ("rows", "members"),
    [
        ([plain((1, 1), "m.pt", "o.pt")], ["m.pt", "o.pt"]),
        ([plain((1, 1), "latest"), plain((1, 2), "c-2")], ["c-2", "latest"]),
        ([plain((1, 1), "c-1"), plain((1, 2), "c-2"), plain((1, 3), "latest")], ["latest", "c-2"]),
        ([plain((1, 1), "latest"), plain((2, 0), "c-2", "latest")], ["c-2", "latest"]),
        ([plain((1, 1), "c-1"), plain((1, 2), "c-2")], ["c-2"]),
    ],
)
def test_the_newest_of_each_kind_of_name_is_laid_out_together(
    rows: list[KeptCheckpoint], members: list[str]
) -> None:
    found = newest_complete_checkpoint({"a": rows})
    assert found and found.members == members


def test_the_copies_of_the_checkpoint_before_stay() -> None:
    rows = [plain((1, 6), "c-6"), plain((1, 7), "c-7"), plain((2, 0), "c-7"), plain((2, 1), "c-8")]
    found = newest_complete_checkpoint({"a": rows})
    assert found and (found.version, found.needed) == ((2, 1), 2)
    skips = SkippedCheckpoints()
    skips.same[2, 0] = 1, 7
    found = newest_complete_checkpoint({"a": rows[:3]}, skips=skips)
    assert found and (found.version, found.needed) == ((2, 0), 1)
    skips.reasons[1, 7] = "c-7: rank 1: FileNotFoundError"
    found = newest_complete_checkpoint({"a": rows[:3]}, skips=skips)
    assert found and found.name == "c-6"
    found = newest_complete_checkpoint({"a": rows}, (1, 6), skips)
    assert found and found.name == "c-6"
