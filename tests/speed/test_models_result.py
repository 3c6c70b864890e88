"""bench models: what ranks print becomes a table; a wrong result is no gain, a gap has a reason."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipexctl.bench import models_result as core
from ipexctl.bench.command.models_text import document, show
from ipexctl.bench.models_result import MARK, Heard, Key, ModelRow, fastest, machines, rows
from ipexctl.doctor.report.cluster import Cluster
from ipexctl.errors import InputError
from ipexctl.facts.facts import Facts
from ipexctl.in_ranks import models_bench
from tests import made

NAMES = ("n1", "n2")
BASE = Key("bert", "training", "fp32", "eager", 1)


def line(kind: str, key: Key = BASE, **fields: Any) -> str:
    about = {name: getattr(key, name) for name in ("model", "work", "precision", "engine", "hosts")}
    return MARK + json.dumps({"kind": kind, **about, **fields})


def host(name: str, boot: str = "") -> Facts:
    return replace(made.facts(name), boot_id=boot or f"boot of {name}")


CLUSTER = Cluster(tuple(map(host, NAMES)))
ONE_MACHINE = Cluster(tuple(host(name, "1") for name in NAMES))


def heard(*measured: tuple[Key, tuple[float, ...]], error: float = 0.0, **turn: Any) -> Heard:
    """Rates by configuration; all have the same error."""
    found = Heard(2)
    for key, rates in measured:
        found.add(0, line("check", key, error=error, same=1.0))
        for rate in rates:
            for rank in range(key.hosts):
                found.add(rank, line("turn", key, samples=rate * 2, seconds=2.0, **turn))
    return found


def table(found: Heard, cluster: Cluster = CLUSTER) -> dict[Key, ModelRow]:
    return {row.key: row for row in rows(found, cluster, NAMES)}


def test_a_row_is_the_median_of_its_rounds_with_half_of_the_interquartile_range() -> None:
    bf16 = replace(BASE, precision="bf16")
    two = replace(bf16, hosts=2)
    rounds = ((BASE, (10.0, 12.0, 11.0, 30.0, 10.0)), (bf16, (22.0,)), (two, (33.0,)))
    found = table(heard(*rounds))
    row = found[BASE]
    assert (row.rate, row.spread, row.rounds, row.ratio) == (11.0, 1.0, 5, 1.0)
    assert (found[bf16].spread, found[bf16].ratio, found[bf16].scaling) == (None, 2.0, None)
    assert (found[two].ratio, found[two].scaling) == (3.0, 0.75)
    assert {row.state for row in found.values()} == {"ok"}


WRONG = [
    ("bert", "training", "bf16", 0.06, 1.0),
    ("resnet50", "training", "bf16", 0.51, 1.0),
    ("bert", "inference", "int8", 0.1, 0.7),
    ("bert", "inference", "fp32", 0.01, 1.0),
    ("bert", "inference", "bf16", float("nan"), 1.0),
    ("bert", "inference", "bf16", None, 1.0),
    ("bert", "inference", "bf16", -1.0, 1.0),
]
RIGHT = [
    ("resnet50", "training", "bf16", 0.43, 1.0),
    ("bert", "training", "bf16", 0.04, 0.75),
    ("bert", "inference", "int8", 0.1, 0.9),
]


@pytest.mark.parametrize(
    ("case", "state"), [*((c, "wrong") for c in WRONG), *((c, "ok") for c in RIGHT)]
)
def test_a_result_beyond_the_limit_is_wrong_and_its_speed_is_no_gain(case: Any, state: str) -> None:
    model, work, precision, error, same = case
    base, key = (Key(model, work, kind, "eager", 1) for kind in ("fp32", precision))
    key = replace(key, engine="compile") if precision == "fp32" else key
    found = heard((base, (10.0,)), (key, (50.0,)))
    found.add(0, line("check", key, error=error, same=same))
    row = table(found)[key]
    assert (row.state, row.ratio) == (state, 5.0 if state == "ok" else None)
    assert [r.key for r in fastest(rows(found, CLUSTER, NAMES))] == [key if row.ratio else base]
    benchmark = done(found)
    assert benchmark.exit_code == int(state == "wrong")


@pytest.mark.parametrize(
    ("other", "best"),
    [((10.4,), "fp32"), ((10.6,), "bf16"), ((7.0, 12.0, 17.0), "fp32"), ((8.0,), "fp32")],
)
def test_less_than_the_spread_is_no_gain(other: tuple[float, ...], best: str, capsys) -> None:
    found = heard((BASE, (10.0, 10.0)), (replace(BASE, precision="bf16"), other))
    (row,) = fastest(rows(found, CLUSTER, NAMES))
    assert row.key.precision == best
    show(done(found))
    assert ("is the fastest" in capsys.readouterr().out) is (best == "bf16")


@pytest.mark.parametrize("why", core.MISSING)
def test_what_is_not_measured_has_its_reason(why: str) -> None:
    key = replace(BASE, engine="compile")
    found = heard((BASE, (1.0,)))
    found.add(0, line("left", key, why=why, text="bad\x1b[2J"))
    row = table(found)[key]
    assert (row.state, row.why, row.rate, "\x1b" in row.text) == ("not-measured", why, None, False)
    assert done(found).exit_code == 0


DISTURBED = [
    ({"others": 0.4}, {"busy"}),
    ({"others": 0.1}, set()),
    ({"stolen": 0.2}, {"stolen"}),
    ({"throttled": 1.0}, {"cpu-quota"}),
    ({"heat": 2}, {"throttled"}),
    ({"others": None, "stolen": "x", "heat": -1}, set()),
]


@pytest.mark.parametrize(("turn", "slugs"), DISTURBED)
def test_a_host_that_something_else_slowed_down_is_named(turn: Any, slugs: set[str]) -> None:
    two = replace(BASE, hosts=2)
    found = table(heard((BASE, (1.0, 1.0)), (two, (2.0, 2.0)), **turn))
    assert {d.slug for d in found[BASE].disturbed} == slugs
    assert {(d.host, d.slug) for d in found[two].disturbed} == {
        (h, s) for h in NAMES for s in slugs
    }


def test_hosts_of_one_machine_are_not_each_others_disturbance() -> None:
    two = replace(BASE, hosts=2)
    found = table(heard((BASE, (1.0,)), (two, (2.0,)), others=0.5), ONE_MACHINE)
    assert [d.slug for d in found[BASE].disturbed] == ["busy"]
    assert found[two].disturbed == ()


def test_onednn_says_its_instruction_set_in_its_own_words() -> None:
    found = Heard(2)
    assert found.add(1, "onednn_verbose,v1,info,cpu,isa:Intel AVX-512 with Intel DL Boost\x1b")
    assert not found.add(1, "onednn_verbose,v1,info,cpu,runtime:OpenMP,nthr:2")
    first, second = machines(found, CLUSTER, NAMES)
    assert (first.onednn, second.onednn_level) == ("", "avx512")
    assert first.cores and first.isa


ODD = [
    "", "null", "[]", "[" * 3000, "{}", '{"kind": []}', '{"kind": "turn"}', '{"kind": "model"}',
    line("turn", samples=1, seconds=0)[len(MARK) :],
    line("turn", samples=1e308, seconds=1e-308)[len(MARK) :],
    line("turn", replace(BASE, hosts=3), samples=1, seconds=1)[len(MARK) :],
    line("turn", replace(BASE, model="[]"), samples=1, seconds=1)[len(MARK) :],
    line("left", why="because")[len(MARK) :],
]  # fmt: skip


@pytest.mark.parametrize("text", ODD)
def test_nonsense_of_a_rank_is_no_number(text: str) -> None:
    found = Heard(2)
    assert found.add(0, MARK + text)
    assert (found.rates, found.checks, found.left, found.sizes) == ({}, {}, {}, {})


@given(st.text(), st.integers())
def test_no_line_of_a_rank_is_a_bug_of_ours(text: str, rank: int) -> None:
    found = Heard(2)
    assert found.add(rank, MARK + text)
    assert not found.add(rank, f"x{text}")


def test_both_sides_agree() -> None:
    assert models_bench.MARK == MARK
    assert models_bench.WORKS == core.WORKS
    assert set(models_bench.SIZES) == set(models_bench.SMALL) == set(core.MODELS)
    for name in core.MODELS:
        for config in models_bench.configurations(name, core.PRECISIONS, 5):
            assert core._key({"model": name, **config.row()})


@pytest.mark.parametrize(("world", "expected"), [(1, []), (2, [2]), (5, [2, 4, 5]), (8, [2, 4, 8])])
def test_hosts_are_doubled_up_to_all_of_them(world: int, expected: list[int]) -> None:
    assert models_bench.counts(world) == expected


def test_names_are_in_one_order_and_others_are_refused() -> None:
    assert core.read_names("--precision", "int8,fp32, bf16", core.PRECISIONS) == core.PRECISIONS
    with pytest.raises(InputError) as raised:
        core.read_names("--models", "bert,gpt", core.MODELS)
    assert raised.value.slug == "unknown-value"


# --- what is printed -----------------------------------------------------------------------------


def done(found: Heard, code: int = 0) -> core.ModelsBenchmark:
    return core.ModelsBenchmark(
        "id", code, "2.13.0", None, True, {"bert": (2, 64, 2), "resnet50": (2, 64, 50)},
        rows(found, CLUSTER, NAMES), machines(found, CLUSTER, NAMES), True, 80.0,
    )  # fmt: skip


def test_the_screen_fits_80_columns(capsys, monkeypatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    keys = [
        Key(model, work, precision, engine, hosts)
        for model in core.MODELS
        for work in core.WORKS
        for precision in core.PRECISIONS
        for engine in core.ENGINES
        for hosts in (1, 2)
    ]
    found = heard(*((key, (123456.7, 123000.0, 99.0)) for key in keys), error=0.049, others=0.9)
    found.add(0, line("check", keys[-1], error=9.0, same=0.0))
    for why in core.MISSING:
        found.add(0, line("left", replace(BASE, engine="ipex"), why=why, text="x"))
    show(done(found))
    out = capsys.readouterr().out
    assert [text for text in out.splitlines() if len(text) > 80] == []
    assert len([t for t in out.splitlines() if t.startswith(core.WORKS)]) == len(keys)
    json.dumps(document(done(found)))


@pytest.mark.parametrize("code", [1, 130])
def test_a_run_without_results_can_be_shown(code: int, capsys) -> None:
    empty = replace(done(Heard(0), code), machines=(), sizes={})
    show(empty)
    assert capsys.readouterr().out
    assert (document(empty)["rows"], empty.exit_code) == ([], code)
