"""bench allreduce on practice hosts with the real torch: the slow link is named, and only that."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ipexctl.lab import Lab
from tests.cli import Ended, ipexctl

SHORT = ("--time", "6s", "--max-size", "1M")


@pytest.fixture
def slow_lab(installed_lab: Lab) -> Iterator[Lab]:
    """What node02 sends is held to 40 Mbit/s, for as long as a test needs it."""
    qdisc = ("dev", "ens3", "root")
    rate = ("tbf", "rate", "40mbit", "burst", "50000", "latency", "400ms")
    done = installed_lab.run_in("node02", ["tc", "qdisc", "replace", *qdisc, *rate])
    assert done.returncode == 0, done.stderr
    try:
        yield installed_lab
    finally:
        installed_lab.run_in("node02", ["tc", "qdisc", "del", *qdisc])


def bench(lab: Lab, cwd: Path, *words: str) -> Ended:
    reach = ("-f", str(lab.hostfile), "-F", str(lab.ssh_config))
    return ipexctl("bench", "allreduce", *reach, *words, cwd=cwd)


def test_the_slow_link_is_named_and_the_rates_are_below_it(slow_lab: Lab, tmp_path: Path) -> None:
    done = bench(slow_lab, tmp_path, *SHORT, "--json")
    document = json.loads(done.stdout)
    assert (done.returncode, document["exit_code"]) == (1, 1), done.stderr
    assert [(p["kind"], p["slug"], p["host"]) for p in document["slow"]] == [
        ("link", "slow-link", "node02")
    ]
    assert (document["ranks"], document["backend"]) == (3, "gloo")
    rates = {link["source"] + link["target"]: link["rate"] for link in document["links"]}
    assert len(rates) == 3 and min(rates.values()) < 45e6
    assert {(h["host"], h["ranks"]) for h in document["hosts"]} == {(n, 1) for n in slow_lab.hosts}
    assert all(h["gflops"] > 0.1 for h in document["hosts"])
    sizes = {row["size"]: row for row in document["sizes"]}
    assert 4 in sizes, "on a machine that is busy the larger ones may not fit into the time"
    for row in sizes.values():
        assert row["min_us"] <= row["average_us"] <= row["max_us"]
        assert row["iterations"] >= 1
        # what a full bucket lets pass at once is more than the rate
        assert row["bus_bits_per_second"] < 80e6


def test_hosts_with_equal_links_have_no_slow_part_and_the_screen_says_so(
    installed_lab: Lab, tmp_path: Path
) -> None:
    """Again and again, with other folders in the current one, without a terminal."""
    (tmp_path / "allreduce_bench.py").write_text("raise SystemExit('this one is not ours')\n")
    for _ in range(2):
        done = bench(installed_lab, tmp_path, *SHORT, "-x", "node03", "--max-size", "64k")
        assert done.returncode == 0, done.stdout + done.stderr
        table = [t.split() for t in done.stdout.splitlines() if t[:1].isdigit() and "link" not in t]
        assert [int(row[0]) for row in table] == [4**k for k in range(1, len(table) + 1)] != []
        assert "\x1b" not in done.stdout + done.stderr


def test_a_missing_backend_is_named(installed_lab: Lab, tmp_path: Path) -> None:
    done = bench(installed_lab, tmp_path, "--backend", "ccl", "-l", "node01,node02", "--json")
    assert [e["slug"] for e in json.loads(done.stdout)["errors"]] == ["no-ccl"], done.stderr


@pytest.mark.parametrize(
    ("words", "slug"),
    [
        (("-H", "node01"), "one-rank"),
        (("-H", "node01,node02", "--backend", "nccl"), "unknown-value"),
        (("-H", "node01,node02", "--max-size", "3"), "size-invalid"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_any_host_is_asked(
    tmp_path: Path, words: tuple[str, ...], slug: str
) -> None:
    done = ipexctl("bench", "allreduce", *words, cwd=tmp_path)
    assert (done.returncode, done.slug) == (2, slug)
