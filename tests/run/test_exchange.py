"""Do ranks train together? Pure: what ranks say and printed lines -> a verdict."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ipexctl.common.exchange_report import ExchangeReport, RankGroup, RankProcess
from ipexctl.explain.causes.causes import find_likeliest_cause
from ipexctl.explain.known_failures import known_failures
from ipexctl.run.command.summary import summary_lines
from ipexctl.run.outcome.rank_exchange import (
    ENOUGH_STEPS,
    Exchange,
    ExchangeVerdict,
    ExchangeWatch,
    describe_exchange,
    is_step,
)
from ipexctl.run.outcome.run_result import RunResult
from ipexctl.run.plan.launch import RunRequest
from ipexctl.run.plan.launch_plan import make_launch_plan
from ipexctl.user_code import frameworks
from ipexctl.user_code.source_reader import read_source
from tests.plan.conftest import shape  # noqa: F401
from tests.plan.hosts import node, on_network


def code(text: str) -> frameworks.Frameworks:
    return frameworks.of_run([read_source("t.py", text, main=True)], ("t.py",), {})


JOINS = code("import torch.distributed as dist\ndist.init_process_group('gloo')\nloss.backward()")
SWEEP = code("import torch\nloss.backward()")
STEP = b"step 1 loss 0.5\n"
# no group, and no rendezvous
PROCESS = RankProcess(0, True, 0.0, 9.0, True, False, "", None, None, "2.13.0", (), ())


@pytest.fixture
def watch(shape):  # noqa: F811
    def made(ranks: int = 4, code=JOINS) -> ExchangeWatch:
        nodes = [node(on_network(shape("one node"), f"n{i}", i)) for i in (1, 2)]
        return ExchangeWatch(
            make_launch_plan(nodes, RunRequest(("t.py",), n=ranks, frameworks=code), "r1")
        )

    return made


def group(*ranks: int, data: bool | None = True, count: int = 7) -> RankGroup:
    return RankGroup(ranks, "gloo", data, count)


def say(
    found: ExchangeWatch, *, now: float = 0.0, moved=(), complete=True, groups=None, **more
) -> None:
    """Each rank says the same but for what is a function of its number; `groups`: without it, none
    was formed."""
    joined = {} if groups is None else {"joined": True, "world": found.plan.world_size}
    for host in found.plan.hosts:
        said = []
        for place in host.ranks:
            facts = {name: v(place.rank) if callable(v) else v for name, v in more.items()}
            if groups is not None:
                facts = {"place": place.rank, "groups": tuple(groups(place.rank)), **facts}
            said.append(PROCESS.replace(rank=place.rank, **{**joined, **facts}))
        rows = tuple(row for row in moved if found._hosts[row[0]] == host.host)
        found.add(host.host, ExchangeReport(tuple(said), rows, complete=complete), now)


def steps(found: ExchangeWatch, count: int, rank: int = 0, now: float = 0.0) -> None:
    for _ in range(count):
        found.printed(rank, STEP, [STEP.decode().strip()], now)


def test_ranks_that_ran_collectives_in_one_group_train_together(watch):
    found = watch()
    say(found, groups=lambda rank: [group()])
    seen = found.end(completed=True)
    assert (seen.verdict, seen.is_alarming, seen.collectives) == (
        ExchangeVerdict.TOGETHER,
        False,
        7,
    )
    assert describe_exchange(seen, 4) == "ranks exchanged data in 7 collectives"


def test_collectives_of_a_killed_rank_are_those_of_its_last_look(watch):
    found = watch()
    say(found, groups=lambda rank: [group(count=3)], ended=lambda rank: rank != 2)
    steps(found, 15)
    text = describe_exchange(found.end(completed=False), 4)
    assert text == "ranks exchanged data in at least 3 collectives"


def test_groups_that_have_a_rank_in_common_are_one(watch):
    found = watch()
    say(found, groups=lambda rank: [g for g in (group(0, 1), group(1, 2), group(2, 3))
                                    if rank in g.ranks])  # fmt: skip
    assert found.end(completed=True).verdict is ExchangeVerdict.TOGETHER


@pytest.mark.parametrize("groups", [None, lambda rank: [group(data=False)]])
def test_no_group_and_one_in_which_nothing_ran_are_each_alone(watch, groups):
    found = watch()
    say(found, groups=groups)
    steps(found, 1)
    seen = found.end(completed=True)
    assert (seen.verdict, seen.is_alarming) == (ExchangeVerdict.ALONE, True)
    assert " 4 trained " in describe_exchange(seen, 4)


def test_two_half_groups_are_named(watch):
    found = watch()
    say(found, groups=lambda rank: [group(data=False), group(rank // 2 * 2, rank // 2 * 2 + 1)])
    seen = found.end(completed=True)
    assert (seen.verdict, seen.groups) == (ExchangeVerdict.APART, ((0, 1), (2, 3)))
    assert describe_exchange(seen, 4).endswith(" 2 groups: ranks 0-1 | 2-3")


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"ended": lambda rank: rank != 3}, "rank 3 was ended before it could say what it did"),
        ({"main": lambda rank: rank != 2}, "rank 2 did not import torch"),
        ({"others": lambda rank: ("mpi4py.MPI",) * (rank == 1)}, "rank 1 uses mpi4py.MPI"),
        ({"joined": True, "place": lambda rank: rank % 2, "world": 2},
         "rank 0 of 4 is rank 0 of 2 in torch.distributed"),
        ({"groups": lambda rank: [group(data=None)]},
         "gloo of torch 2.13.0 does not record what rank 0 did with ranks 0-3"),
        ({"groups": lambda rank: [group(data=rank < 2)]},  # it failed there, and never began here
         "of ranks 0-3, only ranks 0-1 ran a collective that is known"),
        ({"moved": [(0, "10.0.0.1", "10.0.0.2", 9, 99_000), (2, "10.0.0.2", "10.0.0.1", 9, 9)]},
         "rank 0 exchanged 99 kB outside of torch.distributed"),
        ({"complete": False}, "n1 did not report what its ranks did"),
    ],
)  # fmt: skip
def test_where_a_rank_may_have_exchanged_more_the_answer_is_not_known(watch, facts, reason):
    found = watch()
    say(found, **facts)
    steps(found, 1)
    seen = found.end(completed=True)
    assert (seen.verdict, seen.reason, seen.is_alarming) == (ExchangeVerdict.UNKNOWN, reason, False)
    assert not seen.quiet


def test_what_was_exchanged_is_known_though_a_rank_could_not_say_more(watch):
    found = watch()
    say(found, groups=lambda rank: [group()], ended=False, others=("ray",))
    assert found.end(completed=False).verdict is ExchangeVerdict.TOGETHER


def test_ranks_that_are_not_asked_leave_it_open(watch):
    found = watch()
    for host in found.plan.hosts:
        found.add(host.host, ExchangeReport(silent="--no-inspect", complete=True))
    assert found.end(completed=True).reason == "--no-inspect"


def test_a_world_of_one_is_alone(watch):
    found = watch()
    say(found, joined=True, place=0, world=1, groups=lambda rank: [group(data=None)])
    assert found.end(completed=True).verdict is ExchangeVerdict.ALONE


def test_a_process_in_the_rank_speaks_for_it(watch):
    """torchrun in a rank, or a process that the script has spawned."""
    found = watch(2)
    for host in found.plan.hosts:
        main = PROCESS.replace(rank=host.ranks[0].rank)
        worker = main.replace(main=False, joined=True, place=main.rank, world=2, groups=(group(),))
        found.add(host.host, ExchangeReport((main, worker), complete=True))
    assert found.end(completed=True).verdict is ExchangeVerdict.TOGETHER


def test_bytes_are_those_between_addresses_of_ranks(watch):
    found = watch()
    moved = [
        (0, "10.0.0.1", "10.0.0.2", 5, 700_000),
        (2, "10.0.0.2", "10.0.0.1", 5, 300_000),
        (2, "10.0.0.2", "192.168.9.9", 5, 5_000_000_000),  # a download
    ]
    say(found, groups=lambda rank: [group(count=412)], moved=moved)
    seen = found.end(completed=True)
    assert (seen.verdict, seen.bytes) == (ExchangeVerdict.TOGETHER, 1_000_000)
    assert describe_exchange(seen, 4) == "ranks exchanged at least 1 MB in 412 collectives"
    alone = watch()
    say(alone, moved=moved[2:])
    assert alone.end(completed=True).verdict is ExchangeVerdict.ALONE


def test_code_that_trains_is_alarmed_about_without_printed_steps_only_after_a_while(watch):
    for seconds, alarm in ((9.0, False), (31.0, True)):
        found = watch()
        say(found, seconds=seconds)
        seen = found.end(completed=True)
        assert (seen.verdict, seen.is_alarming) == (ExchangeVerdict.ALONE, alarm)
        assert " 4 ran " in describe_exchange(seen, 4)


@pytest.mark.parametrize(("seconds", "printed", "quiet"), [(9, 0, False), (2, 0, True), (2, 9, 0)])
def test_independent_ranks_of_a_sweep_get_a_plain_line(watch, seconds, printed, quiet):
    found = watch(code=SWEEP)
    say(found, seconds=float(seconds))
    steps(found, printed)
    assert found.warning(100.0) == ""
    seen = found.end(completed=True)
    assert (seen.verdict, seen.is_alarming, seen.quiet) == (ExchangeVerdict.ALONE, False, quiet)
    assert " 4 ran " in describe_exchange(seen, 4)


def test_a_run_that_failed_before_its_first_step_accuses_nobody(watch):
    found = watch()
    say(found)
    seen = found.end(completed=False)
    assert (seen.is_alarming, " 4 " in describe_exchange(seen, 4)) == (False, False)


def test_the_warning_comes_once_and_by_what_ranks_said_after_the_second_step(watch):
    found = watch()
    steps(found, 2, now=100.0)
    say(found, groups=lambda rank: [group(data=False)], now=90.0, complete=False)
    assert found.warning(110.0) == found.warning(116.0) == ""
    say(found, groups=lambda rank: [group(data=False)], now=118.0, age=9.0, complete=False)
    said = found.warning(122.0)
    assert said.startswith("WARNING: after 2 ") and said.endswith("explain trained-alone)")
    known = find_likeliest_cause([said], known_failures())
    assert known is not None and known.cause.slug == "trained-alone"
    assert (found.warning(124.0), found.warning(128.0)) == ("", "")
    say(found, groups=lambda rank: [group()], now=130.0, complete=False)
    told = found.warning(134.0)
    assert told and "WARNING" not in told
    assert found.warning(200.0) == ""


def test_preprocessing_of_ten_minutes_gets_no_warning(watch):
    found = watch()
    for now in range(600):
        say(found, now=float(now), complete=False)
        line = f"Map: {now // 6}%| {now}/600 [00:10<10:00, 1.0 examples/s]"
        found.printed(0, line.encode(), [line], float(now))
        assert found.warning(float(now)) == ""


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("place", ["127.0.0.1:29511", "localhost:29511", "[::1]:29511"])
def test_a_rendezvous_at_loopback_is_named_within_30_s(watch, ranks, place):
    found = watch(ranks)
    for now in (1.0, 15.0):
        say(found, joined=True, master=place, ended=False, now=now, complete=False)
        assert found.waiting(now) == ""
    said = found.waiting(30.0)
    assert f" on n1 opened the rendezvous at {place}, " in said
    assert f"; rank{'s 2-3' if ranks == 4 else ' 1'} cannot join" in said
    assert (found.waiting(31.0), found.end(completed=False).stuck) == ("", said)
    cause = find_likeliest_cause([said], known_failures())
    assert cause is not None and cause.cause.slug == "master-loopback"


@pytest.mark.parametrize(
    "facts",
    [
        {"joined": True, "master": "10.0.0.9:29511"},  # an address that all hosts reach
        {"master": "127.0.0.1:29511", "groups": lambda rank: [group(data=False)]},  # all are there
    ],
)
def test_a_rendezvous_that_others_reach_is_not_called_loopback(watch, facts):
    found = watch()
    for now in (1.0, 15.0):
        say(found, now=now, **facts)
        assert found.waiting(now) == ""
    assert (found.waiting(30.0), found.end(completed=False).stuck) == ("", "")


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("step 3 loss 0.0527", True),
        ("epoch 1/4: train_loss=1.2e-3", True),
        ("{'loss': 0.69, 'grad_norm': 1.2, 'learning_rate': 5e-05, 'epoch': 0.1}", True),
        ("{'loss': '0.6931', 'grad_norm': '1.2'}", True),
        ("Loss: tensor(0.5231, grad_fn=<...>)", True),
        ("[100/1000] Loss is 2.31", True),
        ("perplexity: 31.2", True),
        ("eval_loss: 0.5", False),
        ("validation loss 0.5", False),
        ("zero-shot loss 3.1", False),
        ("Downloading shards: 50%", False),
        ("using loss function: cross entropy", False),
        ("lossless compression 4 files", False),
        ("step 2 of 3: tokenizing", False),
    ],
)
def test_lines_that_are_steps_of_a_training(line, step):
    assert is_step(line) is step


def test_one_rank_has_nobody_to_talk_to(watch):
    assert watch(1).judge(completed=True) is None


@pytest.mark.parametrize(
    ("verdict", "trained", "lines"),
    [
        (ExchangeVerdict.TOGETHER, True, ["  ranks exchanged at least 1 MB"]),
        (
            ExchangeVerdict.ALONE, True,
            ["  ranks exchanged nothing: each of the 4 trained alone",
             "    why, and what to change: ipexctl explain trained-alone"],
        ),
        (ExchangeVerdict.ALONE, False, ["  ranks exchanged nothing: each of the 4 ran alone"]),
        (ExchangeVerdict.UNKNOWN, True, ["  it is unknown what ranks exchanged: n2: old"]),
    ],
)  # fmt: skip
def test_the_summary_has_one_line_and_an_alarm_says_where_to_read_on(
    watch, verdict, trained, lines
):
    found = Exchange(verdict, 1_000_000, reason="n2: old", trained=trained, steps=trained)
    for quiet in (False, True):
        result = RunResult(
            "r1", 0, "ranks", 1.0, watch().plan, (), exchange=replace(found, quiet=quiet)
        )
        said = [
            row.plain
            for row in summary_lines(result)
            if "exchange" in row.plain or "why" in row.plain
        ]
        assert said == ([] if quiet else lines)


def test_a_flood_of_steps_is_not_counted_for_ever(watch, monkeypatch):
    found, looked = watch(), []
    monkeypatch.setattr(
        "ipexctl.run.outcome.rank_exchange.is_step", lambda t: looked.append(t) or True
    )
    for batch in range(30):
        found.printed(0, STEP, ["step 1 loss 0.5"] * 1000, float(batch))
    assert len(looked) == ENOUGH_STEPS == found.steps[0]
    found.printed(1, STEP, ["step 1 loss 0.5"], 30.0)
    assert found.steps[1] == 1
