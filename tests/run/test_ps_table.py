"""The table of `ps`: a line for each run, on terminals of any width."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ipexctl.common.attempt_record import KeeperAnswer, QueuedRun
from ipexctl.common.run_answers import JournalSummary
from ipexctl.facts.other_runs_facts import LiveRun
from ipexctl.run.command.ps_table import latest_metrics, table_lines
from ipexctl.run.command.ps_text import other_users_lines
from ipexctl.run.outcome.host_reports import RunOnHost
from ipexctl.run.outcome.listed_runs import ListedRun
from ipexctl.run.outcome.run_choice import Caller, choose_run
from ipexctl.run.outcome.run_state import Phase
from tests.made import run_row
from tests.refused import refused
from tests.report.made_run import made

ME = Caller("ann@desk", Path("/home/ann/bert"))
NOW = 1200.0  # runs began at 1000
STATES = {
    Phase.RUNNING: "running", Phase.DONE: "done", Phase.FAILED: "failed",
    Phase.QUEUED: "queued", Phase.LOST: "lost",
}  # fmt: skip


def report(run: ListedRun, host: str = "node01", **more: Any) -> RunOnHost:
    return RunOnHost(run_row(run.id, host, **more), host, run.about)


def a_run(number: int, state: Phase, name: str = "", **more: Any) -> ListedRun:
    """`more`: fields of its host's report, or `by`."""
    waits = more["keeper"].waits if "keeper" in more else ""
    run = made(state, hosts=3, id=f"20260101-1200{number:02d}-abcdef", waits=waits)
    run = replace(run, about=run.about.replace(name=name, by=more.pop("by", "ann@desk")))
    return replace(run, ok=0 if state is Phase.RUNNING else run.ok, seen=(report(run, **more),))


def queued(number: int, name: str, before: list[ListedRun], waits: str = "") -> ListedRun:
    place = f"place {len(before) + 1} in the queue"
    rows = [QueuedRun(n, run.id, "ann@desk") for n, run in enumerate(before)]
    text = "; ".join(filter(None, (place, waits)))
    keeper = KeeperAnswer(leads=True, waits=text, before=rows)
    return a_run(number, Phase.QUEUED, name, queued=True, keeper=keeper)


def printed(*lines: str) -> dict[str, Any]:
    return {"last": (0, lines[-1]), "recent": lines}


def shown(*runs: ListedRun, width: int | None = 80) -> list[str]:
    return [line.plain for line in table_lines(runs, runs, ME, NOW, width)]


def forty() -> list[ListedRun]:
    running = a_run(1, Phase.RUNNING, "bert", **printed("step 120 loss 0.4311"))
    waiting: list[ListedRun] = []
    for number in range(2, 36):
        waiting.append(queued(number, f"lr-{number}", waiting[:]))
    ended = [
        a_run(40, Phase.DONE, "done-one", **printed("step 500 loss 0.25")),
        a_run(41, Phase.FAILED, "a-run-with-a-rather-long-name"),
        a_run(42, Phase.LOST),
        a_run(43, Phase.STALLED, "stuck", alive=True, journal=JournalSummary(stall=61.0)),
        a_run(44, Phase.RUNNING, by="bob@laptop"),
    ]
    return [*reversed(ended), *reversed(waiting), running]


@pytest.mark.parametrize("width", [80, 100, 200])
def test_forty_runs_are_forty_lines_below_a_head_and_none_is_too_wide(width: int) -> None:
    head, *lines = shown(*forty(), width=width)
    assert head.split()[:5] == ["NAME", "STATE", "RANKS", "HOSTS", "BY"]
    assert len(lines) == 40 and max(map(len, lines)) <= width
    states = [re.split(r"  +", line)[1].rstrip("…") for line in lines]
    assert states == ["running", "stalled", "running", *["queued"] * 34, "lost", "failed", "done"]
    waiting = [line for line in lines if " queued " in line]
    assert [line.split()[0] for line in waiting] == [f"lr-{n}" for n in range(2, 36)]
    assert waiting[0].endswith("  place 1")
    assert waiting[1].endswith("  place 2, after lr-2")
    assert waiting[11].endswith("  place 12, after lr-12 and 10 more")
    assert not any(" of " in line for line in lines)
    assert sum(" bob" in line for line in lines) == 1
    assert ("ann@desk" in "".join(lines)) is False


def test_step_and_loss_are_the_last_ones_and_stand_below_each_other() -> None:
    runs = [
        a_run(1, Phase.RUNNING, "one", **printed("step 12/4000 loss 0.4311", "up 3 s")),
        a_run(2, Phase.DONE, "two", **printed("step 7 loss 0.5", "step 8 loss 0.25")),
        a_run(3, Phase.RUNNING, "three", **printed("epoch 3 loss 0.5")),
        a_run(4, Phase.RUNNING, "four"),
    ]
    head, *lines = shown(*reversed(runs))
    step, loss = head.index("STEP"), head.index("LOSS")
    cells = {line.split()[0]: (line[step:loss].strip(), line[loss:]) for line in lines}
    assert cells == {
        "one": ("12/4000", "0.4311"), "two": ("8", "0.25"), "three": ("epoch 3", "0.5"),
        "four": ("", ""),
    }  # fmt: skip
    assert latest_metrics(runs[1]).says == {"step": 8, "loss": 0.25}


def test_the_rank_that_prints_a_loss_is_asked_though_an_earlier_one_prints_steps() -> None:
    run = a_run(1, Phase.RUNNING)
    first = report(run, last=(0, "step 4"), recent=("step 4",))
    last = report(run, "node03", last=(2, "x"), recent=("step 3 loss 0.5",))
    assert latest_metrics(replace(run, seen=(last, first))).says == {"step": 3, "loss": 0.5}


def test_the_first_in_the_queue_names_who_has_its_cores_and_hosts_that_are_away() -> None:
    bert = a_run(1, Phase.RUNNING, "bert")
    waits = f"on its cores: {bert.id} of ann@desk; not reached: node03"
    _, _, line, note = shown(queued(2, "next", [], waits), bert)
    assert line.endswith("  place 1, cores used by bert")
    assert note == "next: not reached: node03"


@pytest.mark.parametrize(
    ("width", "last", "ending"),
    [
        (62, "KeyError: 'weights'", "  KeyError: 'weights'"),
        (62, "torch.OutOfMemoryError: " + "no " * 40, "  torch.OutOfMemoryErr…"),
        (62, "step 3 loss 0.1", "  rank 1 on node02 exi…"),
        (80, "KeyError: 'weights'", "  rank 1 on node02 exited with code 1"),
    ],
)
def test_of_a_failed_run_a_narrow_table_shows_the_exception(
    width: int, last: str, ending: str
) -> None:
    run = a_run(1, Phase.FAILED, "bert")
    assert run.verdict
    failed = replace(run.state, verdict=replace(run.verdict, last=last))
    (line,) = shown(replace(run, state=failed, last=last), width=width)[1:]
    assert line.endswith(ending)


@pytest.mark.parametrize(
    ("width", "ending"),
    [
        (80, "  place 3, after bob and 1 more"),
        (70, "  place 3, after bob"),
        (120, "  place 3, after 20260101-120009-abcdef of bob and 1 more"),
    ],
)
def test_of_an_earlier_run_of_another_account_the_id_is_left_out_before_the_account(
    width: int, ending: str
) -> None:
    mine = queued(1, "lr-1", [])
    theirs = QueuedRun(2, "20260101-120009-abcdef", "bob")
    before = [QueuedRun(1, mine.id, "ann@desk"), theirs]
    keeper = KeeperAnswer(leads=True, waits="place 3 in the queue", before=before)
    last = a_run(3, Phase.QUEUED, "lr-a-long-name", queued=True, keeper=keeper)
    other = a_run(4, Phase.RUNNING, "of-carol", by="carol@desk")
    lines = shown(last, mine, other, width=width)
    assert lines[-1].endswith(ending) and len(lines[-1]) <= width


@pytest.mark.parametrize("of", [1, 2])
def test_an_account_that_uses_the_id_of_a_listed_run_is_named(of: int) -> None:
    """Any account can give its place in the queue, and cores that it holds, any ID: that of the
    run itself that waits, too."""
    bert, waiting = a_run(1, Phase.RUNNING, "bert"), queued(2, "next", [])
    used = (bert, waiting)[of - 1].id

    def ending(waits: str, *before: QueuedRun, width: int | None = 80) -> str:
        keeper = KeeperAnswer(leads=True, waits=waits, before=list(before))
        last = a_run(2, Phase.QUEUED, "next", queued=True, keeper=keeper)
        return next(line for line in shown(last, bert, width=width) if line.startswith("next"))

    using = f"place 1 in the queue; on its cores: {used} of nobody, {bert.id} of ann@desk"
    assert ending(using, width=None).endswith(f", cores used by {used} of nobody, bert")
    before = QueuedRun(1, used, "nobody")
    assert ending("place 2 in the queue", before).endswith("  place 2, after nobody")
    whole = ending("place 2 in the queue", before, width=None)
    assert whole.endswith(f"  place 2, after {used} of nobody")


def test_a_run_of_another_account_is_one_line_with_all_its_hosts() -> None:
    on_each = LiveRun(
        "r1", "bob", False, ranks=2, cores=4, memory=1_500_000_000, seconds=60,
        cpus=frozenset({1}),
    )  # fmt: skip
    unseen = LiveRun("r2", "carol", False)
    rows = [("node01", on_each), ("node02", replace(on_each, seconds=61)), ("node02", unseen)]
    assert [str(line) for line in other_users_lines(rows)] == [
        "also on node[01-02]: bob, 4 ranks, 8 cores, 3.0 GB, for 1 min 1 s",
        "also on node02: carol",
    ]


def test_hosts_that_several_runs_do_not_reach_are_one_line() -> None:
    runs = [queued(n, f"lr-{n}", [], "not reached: node03") for n in (3, 2, 1)]
    *_, note = shown(*runs)
    assert note == "lr-3 and 2 more: not reached: node03" and len(shown(*runs)) == 5


def test_runs_of_one_name_have_their_ids_and_attempts_their_number() -> None:
    old, new = (a_run(n, Phase.DONE, "bert") for n in (1, 2))
    head, *lines = shown(new, old)
    assert head.split()[1] == "ID"
    assert [line.split()[:2] for line in lines] == [
        ["bert", "20260101-120002"], ["bert", "20260101-120001"],
    ]  # fmt: skip
    again = replace(old, id=f"{old.id}-r02")
    assert shown(again)[1].split()[0] == "bert-r02"
    nameless = replace(again, about=again.about.replace(name=""))
    assert shown(nameless)[1].split()[0] == "20260101-120001-r02"


def test_without_a_terminal_nothing_is_cut_and_folders_are_shown() -> None:
    run = a_run(1, Phase.FAILED, "a-run-with-a-rather-long-name-that-is-cut-at-80-columns")
    head, line = shown(run, width=None)
    assert head.split()[-5:] == ["ID", "COMMAND", "FOLDER", "STEP", "LOSS"]
    assert run.about.name in line and "/home/ann/bert" in line
    assert line.endswith("rank 1 on node02 exited with code 1")
    assert "…" in shown(run)[1] and len(shown(run)[1]) <= 80


def test_the_name_of_a_run_is_enough_for_commands_also_beside_runs_that_are_not_shown() -> None:
    mine = a_run(1, Phase.RUNNING, **printed("step 120 loss 0.4311"))
    theirs = replace(mine, id=f"{mine.id[:15]}-a1c2d3")  # began in the same second
    for width in (80, None):
        for listed, ids in (([mine, theirs], ()), ([mine], (theirs.id,))):
            lines = table_lines([mine], listed, ME, NOW, width, ids)
            name = lines[1].plain.split()[0]
            assert choose_run([theirs, mine], name, ME) is mine
            assert name == "20260101-120001-ab"
    theirs = replace(theirs, about=theirs.about.replace(by="bob@laptop"))
    with refused("run-ambiguous", "2 runs match") as error:
        choose_run([theirs, mine], mine.id[:15], ME)
    assert error.value.why == f"{theirs.id} (running, bob@laptop), {mine.id} (running)"
    alone = table_lines([mine], [mine], ME, NOW, 80)[1].plain
    assert alone.startswith("20260101-120001 ")
