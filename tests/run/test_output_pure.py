"""What is drawn of many ranks' lines: folded, chosen, in panes. Pure parts, whole values."""

from __future__ import annotations

import random
import re
import shlex

import pytest

from ipexctl.base.sizes import fold_numbers
from ipexctl.common.run_events import HostLoad
from ipexctl.errors import InputError
from ipexctl.inventory.inventory import Inventory
from ipexctl.local.run_options import RunOptions
from ipexctl.run.command.run_text import rank_prefixes, status_line
from ipexctl.run.outcome import line_filter
from ipexctl.run.outcome.run_result import Tally
from ipexctl.run.output.merge_lines import WINDOW, Fold
from ipexctl.run.output.training_state import TrainingProgress
from ipexctl.run.plan.launch import PlannedHost, RunRequest
from ipexctl.run.plan.launch_plan import make_launch_plan
from tests.made import facts, host, prepared
from tests.refused import refused


def made_plan(ranks=4, hosts=2):
    nodes = [
        PlannedHost(host(f"node{i:02d}"), facts(f"n{i}"), prepared()) for i in range(1, hosts + 1)
    ]
    return make_launch_plan(nodes, RunRequest(("t.py",), ranks), "r1")


def folded(ranks, said, at=0.0):
    fold = Fold(ranks)
    out = []
    for rank, text in said:
        fold.add(rank, [text], at)
        out += fold.due(at)
    return [(g.text, sorted(g.ranks)) for g in [*out, *fold.rest()]]


# --- equal lines ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ([(0, "a"), (1, "a"), (2, "a")], [("a", [0, 1, 2])]),
        ([(0, "a"), (1, "b"), (2, "a")], [("a", [0, 2]), ("b", [1])]),
        ([(0, "a"), (0, "b"), (1, "b"), (1, "a")], [("a", [0]), ("b", [0, 1]), ("a", [1])]),
        ([(0, "a"), (0, "a"), (1, "a"), (1, "a")], [("a", [0, 1]), ("a", [0, 1])]),
        ([(0, "a")], [("a", [0])]),
    ],
)
def test_equal_lines_become_one_where_no_rank_s_order_changes(said, shown):
    assert folded(3, said) == shown


def test_no_line_is_lost_and_every_rank_s_order_is_kept_whatever_comes():
    rng = random.Random(3)
    for _ in range(200):
        ranks = rng.randint(2, 6)
        said = [(rng.randrange(ranks), rng.choice("abc")) for _ in range(rng.randint(1, 60))]
        shown = folded(ranks, said)
        for rank in range(ranks):
            mine = [text for text, who in shown for r in who if r == rank]
            assert mine == [text for r, text in said if r == rank]


def test_a_line_waits_for_its_like_no_longer_than_the_window():
    fold = Fold(2)
    fold.add(0, ["a"], 10.0)
    assert list(fold.due(10.0 + WINDOW / 2)) == []
    assert [g.text for g in fold.due(10.0 + WINDOW)] == ["a"]


def test_a_line_that_all_ranks_wrote_does_not_wait():
    fold = Fold(2)
    fold.add(0, ["a"], 10.0)
    fold.add(1, ["a"], 10.0)
    assert [g.ranks for g in fold.due(10.0)] == [[0, 1]]


def test_a_flood_does_not_wait_in_memory():
    fold = Fold(2)
    fold.add(0, [str(i) for i in range(50_000)], 1.0)
    assert len(list(fold.due(1.0))) == 48_000


def test_who_wrote_a_line_is_told_as_short_as_it_can_be():
    prefix = rank_prefixes(made_plan(4, 2))
    fold = Fold(4)
    for ranks, text in (((0, 1, 2, 3), "a"), ((0, 1), "b"), ((1, 2), "c"), ((3,), "d")):
        for rank in ranks:
            fold.add(rank, [text], 0.0)
    assert [prefix.of_group(g) for g in fold.rest()] == [
        "all    x4 ",
        "node01 x2 ",
        "r1-2   x2 ",
        "node02 r03",
    ]
    assert fold_numbers([7, 1, 2, 3, 9]) == "1-3,7,9"


# --- the choice ----------------------------------------------------------------------------------

KNOWN = {"healthy": None, "last-failed": frozenset(["node02"])}
LINES = [("node01", 0, "step 1"), ("node01", 1, "loss nan"), ("node02", 2, "\x1b[31mloss\x1b[0m 2")]


@pytest.mark.parametrize(
    ("wanted", "left"),
    [
        (RunOptions("t.py"), [0, 1, 2]),
        (RunOptions("t.py", ranks="0,2-7"), [0, 2]),
        (RunOptions("t.py", show_hosts=("node02",)), [2]),
        (RunOptions("t.py", show_hosts=("node*,!node01",)), [2]),
        (RunOptions("t.py", show_hosts=("@last-failed",)), [2]),
        (RunOptions("t.py", include=("loss",)), [1, 2]),
        (RunOptions("t.py", include=("^loss 2$",)), [2]),
        (RunOptions("t.py", include=("loss", "step"), leave_out=("nan",)), [0, 2]),
    ],
)
def test_lines_are_chosen_by_rank_host_and_words(wanted, left):
    inventory = Inventory((host("node01"), host("node02")), "made")
    chosen = line_filter.read_line_filter(wanted, inventory, KNOWN)
    assert [r for h, r, text in LINES if chosen.lines(h, r, [text])] == left


def read(**wanted):
    """Of the output of a run on node01."""
    hosts = Inventory((host("node01"),), "made")
    return line_filter.read_line_filter(RunOptions("t.py", **wanted), hosts, KNOWN)


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("ranks", "0,x", "'x' is not a rank"),
        ("ranks", "4-2", "4-2 is a descending range"),
        ("ranks", "", "'' is not a rank"),
        ("ranks", "-1", "'-1' is not a rank"),
        ("include", ("(",), "-i '(' is not a valid regular expression"),
        ("show_hosts", ("node07",), "node07"),
        ("show_hosts", ("",), "--show-hosts is empty"),
        ("show_hosts", ("node01,!node01",), "--show-hosts selects no host in made"),
        ("show_hosts", ("@last-failed",), "--show-hosts selects no host in made"),
        ("show_hosts", ("@healthy",), "@healthy: these hosts have not been checked yet"),
    ],
)
def test_what_chooses_nothing_is_refused_with_the_reason(option, value, words):
    with pytest.raises(InputError) as e:
        read(**{option: value})
    assert words in e.value.what


def test_the_hint_for_plain_text_can_be_pasted():
    with pytest.raises(InputError) as e:
        read(include=("(it's",))
    option, text = shlex.split(e.value.hint, comments=True)
    assert (option, re.search(text, "(it's")[0]) == ("-i", "(it's")


def test_ranks_that_the_run_does_not_have_are_refused():
    with refused("no-rank-selected", "0 to 3"):
        line_filter.require_selected_ranks(read(ranks="4-9"), made_plan(4))


# --- the status line and the panes ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (
            98,
            " 12 s  3 of 4 ranks up  1 done  cpu of ranks 50..100 %  net 1.2 Gbit/s  "
            "mem 50..80 % (node02)",
        ),
        (
            91,
            " 12 s  3 of 4 ranks up  1 done  cpu of ranks 50..100 %  net 1.2 Gbit/s  mem 50..80 %",
        ),
        (72, " 12 s  3 of 4 ranks up  1 done  cpu of ranks 50..100 %  net 1.2 Gbit/s"),
        (40, " 12 s  3 of 4 ranks up  1 done"),
        (12, " 12 s  3 of "),
    ],
)
def test_the_status_line_says_what_there_is_room_for(width, line):
    loads = (
        ("node01", HostLoad(0.2, 8_000_000_000, 16_000_000_000, 1e6)),
        ("node02", HostLoad(0.3, 16_000_000_000, 20_000_000_000, 150e6)),
    )
    tally = Tally(4, 3, 1, 0, 12.3, loads, busy=(0.5, 1.0))
    assert status_line(tally, TrainingProgress(), width=width).plain == line
