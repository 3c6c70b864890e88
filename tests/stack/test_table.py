"""The version table row by row, and every trap in it: which rows a host must never get."""

from __future__ import annotations

import pytest

from ipexctl.errors import NothingFits
from ipexctl.local.shipped_tables import stack_rows
from ipexctl.stack.selection import choose_stacks, stack_requirements
from ipexctl.stack.table_view import stack_offers
from ipexctl.stack.version_table import (
    ISA,
    NEWEST,
    Request,
    StackRow,
    maintained_rows,
    rows_for_request,
)
from tests.stack.test_stack import V2, host

AVX2 = V2 | ISA["avx2"]
AVX512 = AVX2 | ISA["avx512"]
BIND, NEW, OLD = "oneccl_bind_pt", "oneccl_bindings_for_pytorch", "torch_ccl"
A, B, C, D = "ipex-whl-stable", "ipex-whl-stable", "ipex-whl-stable-cpu", "stable/cpu/us/"

# ipex, torch, oneccl, module, first and last Python, ISA, glibc, end of links, pages of links
IPEX_ROWS = [
    ("2.8.0", "2.8.0", "", "", 9, 13, "avx2", 28, D, ()),
    ("2.7.0", "2.7.0", "2.7.0", NEW, 9, 13, "avx2", 28, D, ()),
    ("2.6.0", "2.6.0", "2.6.0", NEW, 9, 13, "avx2", 28, D, ()),
    ("2.5.0", "2.5.0", "2.5.0", NEW, 9, 11, "avx2", 17, D, ()),
    ("2.4.0", "2.4.0", "2.4.0", NEW, 8, 11, "avx2", 17, D, ()),
    ("2.3.100", "2.3.0", "2.3.0", NEW, 8, 11, "avx2", 17, D, ()),
    ("2.3.0", "2.3.0", "2.3.0", NEW, 8, 11, "avx2", 17, D, ()),
    ("2.2.0", "2.2.0", "2.2.0", NEW, 8, 11, "avx2", 17, D, ()),
    ("2.1.100", "2.1.1", "2.1.0", NEW, 8, 11, "avx2", 17, D, ()),
    ("2.1.0", "2.1.0", "2.1.0", NEW, 8, 11, "avx2", 17, D, ()),
    ("2.0.100", "2.0.1", "2.0.0", NEW, 8, 11, "avx2", 17, C, ("links",)),
    ("2.0.0", "2.0.0", "2.0.0", NEW, 8, 11, "avx2", 17, C, ("links",)),
    ("1.13.100", "1.13.0", "1.13.0", NEW, 7, 10, "avx2", 17, C, ("links",)),
    ("1.13.0", "1.13.0", "1.13.0", NEW, 7, 10, "avx2", 17, C, ("links",)),
    ("1.12.300", "1.12.1", "1.12.100", NEW, 7, 10, "avx2", 17, B, ("links",)),
    ("1.12.100", "1.12.1", "1.12.100", NEW, 7, 10, "avx2", 17, B, ("links",)),
    ("1.12.0", "1.12.0", "1.12.0", NEW, 7, 10, "avx512", 17, B, ("links",)),
    ("1.11.200", "1.11.0", "1.11.0", OLD, 7, 10, "avx2", 17, B, ("links",)),
    ("1.11.0", "1.11.0", "1.11.0", OLD, 7, 10, "avx2", 17, B, ("links",)),
    ("1.10.100", "1.10.0", "1.10.0", OLD, 6, 9, "avx512", 17, A, ("links", "torch_index")),
    ("1.10.0", "1.10.0", "1.10.0", OLD, 6, 9, "avx512", 17, A, ("links", "torch_index")),
]  # fmt: skip
# torch, and the first and the last minor of Python 3
STOCK_ROWS = [
    ("2.13.0", 10, 14), ("2.15.0", 11, 15), ("2.14.1", 10, 14), ("2.12.1", 10, 14),
    ("2.11.0", 10, 14), ("2.10.0", 10, 14), ("2.9.1", 10, 14), ("2.8.0", 9, 13), ("2.7.1", 9, 13),
    ("2.6.0", 9, 13), ("2.5.1", 9, 12), ("2.4.1", 8, 12), ("2.3.1", 8, 12), ("2.2.2", 8, 12),
    ("2.1.2", 8, 11), ("2.0.1", 8, 11),
]  # fmt: skip


def row(name: str) -> StackRow:
    return next(r for r in stack_rows() if r.name == name)


@pytest.mark.parametrize("expected", IPEX_ROWS, ids=lambda e: e[0])
def test_a_row_with_ipex(expected: tuple[object, ...]) -> None:
    r = row(f"ipex-{expected[0]}")
    first, last = r.pythons[0], r.pythons[-1]
    end = str(expected[8])
    seen = (
        r.ipex, r.torch, r.oneccl, r.oneccl_import, first[1], last[1], r.isa, r.glibc[1],
        end if r.links.endswith(end) else r.links, r.flat,
    )  # fmt: skip
    assert seen == expected
    assert (r.oneccl_dist, r.backend) == ((BIND, "ccl") if r.oneccl else ("", "gloo"))
    assert r.pythons == tuple((3, minor) for minor in range(first[1], last[1] + 1))
    assert (r.archs, bool(r.source)) == (("x86_64",), True)


@pytest.mark.parametrize("expected", STOCK_ROWS, ids=lambda e: e[0])
def test_a_row_of_stock_pytorch(expected: tuple[object, ...]) -> None:
    (r,) = [r for r in maintained_rows(stack_rows()) if r.torch == expected[0]]
    assert (r.torch, r.pythons[0][1], r.pythons[-1][1]) == expected
    glibc = (2, 17) if r.torch < "2.6" and r.torch[3] == "." else (2, 28)
    assert (r.backend, r.oneccl, r.links, r.glibc) == ("gloo", "", "", glibc)


def test_no_other_rows_are_there_and_each_has_a_name_of_its_own() -> None:
    assert [r.ipex for r in stack_rows() if r.ipex] == [e[0] for e in IPEX_ROWS]
    assert len(maintained_rows(stack_rows())) == len(STOCK_ROWS)
    assert len({r.name for r in stack_rows()}) == len(stack_rows())


def test_the_pages_of_three_eras_and_the_index_of_the_last() -> None:
    hosts = {r.era: r.links.split("/")[2] for r in stack_rows() if r.era}
    assert [hosts[era].split(".")[0] for era in "abcd"] == [
        "software", "developer", "developer", "pytorch-extension",
    ]  # fmt: skip


def test_only_what_was_seen_there_may_come_from_the_default_index() -> None:
    assert [r.ipex for r in stack_rows() if r.public] == ["2.8.0", "2.7.0", "2.6.0"]


def test_what_nobody_proved_is_marked() -> None:
    certain = [r.name for r in stack_rows() if r.ipex and not r.uncertain]
    assert certain == ["ipex-2.8.0"]


# --- traps ---------------------------------------------------------------------------------------

TRAPS = [
    ("IPEX 1.12.0 crashes without AVX-512; 1.12.300 does not",
     AVX2, "3.8.1", Request(torch="1.12", stack="ipex"), "ipex-1.12.300"),
    ("the bindings 1.12.0 fail with torch 1.12.1, which has its own",
     AVX512, "3.8.1", Request(torch="1.12.1", backend="ccl"), "ipex-1.12.300"),
    ("torch 1.12.0 has the bindings 1.12.0",
     AVX512, "3.8.1", Request(torch="1.12.0", backend="ccl"), "ipex-1.12.0"),
    ("1.12.1 is not the beginning of 1.12.100",
     AVX512, "3.8.1", Request(ipex="1.12"), "ipex-1.12.300"),
    ("1.10 on AVX-512", AVX512, "3.6.8", Request(torch="1.10", stack="ipex"), "ipex-1.10.100"),
    ("the newest bindings for CPUs are 2.7's",
     AVX512, "3.11.2", Request(backend="ccl"), "ipex-2.7.0"),
    ("the newest IPEX has none", AVX512, "3.11.2", Request(ipex=NEWEST), "ipex-2.8.0"),
    ("Python 3.8 ends with 2.4", AVX512, "3.8.1", Request(stack="ipex"), "ipex-2.4.0"),
    ("Python 3.7 ends with 1.13", AVX512, "3.7.1", Request(stack="ipex"), "ipex-1.13.100"),
    ("Python 3.11 begins with 2.0",
     AVX512, "3.11.1", Request(torch="2.0", stack="ipex"), "ipex-2.0.100"),
    ("for gloo the bindings stay out",
     AVX2, "3.9.1", Request(torch="2.7", stack="ipex", backend="gloo"), "ipex-2.7.0-gloo"),
    ("a torch that IPEX was built for is stock PyTorch unless IPEX is asked for",
     AVX512, "3.11.2", Request(torch="2.8"), "torch-2.8"),
    ("gloo alone asks for no IPEX", AVX512, "3.11.2", Request(torch="2.7", backend="gloo"),
     "torch-2.7"),
    ("stock PyTorch for an old Python", AVX512, "3.8.1", Request(), "torch-2.4"),
    ("Python 3.13 begins with 2.6", AVX2, "3.13.0", Request(ipex="2.6"), "ipex-2.6.0"),
    ("Python 3.12 cannot take 2.5, and the newest with bindings is 2.7's",
     AVX2, "3.12.1", Request(backend="ccl"), "ipex-2.7.0"),
    ("1.11 is the first for AVX2", AVX2, "3.9.1", Request(ipex="1.11"), "ipex-1.11.200"),
    ("IPEX 2.3.100 has the bindings 2.3.0",
     AVX2, "3.9.1", Request(torch="2.3", backend="ccl"), "ipex-2.3.100"),
    ("stock", AVX512, "3.11.2", Request(stack="stock"), "torch-2.13"),
    ("without IPEX it is stock first", AVX512, "3.11.2", Request(), "torch-2.13"),
]  # fmt: skip


@pytest.mark.parametrize(("_title", "flags", "python", "request_", "name"), TRAPS)
def test_a_trap_is_walked_around(
    _title: str, flags: frozenset[str], python: str, request_: Request, name: str
) -> None:
    assert (
        choose_stacks([host("a", python, flags=flags)], request_, stack_rows())[0].row.name == name
    )


DEAD_ENDS = [
    ("IPEX 1.12.0 on AVX2", AVX2, "3.8.1", Request(torch="1.12.0", stack="ipex"),
     "ipex-1.12.0",
     "the CPU lacks avx512bw, avx512cd, avx512dq, avx512f, avx512vl"),
    ("1.10 on AVX2", AVX2, "3.8.1", Request(torch="1.10", stack="ipex"), "ipex-1.10.100",
     "the CPU lacks avx512bw, avx512cd, avx512dq, avx512f, avx512vl"),
    ("2.7 below AVX2", V2, "3.11.1", Request(torch="2.7", stack="ipex"), "ipex-2.7.0",
     "the CPU lacks avx, avx2, bmi1, bmi2, f16c, fma"),
    ("IPEX 1.12.0 with torch 1.12.1", AVX512, "3.8.1", Request(torch="1.12.1", ipex="1.12.0"),
     "ipex-1.12.300", "IPEX is not 1.12.0"),
    ("bindings for 2.8", AVX512, "3.11.1", Request(torch="2.8", backend="ccl"), "ipex-2.8.0",
     "it has no oneCCL bindings"),
    ("bindings for stock PyTorch", AVX512, "3.11.1", Request(stack="stock", backend="ccl"),
     "torch-2.13", "it has no oneCCL bindings"),
    ("IPEX after 2.8", AVX512, "3.11.1", Request(torch="2.13", stack="ipex"), "torch-2.13",
     "it has no IPEX"),
    ("a patch of torch that IPEX was not built for", AVX512, "3.11.1",
     Request(torch="2.7.1", stack="ipex"),
     "ipex-2.7.0", "torch is not 2.7.1"),
    ("torch 1.13.1, which nobody tried with the bindings 1.13.0", AVX512, "3.8.1",
     Request(torch="1.13.1"), "ipex-1.13.100", "torch is not 1.13.1"),
    ("IPEX 2.5 on Python 3.12", AVX512, "3.12.1", Request(torch="2.5", stack="ipex"),
     "ipex-2.5.0",
     "Python 3.12.1, but 3.9 to 3.11 is required"),
    ("2.0 on Python 3.7", AVX512, "3.7.1", Request(torch="2.0.0", stack="ipex"), "ipex-2.0.0",
     "Python 3.7.1, but 3.8 to 3.11 is required"),
    ("the bindings 2.3.100, which are for GPUs", AVX512, "3.9.1",
     Request(torch="2.3.1", backend="ccl"), "ipex-2.3.100",
     "torch is not 2.3.1"),
    ("stock before 2.0", AVX512, "3.8.1", Request(torch="1.13", stack="stock"), "ipex-1.13.100",
     "it has IPEX, not stock PyTorch"),
    ("IPEX that nobody asked for", AVX512, "3.8.1", Request(torch="1.13"), "ipex-1.13.100",
     "it has IPEX, which needs --stack ipex"),
    ("2.8 on glibc 2.17", AVX512, "3.11.1", Request(torch="2.8"), "torch-2.8", None),
]  # fmt: skip


@pytest.mark.parametrize(("_title", "flags", "python", "request_", "name", "why"), DEAD_ENDS)
def test_a_dead_end_says_why(
    _title: str, flags: frozenset[str], python: str, request_: Request, name: str, why: str | None
) -> None:
    on = host("a", python, flags=flags, libc="glibc 2.36" if why else "glibc 2.17")
    with pytest.raises(NothingFits) as none:
        choose_stacks([on], request_, stack_rows())
    why = why or "glibc 2.17, the wheels need 2.28 or newer"
    assert any(line.endswith(why) for line in none.value.why.splitlines())
    (offer,) = (o for o in stack_offers(stack_rows(), on, request_) if o.row.name == name)
    assert why in offer.reasons or not offer.taken


REQUIRED = [
    ("ipex-2.7.0",
     ("numpy", "setuptools<81", "intel_extension_for_pytorch==2.7.0", "oneccl_bind_pt==2.7.0")),
    ("ipex-2.6.0",
     ("numpy", "setuptools<81", "intel_extension_for_pytorch==2.6.0", "oneccl_bind_pt==2.6.0")),
    ("ipex-2.5.0", ("numpy", "intel_extension_for_pytorch==2.5.0", "oneccl_bind_pt==2.5.0")),
    ("ipex-2.8.0", ("numpy", "intel_extension_for_pytorch==2.8.0")),
    ("ipex-1.12.300",
     ("numpy<2", "intel_extension_for_pytorch==1.12.300", "oneccl_bind_pt==1.12.100")),
    ("ipex-1.10.100",
     ("numpy<2", "psutil", "intel_extension_for_pytorch==1.10.100", "oneccl_bind_pt==1.10.0")),
    ("torch-2.13", ("numpy",)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "wanted"), REQUIRED)
def test_what_a_row_asks_for(name: str, wanted: tuple[str, ...]) -> None:
    r = row(name)
    python = f"3.{r.pythons[-1][1]}.0"
    (stack, *_) = choose_stacks([host("a", python, flags=AVX512)], Request(row=name), stack_rows())
    assert stack_requirements(stack) == (*wanted, "impi-rt<2021.19")


def test_without_the_bindings_nothing_of_theirs_is_left() -> None:
    kept = [
        r
        for r in rows_for_request(stack_rows(), Request(backend="gloo"))
        if r.oneccl or r.oneccl_import
    ]
    assert kept == []
