"""Checks that compare hosts: what differs, who is whose twin, clocks, who reaches whom."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, permutations

import pytest

from ipexctl.doctor.checks import all_checks, run_all
from ipexctl.doctor.checks.reachability import choose_peers
from ipexctl.doctor.report.cluster import CheckedHosts
from ipexctl.facts.clocks_facts import ClockFacts
from ipexctl.facts.cpu_facts import Cpu
from ipexctl.facts.pythons_facts import Python
from ipexctl.facts.reachability_facts import Peer
from tests import made
from tests.checks.cases import ONE_HOST
from tests.checks.hosts import (
    GIB,
    MIB,
    ROWS,
    Change,
    all_three,
    both,
    clean,
    findings,
    flags,
    nfs,
    part,
    python,
    seen,
    state,
    three,
    two_nodes,
    whole,
)
from tests.facts.machines import AVX512

_SMT = tuple(Cpu(i, i % 4, 0, 0) for i in range(8))
_HOME = clean().home_disk
assert _HOME


def on_nfs(**changes: int) -> Change:
    return whole(home_disk=nfs(_HOME), **changes)


# node02 is the one that is changed
DIFFERS = [
    (
        part("cpu", arch="aarch64", vendor="0x41", flags=frozenset({"sve", "svebf16"})),
        [
            ("UNI-001", "fail", "", "x86_64 on node[01,03]; aarch64 on node02"),
            ("UNI-002", "warn", "", "amx on node[01,03]; sve-bf16 on node02"),
        ],
    ),
    (
        flags(AVX512 + " avx512_bf16"),
        [("UNI-002", "warn", "", "amx on node[01,03]; avx512-bf16 on node02")],
    ),
    (
        flags(AVX512 + " hypervisor", model=143),
        [
            ("UNI-002", "warn", "", "amx on node[01,03]; avx512 on node02"),
            ("CPU-005", "note", "node02", "Sapphire Rapids has amx, only avx512 is shown in a "
             "virtual machine"),
        ],
    ),
    (
        both(part("cpu", cpus=made.cpu(cores=8).cpus), whole(nodes=())),
        [("UNI-003", "note", "", "4 cores on node[01,03]; 8 cores on node02")],
    ),
    (
        whole(pythons=python(12)),
        [("UNI-004", "warn", "", "3.11 on node[01,03]; 3.12 on node02")],
    ),
    (
        whole(libc="musl"),
        [("SYS-001", "fail", "node02", "musl")],
    ),
    (
        part("cpu", microcode="0x2b000001"),
        [("UNI-007", "note", "", "0x2b000603 on node[01,03]; 0x2b000001 on node02")],
    ),
    (
        whole(kernel="Linux 6.8.0"),
        [("UNI-008", "note", "", "Linux 6.1.0-18-amd64 on node[01,03]; Linux 6.8.0 on node02")],
    ),
    (
        part("mem", total=12 * GIB),
        [("UNI-010", "note", "", "16 GiB on node[01,03]; 12 GiB on node02")],
    ),
    (
        part("mem", limit=8 * GIB),
        [("UNI-010", "note", "", "16 GiB on node[01,03]; 8.0 GiB on node02")],
    ),
    (
        part("mem", total=64 * GIB),
        [("UNI-010", "warn", "", "16 GiB on node[01,03]; 64 GiB on node02")],
    ),
    (
        both(two_nodes(), part("cpu", cpus=tuple(Cpu(i, i, i // 2, i // 2) for i in range(4)))),
        [("UNI-012", "note", "", "1 nodes on node[01,03]; 2 nodes on node02")],
    ),
    (
        whole(user="hpc"),
        [("UNI-013", "note", "", "trainer on node[01,03]; hpc on node02")],
    ),
    (
        on_nfs(),
        [("HOME-003", "warn", "", "a local disk on node[01,03]; filer:/home on node02")],
    ),
    (
        part("net", hostname="node01"),
        [("HOST-003", "warn", "", "node01 on node[01-02]")],
    ),
    (
        whole(boot_id="boot-1"),
        [("HOST-001", "warn", "", "node[01-02]")],
    ),
    (
        both(whole(boot_id="boot-1"), state("system", netns=5)),
        [("HOST-002", "note", "", "node[01-02]")],
    ),
    (
        whole(kernel="Linux 6.6.87.2-microsoft-standard-WSL2"),
        [
            ("SYS-008", "warn", "node02", "Linux 6.6.87.2-microsoft-standard-WSL2"),
            (
                "UNI-008", "note", "",
                "Linux 6.1.0-18-amd64 on node[01,03]; "
                "Linux 6.6.87.2-microsoft-standard-WSL2 on node02",
            ),
        ],
    ),
    (
        whole(clock=ClockFacts(-7.0, 0.01)),
        [("CLOCK-001", "warn", "node02", "7.0 s behind the other hosts (±0.010 s)")],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("change", "expected"), DIFFERS, ids=[e[0][0] for _, e in DIFFERS])
def test_a_host_that_differs_from_the_others_is_named(change, expected):
    assert seen(*three(node02=change)) == expected


ALIKE = [
    (
        both(on_nfs(), whole(disk=nfs(clean().disk))),
        ["DISK-005"] * 3,
    ),
    (on_nfs(), []),
    (part("cpu", cpus=_SMT), []),
    (state("power", governors=("performance",)), []),
]


@pytest.mark.parametrize(("change", "expected"), ALIKE)
def test_what_is_alike_everywhere_is_compared_without_a_word(change, expected):
    assert sorted(f[0] for f in seen(*all_three(change))) == sorted(expected)


def test_user_ids_matter_where_homes_are_shared():
    hosts = three(node01=on_nfs(), node02=on_nfs(uid=1001), node03=on_nfs())
    expected = "user ids: 1000 on node[01,03]; 1001 on node02"
    assert seen(*hosts) == [("UNI-013", "warn", "", expected)]


def test_an_old_glibc_is_told_with_the_rows_that_still_run_on_it():
    rows = (replace(ROWS[0], glibc=(2, 39)), replace(ROWS[0], name="old", glibc=(2, 17)))
    (found,) = run_all(CheckedHosts((clean(),), rows=rows))
    assert (found.id, found.severity.value) == ("SYS-002", "note")
    assert found.evidence.startswith("glibc 2.36: ") and found.evidence.endswith(" old")


def test_ten_per_cent_of_memory_make_no_difference():
    assert seen(*three(node02=part("mem", total=15 * GIB))) == []


def test_a_python_that_all_have_is_enough():
    several = (*python(12), Python("/usr/bin/python3.11", (3, 11)))
    assert seen(*three(node02=whole(pythons=several))) == []


def test_when_only_this_machines_clock_is_wrong_no_host_is_blamed():
    assert seen(*all_three(whole(clock=ClockFacts(600.0, 0.01)))) == []


def test_ids_and_severities_order_the_findings():
    worst_last = three(node01=part("cpu", quota=1.0), node03=whole(pythons=()))
    assert [(f[0], f[1]) for f in seen(*worst_last)] == [("PY-001", "fail"), ("CORE-003", "warn")]


def test_a_host_with_all_troubles_at_once_breaks_no_check():
    """Changes on top of each other give facts that no single case has."""
    facts = clean()
    for case in ONE_HOST:
        if case.id != "PY-001":
            facts = case.change(facts)
    found = findings(replace(facts, mem=replace(facts.mem, shm_free=MIB)), clean("node02"))
    assert len({f.id for f in found}) > 30
    assert all(f.evidence and f.why and f.fix for f in found)


def test_every_check_of_these_families_has_a_case():
    """The other families have theirs beside their own tests."""
    ids = {c.id for c in all_checks() if c.family not in ("NET", "SOFT", "MPI", "PERF")}
    cases = {c.id for c in ONE_HOST} | {e[0] for _, found in DIFFERS for e in found}
    assert ids <= cases


# --- who reaches whom ----------------------------------------------------------------------------


def _mesh(*bad: tuple[str, str]) -> tuple[Peer, ...]:
    names = ("node01", "node02", "node03")
    return tuple(
        Peer(a, b, f"10.0.0.{b[-1]}", (a, b) not in bad, "refused" if (a, b) in bad else "")
        for a, b in permutations(names, 2)
    )


@pytest.mark.parametrize(
    ("bad", "expected"),
    [
        ((), []),
        ((("node01", "node02"),), [("NET-003", "fail", "node01", "to node02: refused")]),
        (
            (("node01", "node02"), ("node03", "node02")),
            [("NET-002", "fail", "node02", "node[01,03] to 10.0.0.2: refused")],
        ),
        (
            (("node01", "node02"), ("node01", "node03")),
            [("NET-003", "fail", "node01", "to node[02-03]: refused")],
        ),
    ],
)
def test_a_connection_that_fails_is_told_once_and_where_it_belongs(bad, expected):
    assert seen(*three(), peers=_mesh(*bad)) == expected


@pytest.mark.parametrize(
    ("bad", "error", "behind", "looks"),
    [
        ([("node01", "node02"), ("node01", "node03")], "no answer in 2 s", (), ["node01"]),
        ([("node01", "node02"), ("node03", "node02")], "no answer in 2 s", (), ["node02"]),
        ([("node01", "node02")], "no answer in 2 s", (), ["node02", "node01"]),
        ([("node01", "node02")], "no answer in 2 s", ("node01",), ["node01"]),
        ([("node01", "node02")], "no answer in 2 s", ("node02",), ["node02"]),
        ([("node01", "node02")], "no answer in 2 s", ("node01", "node02"), ["node02", "node01"]),
        ([("node01", "node02")], "Operation not permitted", ("node02",), ["node01"]),
    ],
)
def test_the_firewall_to_look_at_is_that_of_the_end_that_the_failures_share(
    bad, error, behind, looks
):
    mesh = tuple(p if p.ok else replace(p, error=error) for p in _mesh(*bad))
    hosts = three(**{name: part("net", firewalls=("nftables",)) for name in behind})
    first = next(f for f in findings(*hosts, peers=mesh) if f.id in ("NET-002", "NET-003"))
    parts = first.fix.alternatives[0]
    rules = [before for before, p in pairwise(parts) if str(p) == "sudo nft list ruleset"]
    assert [str(text).strip(" :").removeprefix("on ") for text in rules] == looks


def test_hosts_that_are_reached_at_one_address_are_told_so_and_no_firewall_is_blamed():
    """Each of them tries itself in place of the other, as containers do behind forwarded ports."""
    nics = tuple(replace(n, addresses=("10.0.0.1",)) for n in clean().net.nics)
    same = part("net", ssh_address="10.0.0.1", hostname_addresses=("10.0.0.1",), nics=nics)
    bad = tuple(
        replace(p, address="10.0.0.1" if p.target == "node02" else p.address, ok="node03" in pair)
        for p in _mesh()
        for pair in ((p.source, p.target),)
    )
    found = findings(*three(node02=same), peers=bad)
    assert [(f.id, f.severity.value, f.evidence) for f in found] == [
        ("NET-012", "fail", "10.0.0.1 is eth0 on node[01-02]")
    ]
    assert "one machine" in str(found[0].fix)
    twice = both(same, whole(boot_id="boot-1"))
    assert [f[0] for f in seen(*three(node02=twice), peers=bad)] == ["HOST-001"]


def test_small_clusters_try_all_pairs():
    assert choose_peers(["a", "b", "c"]) == {"a": ("b", "c"), "b": ("a", "c"), "c": ("a", "b")}
    assert choose_peers(["a"]) == {"a": ()}


@pytest.mark.parametrize("count", [33, 34, 100, 1000])
def test_large_clusters_try_a_ring_and_three_more_each(count):
    names = [f"n{i}" for i in range(count)]
    plan = choose_peers(names)
    assert {len(set(targets) - {name}) for name, targets in plan.items()} == {4}
    assert [plan[name][0] for name in names] == [*names[1:], names[0]]
    reached = [t for targets in plan.values() for t in targets]
    assert {reached.count(name) for name in names[:10]} == {4}
    assert choose_peers(names) == plan


def test_the_load_of_a_machine_that_is_several_hosts_is_no_finding():
    """Practice hosts: asking one is load for the others."""
    loaded = state("load", average=(9.0, 9.0, 9.0), busy=4.0)
    same = both(loaded, whole(boot_id="one"))
    assert "LOAD-001" in {f[0] for f in seen(*all_three(loaded))}
    assert "LOAD-001" not in {f[0] for f in seen(*all_three(same))}
