"""Each check sees what it is for, on facts that are otherwise those of a clean host."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ipexctl.core.checks import catalogue, page, run_all
from ipexctl.core.checks.cluster import Cluster, install_command, size
from ipexctl.core.checks.network import pairs
from ipexctl.core.model import ClockFacts, Facts, Peer, Python, Severity
from tests import made
from tests.facts.machines import AMX, AVX2, AVX512

ROOT = Path(__file__).parent.parent
GIB = 1 << 30
Change = Callable[[Facts], Facts]


def clean(name: str = "node01", address: str = "10.0.0.1") -> Facts:
    facts = made.facts(name, address=address)
    cpu = replace(facts.cpu, flags=frozenset(AMX.split()))
    return replace(facts, cpu=cpu, net=replace(facts.net, hostname_addresses=(address,)))


def part(name: str, **changes: Any) -> Change:
    """A change of one part of the facts: cpu, mem, disk, net."""
    return lambda facts: replace(facts, **{name: replace(getattr(facts, name), **changes)})


def flags(text: str) -> Change:
    return part("cpu", flags=frozenset(text.split()))


def whole(**changes: Any) -> Change:
    return lambda facts: replace(facts, **changes)


def three(**changed: Change) -> tuple[Facts, ...]:
    """node01 to node03, with a change where one is named."""
    hosts = (clean(f"node{i:02d}", f"10.0.0.{i}") for i in (1, 2, 3))
    return tuple(changed.get(f.host, lambda f: f)(f) for f in hosts)


def seen(*hosts: Facts, peers: tuple[Peer, ...] = ()) -> list[tuple[str, str, str, str]]:
    found = run_all(Cluster(hosts, peers))
    return [(f.id, f.severity.value, f.host, f.evidence) for f in found]


def old(minor: int) -> tuple[Python, ...]:
    return (Python("/usr/bin/python3", (3, minor)),)


def test_clean_hosts_give_no_finding_at_all():
    assert seen(*three()) == []
    assert seen(clean()) == []


def test_a_host_that_tells_nothing_gives_no_finding_but_python():
    nothing = replace(made.cpu(), flags=frozenset(), cpus=(), arch="", allowed=None)
    unknown = dict.fromkeys(("total", "available", "swap_total", "shm_total", "shm_free"))
    facts = part("mem", **unknown)(replace(clean(), cpu=nothing, clock=None, libc="", pythons=()))
    facts = part("disk", free=None, free_inodes=None, noexec=None, writable=None)(facts)
    assert [f[0] for f in seen(facts)] == ["PY-001"]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            flags("sse sse2"),
            ("CPU-001", "fail", "Made CPU: no avx2, fma in /proc/cpuinfo"),
        ),
        (
            flags(AVX2),
            ("CPU-002", "warn", "Made CPU: no avx512_bf16, amx_bf16 in /proc/cpuinfo"),
        ),
        (
            flags(AVX512),
            ("CPU-002", "note", "Made CPU: no avx512_bf16, amx_bf16 in /proc/cpuinfo"),
        ),
        (
            part("cpu", arch="aarch64", flags=frozenset({"asimd"})),
            ("CPU-003", "note", "architecture aarch64"),
        ),
        (part("cpu", allowed=(0, 1)), ("CORE-001", "note", "2 of 4 CPUs that are online")),
        (
            part("cpu", cpus=made.cpu(cores=1).cpus),
            ("CORE-002", "warn", "CPU 0 of 1 online"),
        ),
        (
            part("cpu", quota=1.5),
            ("CORE-003", "warn", "cgroup quota of 1.5 CPUs on 4 CPUs"),
        ),
        (part("mem", available=1 * GIB), ("MEM-001", "warn", "1.0 GiB available")),
        (part("mem", available=100 << 20), ("MEM-001", "fail", "100 MiB available")),
        (part("mem", limit=256 << 20), ("MEM-001", "fail", "256 MiB allowed by the cgroup")),
        (
            part("mem", shm_total=64 << 10, shm_free=64 << 10),
            ("SHM-001", "fail", "64 KiB in all"),
        ),
        (
            part("mem", shm_total=64 << 20, shm_free=64 << 20),
            ("SHM-001", "warn", "64 MiB in all"),
        ),
        (part("mem", shm_free=1 << 20), ("SHM-002", "warn", "1 MiB free of 8.0 GiB")),
        (
            part("disk", writable=False),
            (
                "DISK-001",
                "fail",
                "/home/trainer/.ipexctl (ext4): no permission for trainer, or mounted read-only",
            ),
        ),
        (
            part("disk", noexec=True),
            ("DISK-002", "fail", "/home/trainer/.ipexctl (ext4): mounted noexec"),
        ),
        (
            part("disk", free=200 << 20),
            ("DISK-003", "fail", "/home/trainer/.ipexctl (ext4): 200 MiB free"),
        ),
        (
            part("disk", free=3 * GIB),
            ("DISK-003", "warn", "/home/trainer/.ipexctl (ext4): 3.0 GiB free"),
        ),
        (
            part("disk", free_inodes=12),
            ("DISK-004", "fail", "/home/trainer/.ipexctl (ext4): 12 inodes free"),
        ),
        (
            whole(pythons=()),
            (
                "PY-001",
                "fail",
                "not in PATH, /usr/bin, /usr/local/bin, /opt/*/bin, ~/.pyenv or conda",
            ),
        ),
        (
            whole(pythons=old(6)),
            ("PY-002", "fail", "the newest is /usr/bin/python3, 3.6"),
        ),
        (
            whole(clock=ClockFacts(3600.0, 0.01)),
            ("CLOCK-001", "warn", "60 min ahead of this machine (±0.010 s)"),
        ),
        (
            whole(clock=ClockFacts(-5.0, 1.0)),
            ("CLOCK-001", "warn", "5.0 s behind this machine (±1.000 s)"),
        ),
    ],
)
def test_one_host_with_one_trouble_gives_one_finding(change, expected):
    number, severity, evidence = expected
    assert seen(change(clean())) == [(number, severity, "node01", evidence)]


@pytest.mark.parametrize(
    "change",
    [
        part("cpu", quota=4.0),
        part("mem", limit=2 * GIB),
        part("disk", free=4 * GIB),
        whole(pythons=(*old(6), Python("/opt/py/bin/python3.12", (3, 12, 1)))),
        whole(clock=ClockFacts(3.0, 1.5)),
        part("net", hostname_addresses=("127.0.1.1",)),
    ],
)
def test_what_does_no_harm_to_one_host_is_no_finding(change):
    assert seen(change(clean())) == []


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (
            part("net", hostname_addresses=("127.0.1.1",)),
            [("NET-001", "warn", "node02", "node02 resolves to 127.0.1.1")],
        ),
        (
            part("cpu", arch="aarch64", flags=frozenset({"sve", "svebf16"})),
            [
                ("UNI-001", "fail", "", "x86_64 on node[01,03]; aarch64 on node02"),
                ("UNI-002", "warn", "", "amx on node[01,03]; sve-bf16 on node02"),
                ("CPU-003", "note", "node02", "architecture aarch64"),
            ],
        ),
        (
            flags(AVX512 + " avx512_bf16"),
            [("UNI-002", "warn", "", "amx on node[01,03]; avx512-bf16 on node02")],
        ),
        (
            part("cpu", cpus=made.cpu(cores=8).cpus),
            [("UNI-003", "note", "", "4 cores on node[01,03]; 8 cores on node02")],
        ),
        (
            whole(pythons=old(9)),
            [("UNI-004", "warn", "", "3.11 on node[01,03]; 3.9 on node02")],
        ),
        (
            whole(libc="glibc 2.28"),
            [("UNI-005", "note", "", "glibc 2.36 on node[01,03]; glibc 2.28 on node02")],
        ),
        (
            whole(libc="musl"),
            [("UNI-005", "warn", "", "glibc 2.36 on node[01,03]; musl on node02")],
        ),
        (
            whole(clock=ClockFacts(-7.0, 0.01)),
            [("CLOCK-001", "warn", "node02", "7.0 s behind the other hosts (±0.010 s)")],
        ),
    ],
)
def test_a_host_that_differs_from_the_others_is_named(changed, expected):
    assert seen(*three(node02=changed)) == expected


def test_a_python_that_all_have_is_enough():
    both = (*old(9), Python("/usr/bin/python3.11", (3, 11)))
    assert seen(*three(node02=whole(pythons=both))) == []


def test_when_only_this_machines_clock_is_wrong_no_host_is_blamed():
    late = whole(clock=ClockFacts(600.0, 0.01))
    assert seen(*three(node01=late, node02=late, node03=late)) == []


def test_ids_and_severities_order_the_findings():
    worst_last = three(node01=part("cpu", quota=1.0), node03=whole(pythons=()))
    assert [(f[0], f[1]) for f in seen(*worst_last)] == [("PY-001", "fail"), ("CORE-003", "warn")]


# --- who reaches whom ----------------------------------------------------------------------------


def _mesh(*bad: tuple[str, str]) -> tuple[Peer, ...]:
    names = ("node01", "node02", "node03")
    return tuple(
        Peer(a, b, f"10.0.0.{b[-1]}", (a, b) not in bad, "refused" if (a, b) in bad else "")
        for a in names
        for b in names
        if a != b
    )


@pytest.mark.parametrize(
    ("bad", "expected"),
    [
        ((), []),
        (
            (("node01", "node02"),),
            [("NET-003", "fail", "node01", "to node02: refused")],
        ),
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


def test_small_clusters_try_all_pairs():
    assert pairs(["a", "b", "c"]) == {"a": ("b", "c"), "b": ("a", "c"), "c": ("a", "b")}
    assert pairs(["a"]) == {"a": ()}


@pytest.mark.parametrize("count", [33, 34, 100, 1000])
def test_large_clusters_try_a_ring_and_three_more_each(count):
    names = [f"n{i}" for i in range(count)]
    plan = pairs(names)
    assert {len(set(targets) - {name}) for name, targets in plan.items()} == {4}
    assert [plan[name][0] for name in names] == [*names[1:], names[0]]
    reached = [t for targets in plan.values() for t in targets]
    assert {reached.count(name) for name in names[:10]} == {4}
    assert pairs(names) == plan


# --- texts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (("ubuntu", "debian"), "sudo apt-get install -y p-deb"),
        (("rocky", "rhel", "centos", "fedora"), "sudo dnf install -y p-rpm"),
        (("opensuse-leap", "suse", "opensuse"), "sudo zypper install -y p-suse"),
    ],
)
def test_a_package_is_named_as_the_distribution_does(ids, expected):
    facts = replace(clean(), os_ids=ids)
    assert install_command(facts, debian="p-deb", rhel="p-rpm", suse="p-suse") == expected


def test_an_unknown_distribution_gets_all_three():
    text = install_command(clean(), debian="a", rhel="b", suse="c")
    assert [line.split()[1] for line in text.splitlines()] == ["apt-get", "dnf", "zypper"]


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (64 << 10, "64 KiB"),
        (512 << 20, "512 MiB"),
        (3 * GIB // 2, "1.5 GiB"),
        (503 * GIB, "503 GiB"),
    ],
)
def test_sizes_are_for_people(count, expected):
    assert size(count) == expected


def test_every_finding_says_what_why_and_what_to_do():
    broken = three(
        node01=flags("sse"),
        node02=lambda f: whole(pythons=old(6), clock=ClockFacts(9e9, 0))(
            part("mem", available=1, shm_total=1, shm_free=1)(
                part("disk", writable=False, noexec=True, free=1, free_inodes=1)(f)
            )
        ),
        node03=part("cpu", quota=0.5, allowed=(1,)),
    )
    for finding in run_all(Cluster(broken, _mesh(("node01", "node02")))):
        assert all((finding.title, finding.evidence, finding.why, finding.fix)), finding.id


def test_the_page_of_checks_is_what_the_code_declares():
    text = (ROOT / "docs/checks.md").read_text("utf-8")
    assert page.updated(text, catalogue()) == text, "python tools/gen_docs.py"


def test_an_id_stands_for_one_check():
    ids = [c.id for c in catalogue()]
    assert sorted(set(ids)) == sorted(ids)
    assert [i for i in ids if not re.fullmatch(r"[A-Z]+-\d{3}", i)] == []
    assert [s.value for s in Severity] == ["fail", "warn", "note"]
