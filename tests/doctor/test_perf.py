"""What follows from measurements: one table, and the cases that must stay silent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ipexctl.doctor.checks import speed
from ipexctl.doctor.checks.registry import declared_checks, run_checks
from ipexctl.doctor.report.cluster import CheckedHosts
from ipexctl.facts.facts import Facts
from ipexctl.facts.reachability_facts import Peer
from ipexctl.facts.speed_facts import HostBench, Losses, MeasuredLink, Measurements
from tests import made
from tests.facts.machines import AMX, AVX2

CHECKS = declared_checks((speed,))
NAMES = ("n1", "n2", "n3", "n4")


def host(name: str, flags: str = AMX, boot: str = "") -> Facts:
    facts = made.facts(name)
    cpu = replace(facts.cpu, flags=frozenset(flags.split()))
    return replace(facts, cpu=cpu, boot_id=boot or f"boot of {name}")


def bench(name: str, **changes: Any) -> HostBench:
    good = HostBench(
        name,
        "ok",
        torch="2.13.0",
        threads=4,
        fp32=100.0,
        bf16=400.0,
        copy=20.0,
        onednn="Intel AVX-512 with bfloat16 support and Intel AMX with bfloat16",
    )
    return replace(good, **changes)


def ring(**rates: float) -> tuple[MeasuredLink, ...]:
    """Good links from each host to the next; `n1n2=1e8` changes one."""
    pairs = zip(NAMES, (*NAMES[1:], NAMES[0]), strict=True)
    return tuple(MeasuredLink(a, b, 1e-4, rates.get(a + b, 9.4e9)) for a, b in pairs)


def losses(**lost: int) -> Measurements:
    """Of 1,000 packets from each host to the next; `n1n2=9` of one."""
    pairs = zip(NAMES, (*NAMES[1:], NAMES[0]), strict=True)
    return Measurements(losses=tuple(Losses(a, b, 1000, lost.get(a + b, 0)) for a, b in pairs))


def seen(
    measured: Measurements, flags: str = AMX, boot: str = ""
) -> list[tuple[str, str, str, str]]:
    peers = tuple(Peer(a, b, "10.0.0.9", ok=True) for a in NAMES for b in NAMES if a != b)
    cluster = CheckedHosts(tuple(host(n, flags, boot) for n in NAMES), peers, measured=measured)
    return [(f.id, f.severity.value, f.host, f.evidence) for f in run_checks(CHECKS, cluster)]


def hosts(**changed: dict[str, Any]) -> Measurements:
    return Measurements(hosts=tuple(bench(n, **changed.get(n, {})) for n in NAMES))


AVX512_WORDS = "Intel AVX-512 with AVX512BW, AVX512VL, and AVX512DQ extensions"
HALF_MINUTE = "; 100 million gradients take 32 s"

FOUND = [
    (
        hosts(n2={"fp32": 60.0}),
        [("PERF-001", "warn", "n2", "fp32 60 GFLOP/s, median 100 of 4 hosts")],
    ),
    (
        hosts(n2={"copy": 10.0}),
        [("PERF-001", "warn", "n2", "memory copy 10 GB/s, median 20 of 4 hosts")],
    ),
    (
        hosts(**{n: {"bf16": 50.0} for n in NAMES}),
        [
            (
                "PERF-002",
                "warn",
                n,
                "bf16 50, fp32 100 GFLOP/s; amx_bf16, avx512_bf16 in /proc/cpuinfo",
            )
            for n in NAMES
        ],
    ),
    (
        hosts(n4={"onednn": AVX512_WORDS}),
        [("PERF-004", "warn", "n4", f"it says: {AVX512_WORDS}; the flags say amx")],
    ),
    (
        Measurements(links=ring(n1n2=1e8, n2n3=1e8)),
        [("PERF-005", "warn", "n2", f"with n[1,3]: 100 Mbit/s{HALF_MINUTE}")],
    ),
    (
        Measurements(links=ring(n3n4=1e8)),
        [("PERF-005", "warn", "n3", f"with n4: 100 Mbit/s{HALF_MINUTE}")],
    ),
    (
        Measurements(links=ring(n3n4=4e9)),
        [("PERF-005", "warn", "n3", "with n4: 4000 Mbit/s; 100 million gradients take 1 s")],
    ),
    (
        Measurements(links=(MeasuredLink("n1", "n2", 0.012, 9e9),)),
        [("PERF-006", "warn", "n1", "to n2: 12.0 ms")],
    ),
    (
        hosts(n3={"cpuinfo_mounted": True, "onednn": "Intel AVX2", "bf16": 90.0}),
        [
            ("PERF-001", "warn", "n3", "bf16 90 GFLOP/s, median 400 of 4 hosts"),
        ],
    ),
    (
        hosts(n1={"status": "failed", "why": "exit 1\nlibgomp"}, n2={"status": "late"}),
        [("PERF-008", "fail", "n1", "libgomp"), ("PERF-008", "warn", "n2", "late")],
    ),
    (
        Measurements(links=(MeasuredLink("n1", "n2", 1e-4, error="no answer in time"),)),
        [("PERF-009", "warn", "n1", "to n2: no answer in time")],
    ),
    (losses(n3n4=3), [("PERF-010", "warn", "n3", "with n4: 3 of 1000 lost")]),
    (
        losses(n1n2=9, n2n3=11, n4n1=2),
        [("PERF-010", "warn", "n2", "with n1: 9 of 1000 lost; with n3: 11 of 1000 lost")],
    ),
    (
        Measurements(losses=(Losses("n1", "n2", 1000, 10), Losses("n2", "n1", 1000, 0))),
        [("PERF-010", "warn", "n1", "with n2: 10 of 1000 lost")],
    ),
]


@pytest.mark.parametrize(("measured", "expected"), FOUND, ids=lambda v: "")
def test_one_trouble_gives_the_finding_it_deserves(measured, expected):
    assert seen(measured) == expected


def test_a_link_that_loses_large_packets_is_told_once():
    """NET-025 has told of it."""
    measured = Measurements(links=(MeasuredLink("n1", "n2", 1e-4, error="no answer in time"),))
    peers = (Peer("n1", "n2", "10.0.0.9", ok=True, lost=True),)
    assert (
        run_checks(CHECKS, CheckedHosts((host("n1"), host("n2")), peers, measured=measured)) == ()
    )


SLOW = {"fp32": 10.0, "bf16": 40.0}
HARMLESS = {
    "nothing measured": Measurements(),
    "all well": replace(hosts(), links=ring()),
    "a little slower": hosts(n2={"fp32": 75.0}),
    "two hosts tell nothing about each other": Measurements(
        hosts=(bench("n1"), bench("n2", **SLOW))
    ),
    "fewer threads": hosts(n2={"threads": 2, "fp32": 50.0, "bf16": 200.0}),
    "links so fast that Python is the limit": Measurements(
        links=ring(n1n2=30e9, n2n3=12e9, n3n4=6e9)
    ),
    "no torch yet": Measurements(hosts=tuple(HostBench(n, "no-torch") for n in NAMES)),
    "two packets lost by chance": losses(n1n2=2),
    "few packets lost of many": Measurements(losses=(Losses("n1", "n2", 10000, 20),)),
}


@pytest.mark.parametrize("measured", HARMLESS.values(), ids=HARMLESS)
def test_what_is_no_trouble_is_not_told(measured):
    assert seen(measured) == []


def test_containers_of_one_machine_may_differ():
    assert seen(hosts(n2=SLOW), boot="one machine") == []


def test_emulated_bf16_is_no_trouble_where_the_flags_promise_none():
    slow = {n: {"bf16": 3.0, "onednn": "Intel AVX2"} for n in NAMES}
    assert seen(hosts(**slow), flags=AVX2) == []


def test_every_check_of_this_family_has_a_case():
    assert {f[0] for _, expected in FOUND for f in expected} == {c.id for c in CHECKS}
