"""Checks of software, MPI, variables, names and interfaces: on hosts that lack nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ipexctl.doctor.checks import all_checks
from ipexctl.facts import package_changes
from ipexctl.facts.facts import Facts
from ipexctl.facts.interfaces_facts import Nic, Route
from ipexctl.facts.mpi_install_facts import Layout, MpiFolder
from ipexctl.facts.name_resolution_facts import NameServer
from ipexctl.facts.software_facts import Current, Prefix, SoftwareFacts
from tests.checks.cases import Case
from tests.checks.hosts import Change, both, clean, flags, part, peer, seen, state, three
from tests.doctor.corpus import HOSTS, TOGETHER
from tests.facts.machines import AMX, AVX2, V2

IPEX = "intel-extension-for-pytorch"
ENV = "/home/trainer/.ipexctl/envs/abc"
WHOLE = Layout(True, f"{ENV}/lib", ("shm", "tcp"), ())
LO = Nic("lo", True, 65536, ("127.0.0.1",))


def prefix(*packages: tuple[str, str], **rest: Any) -> Prefix:
    rest = {"path": ENV, "kind": "ipexctl", "python": "3.11", **rest}
    return Prefix(packages=packages, **rest)


NUMPY = package_changes.PackageChange("numpy", "2.0", "1.26")


def software(*prefixes: Prefix, **rest: Any) -> Change:
    return lambda facts: replace(facts, software=SoftwareFacts(prefixes=prefixes, **rest))


def nics(*found: Nic, **rest: Any) -> Change:
    return part("net", nics=found, **rest)


def asked(*servers: NameServer, default_nic: str = "eth0") -> Change:
    return part("net", name_servers=servers, default_nic=default_nic)


DEAD = NameServer("192.0.2.1", True, False, "no response within 2 s")
ALIVE = NameServer("10.0.0.53", True, True)
REFUSES = NameServer("10.0.0.54", True, True, "REFUSED")
NONE = NameServer("127.0.0.1", False, False, "Connection refused")
TORCH = ("torch", "2.13.0+cpu")


def kinds(
    number: str, level: tuple[str, ...], evidence: str, *packages: tuple[str, str], **rest: Any
) -> list[Case]:
    """The same environment as the one of runs, and the active one."""
    named = {"fail": "ipexctl", "warn": "active"}
    return [
        Case(number, s, software(prefix(*packages, **{"kind": named[s], **rest})), evidence)
        for s in level
    ]


BOTH = ("fail", "warn")
CASES = [
    *kinds(
        "SOFT-001", ("warn",), f"IPEX 2.8.0 needs torch 2.8, there is 2.13.0+cpu, in {ENV}",
        TORCH, (IPEX, "2.8.0"),
    ),
    *kinds(
        "SOFT-002", ("warn",), f"IPEX 2.0.100 was built for torch 2.0.1, there is 2.0.0, in {ENV}",
        ("torch", "2.0.0"), (IPEX, "2.0.100"), ("oneccl-bind-pt", "2.0.0"),
    ),
    *kinds(
        "SOFT-003", ("warn",), f"oneccl_bind_pt 1.12.0 with torch 1.12.1, in {ENV}",
        ("torch", "1.12.1"), ("oneccl-bind-pt", "1.12.0"),
    ),
    *kinds("SOFT-004", ("warn",), f"{IPEX} but no torch, in {ENV}", (IPEX, "2.8.0")),
    Case(
        "SOFT-005", "note", software(prefix(("torch", "2.13.0"), cuda=True)),
        f"torch 2.13.0 in {ENV} has libtorch_cuda.so",
    ),
    Case(
        "SOFT-006", "note", software(prefix(("torch", "2.8.0"), (IPEX, "2.8.0"))),
        f"{IPEX} 2.8.0 in {ENV}",
    ),
    *kinds("SOFT-007", ("warn",), f"torch 2.1.0 in {ENV}", ("torch", "2.1.0")),
    *kinds(
        "SOFT-009", ("warn",), f"numpy 2.1.3 with torch 2.2.0 in {ENV}",
        ("torch", "2.2.0"), ("numpy", "2.1.3"),
    ),
    Case(
        "SOFT-012", "fail", software(current=Current("/gone", False, None)),
        "/gone has no bin/python",
    ),
    Case(
        "SOFT-026", "warn", software(current=Current("", False, None, (), "a" * 16)),
        "no aaaaaaaaaaaaaaaa in /home/trainer/.ipexctl/envs",
    ),
    Case(
        "SOFT-025", "warn",
        software(current=Current(ENV, True, True, (NUMPY,))),
        f"numpy 2.0 -> 1.26, in {ENV}",
    ),
    *(
        Case(
            "SOFT-025", severity,
            software(
                current=Current(
                    ENV, True, True, (package_changes.PackageChange("torch", "2.13.0", *now),)
                )
            ),
            f"torch 2.13.0{said}, in {ENV}",
        )
        for severity, now, said in (
            ("fail", ("",), " removed"),
            ("fail", ("2.13.0", True), ": its files are gone"),
            ("warn", ("2.13.0",), ": its files are replaced"),
        )
    ),
    Case("SOFT-023", "warn", software(stale=9, stale_bytes=2 << 30), "9 files, 2.0 GiB"),
    *kinds(
        "MPI-001", BOTH, f"impi-rt 2021.19.0 in {ENV} without libfabric.so.1",
        TORCH, ("impi-rt", "2021.19.0"), mpi=replace(WHOLE, libfabric="", providers=()),
    ),
    *kinds(
        "MPI-002", BOTH, f"no libtcp-fi.so below {ENV}/lib (providers: shm)",
        TORCH, ("impi-rt", "2021.12.0"), mpi=replace(WHOLE, providers=("shm",)),
    ),
    *kinds(
        "MPI-003", BOTH, f"missing: {ENV}/lib/libmpi.so.12",
        TORCH, ("impi-rt", "2021.12.0"), mpi=replace(WHOLE, libmpi=False),
    ),
    Case(
        "MPI-004", "warn", software(mpis=(MpiFolder("/opt/mpi/bin", ("mpirun",)),)),
        "no x bit: /opt/mpi/bin/mpirun",
    ),
    Case("NET-010", "fail", nics(replace(LO, up=False), Nic("eth0", True, 1500, ("10.0.0.1",))),
         "lo is down"),
    Case(
        "NET-006", "warn", part("net", hostname_addresses=("10.9.9.9",)),
        "node01 resolves to 10.9.9.9; its own are 10.0.0.1",
    ),
    Case("NET-018", "warn", part("net", port_range=(40000, 40100)), "40000 to 40100"),
    Case(
        "NET-022", "note", part("net", default_nic="", routes=(Route("eth0", "10.0.0.0/8"),)),
        "10.0.0.0/8 by eth0",
    ),
    Case(
        "SOFT-028", "warn", state("system", login_ms=6020),
        "6.0 s before the command starts, in ~/.bashrc or /etc/bash.bashrc or /etc/bashrc",
    ),
    Case(
        "SOFT-028", "warn", state("system", login_ms=6020, login_shell="nu"),
        "6.0 s before the command starts, in those of nu",
    ),
    Case("NET-029", "warn", asked(DEAD), "192.0.2.1: no response within 2 s"),
    Case(
        "NET-029", "warn", both(asked(DEAD), part("net", hostname_resolves=False)),
        "192.0.2.1: no response within 2 s",
    ),
    Case("NET-029", "note", asked(DEAD, default_nic=""), "192.0.2.1: no response within 2 s"),
    Case("NET-029", "note", asked(DEAD, ALIVE), "192.0.2.1: no response within 2 s"),
    Case("NET-029", "note", asked(REFUSES, REFUSES), "10.0.0.54: REFUSED; 10.0.0.54: REFUSED"),
    Case("NET-029", "note", asked(NONE), "/etc/resolv.conf names none"),
    Case(
        "NET-023", "note",
        nics(Nic("eth0", True, 1500, ("10.0.0.1",)), Nic("ib0", False, 2044, ("10.1.0.1",))),
        "ib0 (10.1.0.1)",
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_one_trouble_gives_one_finding(case):
    """IPEX tells of its end of life as well, and what the host is for the others aside."""
    found = seen(case.change(clean()))
    aside = {"SOFT-006", "SOFT-007"} - {case.id}
    expected = (case.id, case.severity, "node01", case.evidence)
    assert [f for f in found if f[0] not in aside] == [expected]


HARMLESS: dict[str, Change] = {
    "a whole stack": software(
        prefix(TORCH, ("impi-rt", "2021.18.1"), ("numpy", "2.3.0"), mpi=WHOLE),
        mpis=(MpiFolder(f"{ENV}/bin"),),
        current=Current(ENV, True, True),
    ),
    "IPEX and bindings of one row": software(
        prefix(
            ("torch", "2.1.1"), (IPEX, "2.1.100"), ("oneccl-bind-pt", "2.1.0+cpu"), ccl=True,
            kind="active",
        )
    ),
    "one OpenMP of torch's own": software(prefix(TORCH, omp=("/x/torch/lib/libgomp.so.1",))),
    "a login of three seconds": state("system", login_ms=3000),
    "an interface that is no one's": nics(
        LO, Nic("eth0", True, 1500, ("10.0.0.1",)), Nic("docker0", False, 1500, ("172.17.0.1",))
    ),
    "a name server that responds": asked(ALIVE),
    "a name server that refuses, and another one": asked(REFUSES, ALIVE),
    "name servers of a network of its own": asked(REFUSES, default_nic=""),
    "neither name servers nor a way out": asked(NONE, default_nic=""),
    "both localhosts": part("net", localhost=("::1", "127.0.0.1")),
    "numbers that are no versions": software(prefix(("torch", "weird"), (IPEX, "?"))),
}  # fmt: skip


@pytest.mark.parametrize("change", HARMLESS.values(), ids=HARMLESS)
def test_what_does_no_harm_is_no_finding(change):
    assert [f for f in seen(change(clean())) if f[0] != "SOFT-006"] == []


def test_an_ipex_of_avx512_times_is_refused_on_avx2():
    old = software(prefix(("torch", "1.10.0"), (IPEX, "1.10.100"), kind="ipexctl"))
    found = {f[0]: f[1] for f in seen(flags(AVX2)(old(clean())))}
    assert found["SOFT-008"] == "fail"
    assert "SOFT-008" not in {f[0] for f in seen(flags(AMX)(old(clean())))}


@pytest.mark.parametrize(("kind", "severity"), [("ipexctl", "fail"), ("active", "warn")])
def test_ipex_is_refused_below_avx2_where_it_is_used(kind, severity):
    old = software(prefix(("torch", "2.8.0"), (IPEX, "2.8.0"), kind=kind))
    found = {f[0]: f for f in seen(flags(V2 + " avx")(old(clean())))}
    assert found["CPU-001"][1] == "warn"
    assert found["SOFT-008"][1] == severity
    assert all(value in found["SOFT-008"][3] for value in ("IPEX 2.8.0", "no avx2", ENV))


def test_a_patch_release_is_a_warning_where_it_is_used():
    change = software(prefix(("torch", "2.0.0"), (IPEX, "2.0.100"), kind="active"))
    assert ("SOFT-002", "warn") in {f[:2] for f in seen(change(clean()))}


# --- several hosts -------------------------------------------------------------------------------


def second(*found: Nic) -> Change:
    return nics(Nic("eth0", True, 1500, ("10.0.0.2",)), *found)


def first(*found: Nic) -> Change:
    return nics(Nic("eth0", True, 1500, ("10.0.0.1",)), *found)


DOCKER = Nic("docker0", True, 1500, ("172.17.0.1",))
SAME = software(prefix(TORCH, mpi=WHOLE), current=Current(ENV, True, True))


@pytest.mark.parametrize(
    ("twin", "severity"),
    [
        (DOCKER, "note"),
        (Nic("nerdctl0", True, 1500, ("10.4.0.1",)), "note"),
        (Nic("cbr0", True, 1500, ("10.88.0.1",)), "note"),
        (Nic("incusbr0", True, 1500, ("10.77.0.1",)), "note"),
        (Nic("idrac", True, 1500, ("169.254.0.2",)), "note"),
        (Nic("enx7ed30aef7a8b", True, 1500, ("169.254.95.120",)), "note"),
        (Nic("eth1", True, 1500, ("192.168.5.5",)), "warn"),
    ],
    ids=lambda v: v.name if isinstance(v, Nic) else v,
)
def test_twins_inside_the_hosts_are_a_note_and_others_a_warning(twin, severity):
    hosts = three(node01=first(twin), node02=second(twin))
    evidence = f"{twin.addresses[0]} is {twin.name} on node[01-02]"
    assert seen(*hosts) == [("NET-012", severity, "", evidence)]


def test_a_host_with_loopback_alone_cannot_train_with_others():
    alone = nics(LO, ssh_address="127.0.0.1", hostname_addresses=())
    assert ("NET-011", "fail", "node02", "lo") in seen(*three(node02=alone))


def test_a_way_out_by_another_interface_is_told():
    routes = (Route("eth0", "10.9.0.0/16"), Route("eth1", "10.0.0.0/24"))
    tries = (peer("node02", "node01"), peer("node01", "node02"))
    found = seen(*three(node02=part("net", routes=routes)), peers=tries)
    assert found == [
        ("NET-015", "warn", "node02", "10.0.0.1 by eth1, own address 10.0.0.2 on eth0")
    ]


def test_two_interfaces_of_one_network_are_no_other_way():
    routes = (
        Route("eth1", "10.0.0.0/24"),
        Route("eth0", "10.0.0.0/24"),
        Route("ib0", "10.0.0.0/8"),
    )
    tries = (peer("node02", "node01"),)
    assert seen(*three(node02=part("net", routes=routes)), peers=tries) == []


def test_different_mtus_are_told_once():
    found = seen(*three(node02=nics(Nic("eth0", True, 9000, ("10.0.0.2",)))))
    assert found == [("NET-013", "warn", "", "1500 on node[01,03]; 9000 on node02")]


def test_versions_that_drift_are_told_for_each_package():
    other = software(
        prefix(("torch", "2.12.1+cpu"), python="3.12", mpi=WHOLE),
        current=Current(ENV, True, True),
    )
    first, second = seen(*three(node01=SAME, node02=other, node03=SAME))
    assert first == ("SOFT-015", "fail", "", "python: 3.11 on node[01,03]; 3.12 on node02")
    assert second[:3] == ("SOFT-015", "fail", "")
    assert second[3].startswith("torch: 2.13.0+cpu on ")
    assert second[3].endswith("2.12.1+cpu on node02")


def test_environments_that_differ_by_their_name_alone_are_told():
    """An interrupted `install --rebuild` leaves some hosts in the old one under another name."""
    old = f"{ENV[:-3]}0f0f0f0f0f0f0f0f"
    aside = software(prefix(TORCH, mpi=WHOLE, path=old), current=Current(old, True, True))
    (found,) = seen(*three(node01=SAME, node02=aside, node03=SAME))
    assert found[:3] == ("SOFT-015", "warn", "")
    assert found[3].endswith("node[01,03]; 0f0f0f0f0f0f0f0f on node02")


def test_a_library_that_drifts_is_a_warning():
    more = software(
        prefix(TORCH, ("transformers", "4.57.0"), mpi=WHOLE), current=Current(ENV, True, True)
    )
    (found,) = seen(*three(node01=SAME, node02=more, node03=SAME))
    assert found[:3] == ("SOFT-015", "warn", "")
    assert found[3].startswith("transformers: none ") and found[3].endswith("; 4.57.0 on node02")


def test_a_host_without_the_environment_of_the_others_is_named():
    (found,) = seen(*three(node01=SAME, node02=software(), node03=SAME))
    assert found[:3] == ("SOFT-014", "warn", "node02")
    assert "/home/trainer/.ipexctl/current" in found[3]


# --- names ----------------------------------------------------------------------------------------


def test_a_closed_port_beside_master_port_is_told_of_the_host_that_has_it():
    bad = peer("node01", "node02", in_range="Connection refused")
    expected = ("NET-004", "warn", "node02", "node01 to 10.0.0.2: Connection refused")
    assert seen(*three(), peers=(bad, peer("node03", "node02", in_range=""))) == [expected]


def test_a_silent_resolver_is_said():
    silent = part("net", resolver_silent=True, hostname="node01", hostname_resolves=None)
    (own,) = seen(*three(node01=silent))
    assert own[:3] == ("NET-029", "warn", "node01")


PROXY = (("http_proxy", None),)


@pytest.mark.parametrize(
    ("no_proxy", "left"),
    [
        ("", "node[02-03]"),
        ("localhost,127.0.0.1", "node[02-03]"),
        ("node02", "node03"),
        ("10.0.0.2 10.0.0.3:8080", ""),
        ("10.0.0.0/24", ""),
        ("10.0.0.1/24", ""),
        ("10.0.0.0/31,NODE03", "node02"),
        ("10.0.1.0/24,10.", "node[02-03]"),
        ("*", ""),
        (".cluster", "node[02-03]"),
        ("ode02,de03", "node[02-03]"),
        ("https://node02,/,[]", "node[02-03]"),
    ],
)
def test_a_no_proxy_counts_by_the_hosts_that_it_covers(no_proxy, left):
    given = (("no_proxy", no_proxy),) if no_proxy else ()
    said = no_proxy and f"is {no_proxy}" or "is not set"
    evidence = f"http_proxy; no_proxy {said}; not covered: {left}"
    expected = [("NET-024", "note", "node01", evidence)] if left else []
    assert seen(*three(node01=software(env=PROXY + given))) == expected


@pytest.mark.parametrize("entry", [".cluster.example", "*.cluster.example", "cluster.example"])
def test_a_no_proxy_covers_by_the_domain_of_the_hosts_own_names(entry):
    named = {f"node{i:02d}": part("net", hostname=f"n{i}.cluster.example") for i in (2, 3)}
    proxied = software(env=(*PROXY, ("NO_PROXY", entry)))
    assert seen(*three(node01=proxied, **named)) == []
    assert [f[0] for f in seen(*three(node01=proxied))] == ["NET-024"]


# --- all of them ---------------------------------------------------------------------------------


def test_every_check_of_these_families_is_seen_here_or_in_the_lab():
    here = {c.id for c in CASES} | {
        "SOFT-002", "SOFT-008", "SOFT-014", "SOFT-015", "NET-002", "NET-003",
        "NET-004", "NET-011", "NET-012", "NET-013", "NET-015",
        "NET-025", "NET-026", "NET-027", "NET-028",
    }  # fmt: skip
    lab = {s.id for p in HOSTS.values() for s in p.seeds} | {t[1] for t in TOGETHER}
    ids = {c.id for c in all_checks() if c.family in ("SOFT", "MPI", "NET")}
    assert ids - here - lab == set(), "their cases are in this file"


def test_facts_without_a_look_at_software_say_nothing():
    bare: Facts = replace(clean(), software=None)
    assert seen(bare) == []
