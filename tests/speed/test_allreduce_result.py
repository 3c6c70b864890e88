"""bench allreduce: what ranks print becomes numbers, and the slow host or link has a reason."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipexctl.bench import allreduce_result as core
from ipexctl.bench.allreduce_result import (
    MARK,
    BenchLines,
    Placed,
    measured_rows,
    read_size,
    slow_parts,
)
from ipexctl.bench.command.allreduce_text import benchmark_document, show_benchmark
from ipexctl.doctor.report.cluster import CheckedHosts
from ipexctl.errors import InputError
from ipexctl.facts.cpu_frequency_facts import Power
from ipexctl.facts.facts import Facts
from ipexctl.facts.load_facts import Load
from ipexctl.facts.speed_facts import Losses, MeasuredLink, Measurements
from ipexctl.in_ranks import allreduce_bench
from tests import made

NAMES = ("n1", "n2", "n3", "n4")


def line(kind: str, **fields: Any) -> str:
    return MARK + json.dumps({"kind": kind, **fields})


def host(name: str, *, quota: float | None = None, speed: int | None = None, **state: Any) -> Facts:
    """A machine of its own with 4 cores."""
    found = made.facts(name, address=f"10.0.0.{NAMES.index(name) + 1}")
    nics = tuple(replace(n, speed=speed, mtu=state.pop("mtu", n.mtu)) for n in found.net.nics)
    return replace(
        found,
        boot_id=state.pop("boot", f"boot of {name}"),
        cpu=replace(found.cpu, quota=quota, allowed=state.pop("allowed", found.cpu.allowed)),
        net=replace(found.net, nics=nics),
        condition=replace(found.condition, **state),
    )


def ring(names: tuple[str, ...] = NAMES, **rates: float) -> tuple[MeasuredLink, ...]:
    pairs = zip(names, (*names[1:], names[0]), strict=True)
    return tuple(MeasuredLink(a, b, 1e-4, rates.get(a + b, 9.4e9)) for a, b in pairs)


def parts(
    computed: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    facts: tuple[Facts, ...] = (),
    links: tuple[MeasuredLink, ...] = (),
    losses: tuple[Losses, ...] = (),
    names: tuple[str, ...] = NAMES,
) -> tuple[core.SlowPart, ...]:
    """Of one rank per host. `computed`: what differs."""
    special = {f.host: f for f in facts}
    hosts = tuple(special.get(name) or host(name) for name in names)
    heard = BenchLines(len(names))
    for rank, name in enumerate(names):
        good = {"gflops": 100.0, "threads": 4}
        assert heard.add(rank, line("compute", **{**good, **(computed or {}).get(name, {})}))
    cluster = CheckedHosts(hosts, measured=Measurements(links=links or ring(names), losses=losses))
    placed = Placed(cluster, {name: [rank] for rank, name in enumerate(names)})
    return slow_parts(placed, heard)


def told(*args: Any, **options: Any) -> list[tuple[str, str, str, tuple[str, ...]]]:
    """(kind, slug, host, slugs of the reasons)."""
    found = parts(*args, **options)
    return [(p.kind, p.slug, p.host, tuple(r.slug for r in p.reasons)) for p in found]


SLOW = {"gflops": 40.0}
BUSY = Load(average=(4.0, 4.0, 4.0), busy=3.5, top=(("burn", 3.5),))
GIGABIT = tuple(host(n, speed=1000 if n == "n2" else 10000) for n in NAMES)
FOUND = {
    "nothing": (told(), []),
    "one host's links": (
        told(links=ring(n1n2=4e7, n2n3=4e7)),
        [("link", "slow-link", "n2", ())],
    ),
    "gigabit in a faster cluster": (
        told(links=ring(n1n2=9.4e8, n2n3=9.4e8), facts=GIGABIT),
        [("link", "slow-link", "n2", ("link-speed",))],
    ),
    "too few links to compare, and cards of different speeds": (
        told(links=ring(("n1", "n2")), names=("n1", "n2"), facts=GIGABIT[:2]),
        [("link", "link-speed", "", ())],
    ),
    "different cards, and links that are equally fast": (told(links=ring(), facts=GIGABIT), []),
    "different MTUs": (told(facts=(host("n3", mtu=9000),)), [("link", "mtu", "", ())]),
    "lost packets": (
        told(losses=(Losses("n1", "n2", 1000, 20),)),
        [("link", "lossy-link", "n1", ())],
    ),
    "a high latency": (
        told(links=ring(n3n4=0.0) + (MeasuredLink("n3", "n4", 0.012, 9e9),)),
        [("link", "far-link", "n3", ())],
    ),
    "a slow host": (told({"n3": SLOW}), [("host", "slow-host", "n3", ())]),
    "a busy host, seen by the doctor": (
        told({"n3": SLOW}, facts=(host("n3", load=BUSY),)),
        [("host", "slow-host", "n3", ("busy",))],
    ),
    "a quota": (
        told({"n3": SLOW}, facts=(host("n3", quota=1.5),)),
        [("host", "slow-host", "n3", ("cpu-quota",))],
    ),
    "a quota on one of two hosts": (
        told({"n2": SLOW}, facts=(host("n2", quota=1.5),), names=("n1", "n2")),
        [("host", "slow-host", "n2", ("cpu-quota",))],
    ),
    "two hosts and no reason": (told({"n2": SLOW}, names=("n1", "n2")), []),
    "heat since boot": (
        told({"n4": SLOW}, facts=(host("n4", power=Power(throttled=500)),)),
        [("host", "slow-host", "n4", ("throttled",))],
    ),
    "OMP_NUM_THREADS=1 on one host": (
        told({"n1": {"gflops": 25.0, "threads": 1}}),
        [("host", "slow-host", "n1", ("one-thread",))],
    ),
    "OMP_NUM_THREADS=1 everywhere": (
        told({n: {"threads": 1} for n in NAMES}),
        [("host", "one-thread", n, ()) for n in NAMES],
    ),
    "containers on one machine keep each other busy": (
        told({"n2": SLOW}, facts=tuple(host(n, boot="1") for n in NAMES)),
        [],
    ),
    "both": (
        told({"n3": SLOW}, links=ring(n1n2=4e7, n2n3=4e7)),
        [("link", "slow-link", "n2", ()), ("host", "slow-host", "n3", ())],
    ),
}


@pytest.mark.parametrize(("found", "expected"), FOUND.values(), ids=FOUND)
def test_whom_the_others_wait_for_and_why(found: Any, expected: Any) -> None:
    assert found == expected


def test_the_fix_is_that_of_the_reason_where_it_is_known() -> None:
    (known,) = parts({"n3": SLOW}, facts=(host("n3", quota=1.5),))
    assert known.fix == "" and known.reasons[0].fix
    (unknown,) = parts({"n3": SLOW})
    assert unknown.reasons == () and "MHz" in unknown.fix


# --- the numbers ---------------------------------------------------------------------------------


def test_a_row_is_over_the_averages_of_all_ranks() -> None:
    heard = BenchLines(4)
    for rank, average in enumerate((90.0, 100.0, 110.0, 100.0)):
        heard.add(rank, line("size", size=1 << 20, iterations=10 + rank, average=average))
    heard.add(0, line("size", size=4, iterations=10, average=1.0))  # the others have not ended it
    (row,) = measured_rows(heard, 2e11)
    assert (row.size, row.average, row.least, row.most, row.iterations) == (
        1 << 20, 100.0, 90.0, 110.0, 10
    )  # fmt: skip
    assert row.bus == pytest.approx((1 << 20) * 8 * 1.5 / 100e-6)
    assert row.of_link == pytest.approx(row.bus / 2e11)
    assert measured_rows(heard, None)[0].of_link is None


def test_a_ring_of_two_sends_each_byte_once() -> None:
    assert core.bus_rate(1000, 1.0, 2) == pytest.approx(8e9)


ODD = [
    "", "null", "[]", "[" * 3000, "{}", '{"kind": []}', '{"kind": "size"}', "\0", "{" * 9000,
    '{"kind": "size", "size": 5, "iterations": 1, "average": 1}',
    '{"kind": "size", "size": 4, "iterations": 1, "average": 1e-320}',
    '{"kind": "size", "size": 4, "iterations": 1, "average": NaN}',
    '{"kind": "size", "size": 4, "iterations": true, "average": 1}',
    '{"kind": "size", "size": 4, "iterations": 1, "average": -1}',
    '{"kind": "compute", "gflops": Infinity}', '{"kind": "compute", "gflops": "fast"}',
    '{"kind": "left", "why": {}, "sizes": 4}', '{"kind": "left", "why": "time", "sizes": [[], {}]}',
    '{"kind": "rank", "torch": 3, "backend": null}',
]  # fmt: skip


@pytest.mark.parametrize("text", ODD)
def test_nonsense_of_a_rank_is_no_number(text: str) -> None:
    heard = BenchLines(1)
    assert heard.add(0, MARK + text)
    assert (heard.rates, heard.times, heard.left, heard.error) == ({}, {}, (), "")


@given(st.text(), st.integers())
def test_no_line_of_a_rank_is_a_bug_of_ours(text: str, rank: int) -> None:
    heard = BenchLines(2)
    assert heard.add(rank, MARK + text)
    assert not heard.add(rank, f"x{text}")


def test_a_rank_that_does_not_exist_is_not_counted() -> None:
    heard = BenchLines(1)
    heard.add(7, line("compute", gflops=1.0))
    heard.add(-1, line("compute", gflops=1.0))
    assert heard.rates == {}


def test_an_error_of_a_rank_has_a_slug_of_ours() -> None:
    heard = BenchLines(2)
    heard.add(1, line("error", slug="no-ccl", why="no\x1b[2Jne"))
    heard.add(0, line("error", slug="wrong-sum", why="later"))
    assert (heard.error, "\x1b" in heard.why) == ("no-ccl", False)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4", 4),
        ("64k", 65536),
        ("16M", 16 << 20),
        ("1GiB", 1 << 30),
        ("256mb", 256 << 20),
    ],
)
def test_sizes_are_read_as_people_write_them(text: str, size: int) -> None:
    assert read_size(text) == size


@pytest.mark.parametrize("text", ["", "3", "8 b", "2G", "-4", "1.5M", "٤k", "9" * 20])
def test_other_sizes_are_refused(text: str) -> None:
    with pytest.raises(InputError) as raised:
        read_size(text)
    assert raised.value.slug == "size-invalid"


# --- the script of the ranks ---------------------------------------------------------------------


def test_both_sides_agree_on_the_mark_and_on_the_sizes() -> None:
    assert allreduce_bench.MARK == MARK
    script = tuple(allreduce_bench.SMALLEST * allreduce_bench.FACTOR**k for k in range(15))
    assert script == core.SIZES


def test_the_memory_that_is_available_here_is_a_number() -> None:
    assert allreduce_bench.available_memory() > 0


# --- what is printed -----------------------------------------------------------------------------


def benchmark(**changes: Any) -> core.Benchmark:
    heard = BenchLines(3)
    for size in core.SIZES[:14]:
        for rank in range(3):
            heard.add(rank, line("size", size=size, iterations=1000, average=12345678.9 + rank))
    part = core.SlowPart("link", "slow-link", "n2", "PERF-005", "a slow link", "seen", "fix it")
    found = core.Benchmark(
        "id", 0, "gloo", "2.13.0", 3, measured_rows(heard, 4e7), (1 << 30,), "time",
        tuple(core.HostRate(n, 1, 10.0, 4) for n in NAMES[:3]), ring(), (part,), 20.0,
    )  # fmt: skip
    return replace(found, **changes)


@pytest.mark.parametrize("code", [0, 9])
def test_the_exit_code_is_the_runs_or_1_if_something_is_slow(code: int) -> None:
    assert benchmark(code=code).exit_code == (code or 1)
    assert benchmark(code=code, slow=()).exit_code == code
    assert benchmark_document(benchmark(code=code))["exit_code"] == (code or 1)


def test_the_screen_fits_80_columns_and_its_table_is_osus(capsys, monkeypatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    show_benchmark(benchmark())
    lines = capsys.readouterr().out.splitlines()
    assert [text for text in lines if len(text) > 100] == []
    table = [text.split() for text in lines if re.match(r"\d+ ", text) and "links" not in text]
    assert [int(row[0]) for row in table] == list(core.SIZES[:14])
    assert {len(row) for row in table} == {7}
    assert [text for text in lines if re.match(r"\d+ |#", text) and len(text) > 80] == []
    json.dumps(benchmark_document(benchmark()))


def test_a_run_without_results_can_be_shown(capsys) -> None:
    empty = benchmark(code=1, rows=(), hosts=(), links=(), slow=(), left=(), left_why="")
    show_benchmark(empty)
    assert capsys.readouterr().out
    assert benchmark_document(empty)["sizes"] == []
