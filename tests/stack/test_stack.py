"""Which row fits which hosts, and where Intel MPI's wheel puts things: pure."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ipexctl.errors import NothingFits
from ipexctl.facts.cpu_facts import CpuFacts
from ipexctl.facts.facts import Facts
from ipexctl.facts.pythons_facts import Python
from ipexctl.local.shipped_tables import stack_rows
from ipexctl.stack.mpi import env_vars, in_packages
from ipexctl.stack.selection import choose_stacks
from ipexctl.stack.version_table import Request, parse_table
from tests.made import cpu, facts

V2 = frozenset({"cx16", "popcnt", "ssse3", "sse4_1", "sse4_2"})

ROWS = parse_table("""
[defaults]
archs = ["x86_64", "aarch64"]
isa = "x86-64-v2"
glibc = "2.28"
backend = "gloo"
torch_index = "https://index.invalid/cpu"
mpi = "impi-rt<2021.19"
[[row]]
name = "new"
torch = "2.13.0"
pythons = ["3.10", "3.11", "3.12"]
[[row]]
name = "old"
torch = "2.8.0"
pythons = ["3.9", "3.10", "3.11"]
isa = "avx2"
""")


def host(
    name: str = "a",
    *pythons: str,
    arch: str = "x86_64",
    flags: frozenset[str] = V2,
    libc: str = "glibc 2.36",
) -> Facts:
    made = cpu()
    processor = CpuFacts(arch, "", "", None, None, flags, made.cpus, made.allowed)
    found = tuple(
        Python(f"/opt/{p}/bin/python3", tuple(int(n) for n in p.split(".")))
        for p in pythons or ("3.11.2",)
    )
    return replace(facts(name, cpus=processor), libc=libc, pythons=found)


CHOICES = [
    ("the first row, newest Python", [host("a", "3.9.1", "3.12.0", "3.11.2")], Request(),
     ("new", (3, 12), "x86_64-manylinux_2_36")),
    ("a Python that all have", [host("a", "3.12.0", "3.10.1"), host("b", "3.10.9")], Request(),
     ("new", (3, 10), "x86_64-manylinux_2_36")),
    ("wheels for the oldest glibc", [host("a"), host("b", libc="glibc 2.31")], Request(),
     ("new", (3, 11), "x86_64-manylinux_2_31")),
    ("a glibc between two that uv knows", [host(libc="glibc 2.29")], Request(),
     ("new", (3, 11), "x86_64-manylinux_2_28")),
    ("a glibc newer than uv knows", [host(libc="glibc 2.99")], Request(),
     ("new", (3, 11), "x86_64-manylinux_2_40")),
    ("an unknown glibc is no reason against", [host(libc="")], Request(),
     ("new", (3, 11), "x86_64-manylinux_2_28")),
    ("unknown CPU flags are no reason against", [host(flags=frozenset())], Request(),
     ("new", (3, 11), "x86_64-manylinux_2_36")),
    ("the torch asked for, by minor", [host(flags=V2 | {"avx", "avx2", "bmi1", "bmi2", "f16c",
     "fma"})], Request(torch="2.8"), ("old", (3, 11), "x86_64-manylinux_2_36")),
    ("the torch asked for, with its local part", [host()], Request(torch="2.13.0+cpu"),
     ("new", (3, 11), "x86_64-manylinux_2_36")),
    ("the Python asked for", [host("a", "3.12.1", "3.11.2")], Request(python="3.11"),
     ("new", (3, 11), "x86_64-manylinux_2_36")),
    ("the Python asked for by path", [host("a", "3.12.1", "3.11.2")],
     Request(python="/opt/3.11.2/bin/python3"), ("new", (3, 11), "x86_64-manylinux_2_36")),
    ("ARM without Intel MPI", [host(arch="aarch64")], Request(mpi="none"),
     ("new", (3, 11), "aarch64-manylinux_2_36")),
]  # fmt: skip


@pytest.mark.parametrize(("_title", "hosts", "request_", "expected"), CHOICES)
def test_the_choice(_title: str, hosts: list[Facts], request_: Request, expected: object) -> None:
    stack = choose_stacks(hosts, request_, ROWS)[0]
    assert (stack.row.name, stack.python, stack.platform) == expected


def test_every_shared_python_is_a_candidate_newest_first() -> None:
    found = choose_stacks([host("a", "3.10.1", "3.12.0", "3.11.2"), host("b", "3.12.3", "3.10.0")],
                   Request(), ROWS)  # fmt: skip
    assert [(s.python, s.interpreters) for s in found] == [
        ((3, 12), (("a", "/opt/3.12.0/bin/python3"), ("b", "/opt/3.12.3/bin/python3"))),
        ((3, 10), (("a", "/opt/3.10.1/bin/python3"), ("b", "/opt/3.10.0/bin/python3"))),
    ]


def test_a_row_that_is_passed_over_is_the_reason_for_the_next() -> None:
    avx2 = V2 | {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma"}
    stack = choose_stacks([host("a", "3.9.2", flags=avx2)], Request(), ROWS)[0]
    assert (stack.title, stack.reason) == (
        "torch 2.8.0",
        "new does not fit: a: Python 3.9.2, but 3.10 to 3.12 is required",
    )


REFUSALS = [
    ([host("a", "3.8.1")], Request(),
     "new: a: Python 3.8.1, but 3.10 to 3.12 is required\n"
     "old: a: the CPU lacks avx, avx2, bmi1, bmi2, f16c, fma"),
    ([host("n1", arch="ppc64le"), host("n2", arch="ppc64le")], Request(),
     "new, old: n[1-2]: there are no wheels for ppc64le"),
    ([host("a", arch="aarch64")], Request(torch="2.13"),
     "new: a: Intel MPI has no build for aarch64 (--mpi none leaves it out)\n"
     "old: torch is not 2.13"),
    ([host("a"), host("b", arch="aarch64")], Request(torch="2.13", mpi="none"),
     "new: a lock is for one architecture (aarch64: b, x86_64: a; -l selects hosts)\n"
     "old: torch is not 2.13"),
    ([host("a", libc="musl 1.2")], Request(torch="2.13"),
     "new: a: the C library is musl, the wheels need glibc\n"
     "old: torch is not 2.13"),
    ([host("a", libc="glibc 2.17")], Request(torch="2.13"),
     "new: a: glibc 2.17, the wheels need 2.28 or newer\n"
     "old: torch is not 2.13"),
    ([host("a", "3.10.1"), host("b", "3.12.1")], Request(torch="2.13"),
     "new: the hosts have no Python version in common: a has 3.10, b has 3.12\n"
     "old: torch is not 2.13"),
]  # fmt: skip


@pytest.mark.parametrize(("hosts", "request_", "why"), REFUSALS)
def test_what_fits_nothing_is_told_with_every_rows_reason(
    hosts: list[Facts], request_: Request, why: str
) -> None:
    with pytest.raises(NothingFits) as caught:
        choose_stacks(hosts, request_, ROWS)
    assert caught.value.why == why


def test_many_rows_refused_for_one_reason_are_one_line_after_what_the_hosts_lack() -> None:
    rows = [replace(ROWS[1], name=f"old-{n}") for n in range(4)]
    with pytest.raises(NothingFits) as caught:
        choose_stacks([host("a", "3.8.1")], Request(torch="2.13"), [*rows, ROWS[0]])
    assert caught.value.why.splitlines() == [
        "new: a: Python 3.8.1, but 3.10 to 3.12 is required",
        "4 rows, old-0 to old-3: torch is not 2.13",
    ]


def test_the_table_that_is_shipped_has_2_13_first_and_no_impi_that_cannot_be_installed() -> None:
    rows = stack_rows()
    assert rows[0].torch == "2.13.0"
    assert {row.mpi for row in rows} == {"impi-rt<2021.19"}
    assert len({row.name for row in rows}) == len(rows)


OLD_MPI = (
    ("PATH", "/p/bin"),
    ("LD_LIBRARY_PATH", "/p/lib:/p/lib/libfabric"),
    ("I_MPI_ROOT", "/p"),
    ("FI_PROVIDER_PATH", "/p/lib/libfabric/prov"),
)
NEW_MPI = (("PATH", "/p/bin"), ("LD_LIBRARY_PATH", "/p/lib"), ("I_MPI_ROOT", "/p"))


@pytest.mark.parametrize(
    ("version", "variables"),
    [
        ("2021.9.0", OLD_MPI),
        ("2021.14.2", OLD_MPI),
        ("2021.15.0", NEW_MPI),
        ("2021.18.1", NEW_MPI),
        ("", (("PATH", "/p/bin"),)),
    ],
)
def test_each_layout_of_impi_gets_the_variables_it_needs(version: str, variables: object) -> None:
    assert env_vars("/p", in_packages({"impi-rt": version}, "/p")) == variables
