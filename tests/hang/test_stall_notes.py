"""The note of a stall: once, with what was known then, also for who attaches after the end."""

from __future__ import annotations

from ipexctl.common.run_events import RanksLooked, Stalled
from ipexctl.run.outcome.rank_states import RankEnd, RankStates
from ipexctl.run.watch.run_output import PATIENCE, StallNotes
from tests.hang.looks import SLEEP, late, looks, waits
from tests.run.test_output_pure import made_plan


class Notes:
    """What a Painter is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def note(self, text: str) -> None:
        self.told.append(text)


def stalled() -> tuple[StallNotes, Notes]:
    """Four ranks on two hosts, n0 and n1; rank 3 sleeps."""
    plan, painter = made_plan(4, 2), Notes()
    state = RankStates(plan, started={0, 1, 2, 3})
    notes = StallNotes(state, painter, "bert")  # type: ignore[arg-type]
    first, second = (host.host for host in plan.hosts)
    notes.add_look(first, RanksLooked(5, [*looks([waits(0), waits(1)])]))
    notes.add_look(second, RanksLooked(5, [*looks([waits(2), late(3, **SLEEP)])]))
    notes.begin_stall(Stalled(21.0, 5), 100.0)
    return notes, painter


def test_the_rank_is_named_once() -> None:
    notes, painter = stalled()
    notes.note_new_stall(100.0, ())
    notes.note_new_stall(101.0, ())
    notes.note_stall(102.0)
    assert len(painter.told) == 1 and "rank 3" in painter.told[0]


def test_the_look_before_the_end_of_a_run_does_not_replace_that_of_the_stall() -> None:
    notes, painter = stalled()
    for host in notes.state.plan.hosts:
        notes.add_look(host.host, RanksLooked(6, []))
    notes.note_new_stall(100.0 + PATIENCE, ())
    assert len(painter.told) == 1 and "rank 3" in painter.told[0]


def test_ranks_that_ended_after_the_stall_are_not_the_reason() -> None:
    notes, painter = stalled()
    for rank in range(4):
        notes.state.rank_ended(RankEnd(rank, "n0", 1))
    notes.note_stall(100.0)  # the run is over before the looks were waited for
    assert len(painter.told) == 1 and "rank 3" in painter.told[0]


def test_a_run_that_goes_on_has_nothing_left_to_tell() -> None:
    notes, painter = stalled()
    notes.end_stall()
    notes.note_stall(101.0)
    assert painter.told == []


def test_what_held_the_run_up_lasted_until_it_was_told_to_end() -> None:
    notes, _ = stalled()
    notes.ended = 110.0
    found = notes.finish_stall(120.0)
    assert found and (found.seconds, found.kind) == (31.0, "sleeping")
    assert "rank 3" in found.headline


def test_a_run_that_made_progress_until_its_end_was_not_held_up() -> None:
    notes, _ = stalled()
    notes.end_stall()
    assert notes.finish_stall(120.0) is None
