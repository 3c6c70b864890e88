"""Lines of several ranks that become one."""

import pytest

from ipexctl.run.output.merge_lines import Fold, line_template, merge_line_rows


@pytest.mark.parametrize(
    ("lines", "one"),
    [
        (["step 15  loss 0.0628", "step 15  loss 0.0717"], "step 15  loss 0.0628..0.0717"),
        (["[rank3]: line 3", "[rank1]: line 3"], "line 3"),
        (["[rank3]: ValueError: 4", "ValueError: 7"], "ValueError: 4..7"),
        (["rank 3 of 8", "rank 10 of 8", "rank 4 of 8"], "rank 3..10 of 8"),
        (["at 10.0.0.9:4000", "at 10.0.0.10:4001"], "at 10.0.0.9..10.0.0.10:4000..4001"),
        (["pid 0x7f8a", "pid 0x7f8b"], "pid 0x7f8a..0x7f8b"),
        (["lr 1e-4", "lr 0.0001"], "lr 1e-4"),
        (["2,048 tokens", "2,049 tokens"], "2,048..2,049 tokens"),
        (["-0.5", "+0.5"], "-0.5..+0.5"),
        (["\x1b[31mred 1\x1b[0m", "\x1b[31mred 2\x1b[0m"], "\x1b[31mred 1..2\x1b[0m"),
        (["took 1.5s", "took 2.25s"], "took 1.5..2.25s"),
    ],
)
def test_lines_that_differ_in_numbers(lines: list[str], one: str):
    keys, numbers = zip(*map(line_template, lines), strict=True)
    assert len(set(keys)) == 1
    assert merge_line_rows(keys[0], numbers) == one


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("step 15 loss 0.1", "step 16 loss 0.1"),
        ("Epoch: 3 loss 0.1", "Epoch: 4 loss 0.1"),
        ("50/100 loss 0.1", "51/100 loss 0.1"),
        ("fp16", "fp32"),
        ("node01 ready", "node02 ready"),
        ("loss nan", "loss 0.1"),
        ("\x1b[31m1", "\x1b[32m1"),
    ],
)
def test_lines_that_stay_apart(one: str, other: str):
    assert line_template(one)[0] != line_template(other)[0]


def test_a_rank_that_leaves_the_group_stands_alone():
    fold = Fold(4)
    for rank in range(4):
        text = "loss nan" if rank == 2 else f"loss 0.{rank}"
        fold.add(rank, [text], 0.0)
    assert [(group.text, group.ranks) for group in fold.rest()] == [
        ("loss 0.0..0.3", [0, 1, 3]),
        ("loss nan", [2]),
    ]


def test_a_line_joins_its_equal_before_its_like():
    fold = Fold(2)
    fold.add(0, ["layer 1: 10 cells", "layer 2: 20 cells"], 0.0)
    fold.add(1, ["layer 2: 20 cells"], 0.1)
    assert [(g.text, g.ranks) for g in fold.rest()] == [
        ("layer 1: 10 cells", [0]),
        ("layer 2: 20 cells", [0, 1]),
    ]


def test_what_others_wrote_is_dropped_after_a_failure():
    fold = Fold(3)
    fold.add(0, ["lost the connection to rank 2"], 0.0)
    fold.add(1, ["lost the connection to rank 2"], 0.0)
    fold.add(2, ["ValueError"], 0.0)
    assert fold.without(2) == 2
    assert [group.text for group in fold.rest()] == ["ValueError"]
