"""What is shown of a hang: on a screen, for many ranks, where evidence is missing."""

from __future__ import annotations

from ipexctl.run.hang.diagnosis import diagnose_run
from ipexctl.run.hang.diagnosis_layout import diagnosis_lines
from ipexctl.run.hang.hang_report import Diagnosis

from .looks import (
    BUSY,
    OTHERS,
    READS,
    SLEEP,
    WORK,
    Raw,
    assert_fits,
    call,
    called,
    calls,
    frames,
    late,
    looks,
    row,
    situation,
    waits,
)


def many(kind: str) -> Diagnosis:
    rows = [waits(rank) for rank in range(63)]
    if kind == "all different":
        rows = [late(r, frames(line=r + 1), **BUSY) for r in range(60)] + [
            waits(r) for r in (60, 61)
        ]
    rows += [late(63, **READS)]
    given = situation(rows, 64, 8)
    found = diagnose_run(given)
    for width in (60, 80, 200):
        assert_fits(diagnosis_lines(found, width), width)
    return found


def test_64_ranks_fit_on_a_screen() -> None:
    found = many("alike")
    assert [g.ranks for g in found.groups] == [tuple(range(63))]
    assert [s.rank for s in found.suspects] == [63]
    assert len(many("all different").suspects) == 61


def test_the_screen_of_the_manual() -> None:
    rows = [waits(r) for r in range(8) if r != 5]
    rows += [late(5, frames([WORK + "data.py", 88, "__next__"]), **READS)]
    given = situation(rows, 8)
    assert diagnosis_lines(diagnose_run(given), 100) == [
        "  rank 5 (node03)  data.py:88 in __next__   reading /data/x.arrow, state D, 0 % CPU",
        "  7 ranks wait in  all_reduce #412 (DDP, 4.2 MB) since 1 min 2 s   "
        "train.py:61 in backward",
        "rank 5 has not reached all_reduce #412. Likely: its file server does not answer (node03: "
        "/data,",
        "nfs).",
    ]


def test_what_is_missing_is_said() -> None:
    found = diagnose_run(situation([waits(0), row(1), row(2, frames(), stacks="silent")]))
    assert len(found.limits) == 4  # rank 3; stacks of rank 1, of rank 2; collectives of 1-2
    assert "1-2" in found.limits[-1]


def test_a_look_of_a_rank_that_another_host_has_is_not_used() -> None:
    own = [*OTHERS, late(3, **READS)]
    forged = [late(3, **SLEEP)]
    given = situation(own, looks=(*looks(own), *looks(forged, per_host=1)))
    assert diagnose_run(given).kind.name == "blocked-io"


def test_groups_with_one_name_and_other_ranks_are_not_compared() -> None:
    def in_group(rank: int, seq: int, ranks: list[int]) -> Raw:
        return row(rank, called("all_reduce"), collectives=calls(call(seq, group="1"), _1=ranks))

    rows = [in_group(0, 5, [0, 1]), in_group(1, 5, [0, 1])]
    rows += [in_group(2, 90, [2, 3]), late(3, **SLEEP)]
    found = diagnose_run(situation(rows))
    assert (found.kind.name, [s.rank for s in found.suspects]) == ("sleeping", [3])
