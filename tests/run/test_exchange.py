"""Do ranks train together? Pure: connections and printed lines -> a verdict."""

from __future__ import annotations

import pytest

from ipexctl.explain.causes.causes import match
from ipexctl.run.command.summary import ending
from ipexctl.run.outcome.rank_exchange import (
    ENOUGH_STEPS,
    MOST_LINKS,
    Exchange,
    Report,
    Verdict,
    Watch,
    is_step,
    sentence,
)
from ipexctl.run.outcome.run_result import RunResult
from ipexctl.run.plan.launch import RunRequest
from ipexctl.run.plan.launch_plan import plan
from ipexctl.shipped_tables import failures
from ipexctl.user_code import frameworks
from ipexctl.user_code.source_reader import read_source
from tests.plan.conftest import shape  # noqa: F401
from tests.plan.hosts import node, on_network


def code(text: str) -> frameworks.Frameworks:
    return frameworks.of_run([read_source("t.py", text, main=True)], ("t.py",), {})


JOINS = code("import torch.distributed as dist\ndist.init_process_group('gloo')\nloss.backward()")
SWEEP = code("import torch\nloss.backward()")
STEP = b"step 1 loss 0.5\n"


@pytest.fixture
def watch(shape):  # noqa: F811
    def made(ranks: int = 4, code=JOINS) -> Watch:
        nodes = [node(on_network(shape("one node"), f"n{i}", i)) for i in (1, 2)]
        return Watch(plan(nodes, RunRequest(("t.py",), n=ranks, frameworks=code), "r1"))

    return made


def mesh(found: Watch, bytes_of, *, silent: tuple[str, ...] = ()) -> None:
    """A connection for each pair of ranks; `bytes_of(a, b)` went each way, None: there is none."""
    host_of = {p.rank: h.host for h in found.plan.hosts for p in h.ranks}
    for host in found.plan.hosts:
        links = []
        for place in host.ranks:
            for other in host_of:
                number = bytes_of(*sorted((place.rank, other)))
                if other == place.rank or number is None:
                    continue
                here = (f"10.0.0.{place.rank}", 4000 + other)
                there = (f"10.0.0.{other}", 4000 + place.rank)
                links.append((place.rank, (*here, *there), number, number))
        if host.host not in silent:
            found.add(host.host, Report((*links, *meet(found, host))))


def meet(found: Watch, host, *, at: tuple[str, int] | None = None):
    """The connection of each rank of the host to the rendezvous."""
    to = at or (found.plan.master_addr, found.plan.master_port)
    return [(p.rank, (f"10.0.0.{p.rank}", 3000 + p.rank, *to), 900, 900) for p in host.ranks]


def last(found: Watch, *, watched: float = 9.0, hosts: tuple[str, ...] = ("n1", "n2")) -> None:
    for name in hosts:
        found.add(name, Report(watched=watched))


def steps(found: Watch, count: int, rank: int = 0, now: float = 0.0) -> None:
    for _ in range(count):
        found.printed(rank, STEP, [STEP.decode().strip()], now)


def test_ranks_that_exchange_gradients_train_together(watch):
    found = watch()
    mesh(found, lambda a, b: 5000 if b - a in (1, 3) else 10)
    seen = found.judge(completed=True)
    assert (seen.verdict, seen.alarming, seen.bytes) == (Verdict.TOGETHER, False, 40_040)
    assert sentence(seen, 4) == "ranks exchanged 40 kB"


def test_a_group_that_was_formed_and_never_used_is_no_exchange(watch):
    found = watch()
    mesh(found, lambda a, b: 10)
    steps(found, 1)
    seen = found.judge(completed=True)
    assert (seen.verdict, seen.alarming) == (Verdict.ALONE, True)
    assert (seen.little, " 4 trained " in sentence(seen, 4)) == (False, True)


def test_two_half_groups_are_named(watch):
    found = watch()
    mesh(found, lambda a, b: 900_000 if a // 2 == b // 2 else 10)
    seen = found.judge(completed=True)
    assert (seen.verdict, seen.groups) == (Verdict.APART, ((0, 1), (2, 3)))
    assert sentence(seen, 4).endswith(" 2 groups: ranks 0-1 | 2-3")


def test_a_barrier_between_heavy_groups_does_not_join_them_but_a_light_exchange_does(watch):
    apart, joined = watch(), watch()
    mesh(apart, lambda a, b: 90_000_000 if a // 2 == b // 2 else 500)
    mesh(joined, lambda a, b: 90_000_000 if a // 2 == b // 2 else 50_000)
    assert apart.judge().verdict is Verdict.APART
    assert joined.judge().verdict is Verdict.TOGETHER


def test_barriers_alone_do_not_make_up_for_many_printed_steps(watch):
    found = watch()
    mesh(found, lambda a, b: 340)
    assert found.judge().verdict is Verdict.TOGETHER
    steps(found, 9)
    seen = found.judge(completed=True)
    assert (seen.verdict, seen.too_small, seen.alarming) == (Verdict.UNKNOWN, True, False)
    steps(found, 31)
    seen = found.judge(completed=True)
    assert (seen.verdict, seen.little, seen.alarming) == (Verdict.ALONE, True, True)
    said = "ranks exchanged only 4 kB in 40 steps: each of the 4 trained alone"
    assert sentence(seen, 4) == said


@pytest.mark.parametrize(
    ("watched", "hosts", "verdict", "too_small"),
    [
        (9.0, ("n1", "n2"), Verdict.ALONE, False),
        (4.9, ("n1", "n2"), Verdict.UNKNOWN, True),
        (9.0, ("n1",), Verdict.UNKNOWN, True),  # what n2 counted last is not known
    ],
)
def test_a_run_that_was_over_too_soon_gets_no_verdict(watch, watched, hosts, verdict, too_small):
    found = watch()
    mesh(found, lambda a, b: 10)
    steps(found, 2)
    last(found, watched=watched, hosts=hosts)
    seen = found.end(completed=True)
    assert (seen.verdict, seen.too_small) == (verdict, too_small)
    assert seen.alarming == (verdict is Verdict.ALONE)
    halves = watch()
    mesh(halves, lambda a, b: 900_000 if a // 2 == b // 2 else 10)
    last(halves, watched=watched, hosts=hosts)
    seen = halves.end(completed=True)
    assert (seen.verdict is Verdict.APART) == (verdict is Verdict.ALONE)


def test_a_short_run_that_exchanged_something_was_together(watch):
    found = watch()
    mesh(found, lambda a, b: 5000)
    last(found, watched=0.2)
    assert found.end(completed=True).verdict is Verdict.TOGETHER


def test_what_a_host_may_have_missed_leaves_it_open(watch):
    found = watch()
    mesh(found, lambda a, b: 10)
    found.add("n2", Report(missed="uses RDMA"))
    last(found)
    seen = found.end(completed=True)
    assert (seen.verdict, seen.reason) == (Verdict.UNKNOWN, "n2: uses RDMA")


def test_code_that_trains_is_alarmed_about_without_printed_steps_only_after_a_while(watch):
    for watched, alarm in ((9.0, False), (31.0, True)):
        found = watch()
        mesh(found, lambda a, b: 10)
        last(found, watched=watched)
        seen = found.end(completed=True)
        assert (seen.verdict, seen.alarming) == (Verdict.ALONE, alarm)
        assert (seen.little, " 4 ran " in sentence(seen, 4)) == (False, True)


def test_a_rendezvous_of_the_scripts_own_is_no_exchange(watch):
    found = watch(2)
    store = ("10.0.0.0", 29999)
    pairs = [(0, ("10.0.0.0", 5000), store), (1, ("10.0.0.1", 5001), store)]
    for rank, own, server in pairs:
        host = found.plan.host_of(rank)
        found.add(host, Report(((rank, (*own, *server), 9000, 9000),)))
        found.add(found.plan.host_of(0), Report(((0, (*server, *own), 9000, 9000),)))
    assert found.judge(completed=True).verdict is Verdict.ALONE


def test_shared_memory_joins_the_ranks_of_a_host(watch):
    found = watch()
    mesh(found, lambda a, b: 80_000 if (a, b) == (1, 2) else None)
    for host in found.plan.hosts:
        found.add(host.host, Report(sharing=(tuple(p.rank for p in host.ranks),)))
    seen = found.judge(completed=True)
    assert (seen.verdict, seen.shared) == (Verdict.TOGETHER, True)
    assert " 160 kB, and shared memory" in sentence(seen, 4)


def test_what_cannot_be_counted_is_not_guessed(watch):
    found = watch()
    mesh(found, lambda a, b: 10, silent=("n2",))
    seen = found.judge(completed=True)
    assert (seen.verdict, seen.alarming) == (Verdict.UNKNOWN, False)
    assert seen.reason.startswith("n2: ")
    found.add("n2", Report(trouble="kernel 4.0"))
    assert found.judge().reason == "n2: kernel 4.0"


def test_much_data_with_an_address_that_is_no_ranks_leaves_it_open(watch):
    found = watch()
    mesh(found, lambda a, b: 10)
    found.add("n1", Report(((0, ("10.0.0.0", 1, "192.168.0.9", 7), 5_000_000, 5_000_000),)))
    seen = found.judge(completed=True)
    assert (seen.verdict, "192.168.0.9" in seen.reason) == (Verdict.UNKNOWN, True)


def test_one_small_message_counts_where_nothing_is_trained(watch):
    collects = code("import torch.distributed as dist\ndist.init_process_group('gloo')")
    found, trains = watch(code=collects), watch()
    for one in (found, trains):
        mesh(one, lambda a, b: 170)
        steps(one, 1)
    assert found.judge(completed=True).verdict is Verdict.TOGETHER
    seen = trains.judge(completed=True)
    assert (seen.verdict, seen.too_small) == (
        Verdict.UNKNOWN,
        True,
    )  # no gradients, but not nothing


def test_a_download_is_no_exchange(watch):
    found = watch()
    mesh(found, lambda a, b: 10)
    found.add("n1", Report(((0, ("10.0.0.0", 1, "192.168.0.9", 443), 2_000, 5_000_000_000),)))
    assert found.judge(completed=True).verdict is Verdict.ALONE


def test_independent_ranks_of_a_sweep_get_a_plain_line(watch):
    found = watch(code=SWEEP)
    mesh(found, lambda a, b: None, silent=("n1", "n2"))
    for host in found.plan.hosts:
        found.add(host.host, Report())
    steps(found, 9)
    assert found.warning(100.0) == ""
    seen = found.judge(completed=True)
    assert (seen.verdict, seen.alarming, seen.little) == (Verdict.ALONE, False, False)
    assert " 4 ran " in sentence(seen, 4)


def test_a_run_that_failed_before_its_first_step_accuses_nobody(watch):
    found = watch()
    mesh(found, lambda a, b: None)
    seen = found.judge(completed=False)
    assert (seen.alarming, " 4 " in sentence(seen, 4)) == (False, False)
    assert (seen.verdict, seen.bytes) == (Verdict.ALONE, 0)


def test_the_warning_comes_once_and_after_the_second_step(watch):
    found = watch()
    mesh(found, lambda a, b: 10)
    steps(found, 1, now=0.0)
    assert found.warning(100.0) == ""
    steps(found, 1, now=100.0)
    assert found.warning(110.0) == ""
    said = found.warning(116.0)
    assert said.startswith("WARNING: after 2 ") and said.endswith("explain trained-alone)")
    assert (found.warning(120.0), found.warning(122.0)) == ("", "")
    mesh(found, lambda a, b: 5000)
    assert found.warning(124.0) == ""
    told = found.warning(128.0)
    assert told and "WARNING" not in told
    assert found.warning(200.0) == ""


def test_connections_that_closed_before_their_owner_was_known_are_not_called_nothing(watch):
    found, group = watch(), watch()
    mesh(found, lambda a, b: None)
    mesh(group, lambda a, b: 10)
    there = ("10.0.0.1", 7, "10.0.0.2", 9)
    back = (*there[2:], *there[:2])
    group.add("n1", Report(strays=((there, 5000, 5000), (back, 5000, 5000))))
    assert group.judge(completed=True).verdict is Verdict.UNKNOWN  # a second group
    found.add("n1", Report(strays=((there, 5000, 5000),)))
    assert found.judge(completed=True).verdict is Verdict.ALONE  # one end is anybody's
    found.add("n2", Report(strays=((back, 5000, 5000),)))
    seen = found.judge(completed=True)
    assert (seen.verdict, "too soon" in seen.reason) == (Verdict.UNKNOWN, True)


def test_a_short_exchange_of_which_one_end_was_seen_too_late(watch):
    """all_reduce of one number, and destroy_process_group at once: one rank on each host."""
    found = watch(2, code("import torch\ndist.all_reduce(t)"))
    here, there = ("10.0.0.1", 43217), ("10.0.0.2", 34620)
    store = ("10.0.0.2", 41290, "10.0.0.1", found.plan.master_port)
    found.add("n1", Report(((0, (*here, *there), 149, 157),)))
    found.add("n2", Report(((1, store, 49, 640),), strays=(((*there, *here), 158, 149),)))
    seen = found.judge(completed=True)
    assert (seen.verdict, seen.bytes, seen.partial) == (Verdict.TOGETHER, 306, False)


@pytest.mark.parametrize(
    ("ranks", "one", "other", "verdict"),
    [
        (2, ("10.0.0.1", 5), ("10.0.0.1", 6), Verdict.ALONE),  # n1 has one rank, and that is alone
        (4, ("10.0.0.1", 5), ("10.0.0.1", 6), Verdict.UNKNOWN),
        (2, ("10.0.0.1", 5), ("10.0.0.2", 6), Verdict.UNKNOWN),
        (2, ("10.0.0.1", 5), ("10.9.9.9", 6), Verdict.ALONE),  # its other end is not of the run
    ],
)
def test_only_what_can_be_a_connection_of_two_ranks_leaves_it_open(
    watch, ranks, one, other, verdict
):
    found = watch(ranks, code("import torch"))
    for name, address in (("n1", "10.0.0.1"), ("n2", "10.0.0.2")):
        ends = [(*a, *b) for a, b in ((one, other), (other, one)) if a[0] == address]
        found.add(name, Report(strays=tuple((end, 9000, 9000) for end in ends)))
    assert found.judge(completed=True).verdict is verdict


def test_preprocessing_of_ten_minutes_gets_no_warning(watch):
    found = watch()
    for host in found.plan.hosts:
        found.add(host.host, Report())
    for now in range(600):
        line = f"Map: {now // 6}%| {now}/600 [00:10<10:00, 1.0 examples/s]"
        found.printed(0, line.encode(), [line], float(now))
        assert found.warning(float(now)) == ""


def own_store(found: Watch, address: str, port: int, *, now: float = 0.0) -> None:
    """Rank 0 serves the rendezvous there, and its host's ranks reach it."""
    server, links = (address, port), []
    for p in found.plan.hosts[0].ranks:
        client = (address, 50000 + p.rank)
        links += [(p.rank, (*client, *server), 300, 300), (0, (*server, *client), 300, 300)]
    found.add("n1", Report(tuple(links)), now)
    found.add("n2", Report(), now)


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.1.1", "::1"])
def test_a_rendezvous_at_loopback_is_named_within_30_s(watch, ranks, address):
    found = watch(ranks)
    own_store(found, address, 29511, now=1.0)
    assert found.waiting(10.0) == ""
    where = f"[{address}]" if ":" in address else address
    said = found.waiting(30.0)
    assert " on n1 " in said and f" {where}:29511, " in said
    assert f"; rank{'s 2-3' if ranks == 4 else ' 1'} cannot join" in said
    assert (found.waiting(31.0), found.waiting(99.0), found.end(completed=False).stuck) == (
        "",
        "",
        said,
    )
    cause = match([said], failures())
    assert cause is not None and cause.cause.slug == "master-loopback"


@pytest.mark.parametrize(
    "other",
    [
        lambda found: own_store(found, "10.0.0.9", 29511),  # an address that all hosts reach
        lambda found: own_store(found, "127.0.0.1", 41000),  # a program that talks to itself
        lambda found: mesh(found, lambda a, b: 10),  # all are there, and have formed a group
        lambda found: (
            own_store(found, "127.0.0.1", 29511),
            found.add(
                "n2", Report(tuple(meet(found, found.plan.hosts[1], at=("10.0.0.1", 29511))))
            ),
        ),  # the name of the own host: loopback there, and its address elsewhere
    ],
)
def test_a_rendezvous_that_others_reach_is_not_called_loopback(watch, other):
    found = watch()
    other(found)
    found.waiting(1.0)
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


def test_a_host_that_reports_new_connections_for_ever_fills_no_memory(watch):
    found = watch()
    for start in range(0, 4 * MOST_LINKS, 1000):
        links = tuple((0, ("a", n, "b", 1), 1, 1) for n in range(start, start + 1000))
        found.add("n1", Report(links))
    assert len(found.links[0]) <= 2 * MOST_LINKS
    found.add("n1", Report(((0, ("a", 1, "c", 1), 10**9, 10**9),)))
    assert len(found.links[0]) <= 2 * MOST_LINKS
    assert ("a", 1, "c", 1) in found.links[0]


@pytest.mark.parametrize(
    ("verdict", "trained", "lines"),
    [
        (Verdict.TOGETHER, True, ["  ranks exchanged 1 MB"]),
        (
            Verdict.ALONE, True,
            ["  ranks exchanged nothing: each of the 4 trained alone",
             "    why, and what to change: ipexctl explain trained-alone"],
        ),
        (Verdict.ALONE, False, ["  ranks exchanged nothing: each of the 4 ran alone"]),
        (Verdict.UNKNOWN, True, ["  it is unknown what ranks exchanged: n2: old"]),
    ],
)  # fmt: skip
def test_the_summary_has_one_line_and_an_alarm_says_where_to_read_on(
    watch, verdict, trained, lines
):
    found = Exchange(verdict, 1_000_000, reason="n2: old", trained=trained, steps=trained)
    result = RunResult("r1", 0, "ranks", 1.0, watch().plan, (), exchange=found)
    assert [line.plain for line in ending(result) if "exchange" in line.plain or "why" in
            line.plain] == lines  # fmt: skip


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
