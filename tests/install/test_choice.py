"""What is installed where no option says it: the lock's row, else stock PyTorch."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from ipexctl.doctor.report.cluster import CheckedHosts
from ipexctl.doctor.report.recommendations import recommend_settings
from ipexctl.errors import InputError, NothingFits
from ipexctl.facts.facts import Facts
from ipexctl.install.command.install_text import chosen_text
from ipexctl.install.install_plan import HostInstall, Plan
from ipexctl.inventory.inventory import Host
from ipexctl.local.shipped_tables import stack_rows
from ipexctl.packages.resolver import Resolved
from ipexctl.stack.lock_file import Lock
from ipexctl.stack.selection import Stack, choose_stacks
from ipexctl.stack.stack_decision import DEFAULT, decide_stack, wanted_stack
from ipexctl.stack.version_table import END_OF_LIFE, Request
from tests.install.conftest import Shop
from tests.made import env_state
from tests.stack.test_lock import LOCK
from tests.stack.test_stack import host
from tests.stack.test_table import AVX512


def ready(name: str = "a", *pythons: str, flags: frozenset[str] = AVX512) -> Facts:
    return host(name, *(pythons or ("3.10.2",)), flags=flags)


def taken(request: Request, lock: Lock | None = None, *hosts: Facts) -> Stack:
    return decide_stack(hosts or (ready(),), request, lock, stack_rows()).stack


def test_options_win_over_the_lock_and_the_lock_over_the_table() -> None:
    default, locked = (taken(Request(mpi="none"), lock) for lock in (None, LOCK))
    option = taken(Request(ipex="2.5", torch="2.5.0"), LOCK)
    assert [(s.row.name, s.reason, s.mpi) for s in (default, locked, option)] == [
        ("torch-2.13", DEFAULT, ""),
        ("torch-2.13", "ipexctl.lock names it", ""),
        ("ipex-2.5.0", "asked for with --torch 2.5.0 --ipex 2.5", "impi-rt<2021.19"),
    ]


LOCKED = [("impi-rt<2021.19", "intel"), ("", "none"), ("mpich", "mpich"), ("system", "system")]


@pytest.mark.parametrize(("locked", "word"), LOCKED)
def test_the_mpi_of_the_lock_stays_until_another_is_named(locked: str, word: str) -> None:
    lock = replace(LOCK, mpi=locked)
    asked = [Request(mpi=""), Request(mpi="", torch="2.13"), Request(mpi="openmpi")]
    found = [wanted_stack([ready()], request, lock, stack_rows()).mpi for request in asked]
    assert found == [word, word, "openmpi"]


def test_without_a_lock_it_is_intels_mpi_where_that_has_a_build() -> None:
    arm = host("a", "3.10.2", arch="aarch64")
    seen = [
        decide_stack([one], Request(mpi=""), None, stack_rows()).stack for one in (ready(), arm)
    ]
    assert [(s.row.name, s.mpi) for s in seen] == [
        ("torch-2.13", "impi-rt<2021.19"), ("torch-2.13", ""),
    ]  # fmt: skip


def test_a_lock_of_a_row_without_its_bindings_finds_that_row_again() -> None:
    row = taken(Request(), replace(LOCK, row="ipex-2.7.0-gloo")).row
    assert (row.name, row.oneccl, row.backend) == ("ipex-2.7.0-gloo", "", "gloo")


def test_a_lock_of_an_unknown_row_is_told() -> None:
    with pytest.raises(InputError, match=" torch-9, ") as refused:
        taken(Request(), replace(LOCK, row="torch-9"))
    assert refused.value.slug == "lock-row-unknown"


def test_a_lock_that_no_longer_fits_the_hosts_is_not_replaced_behind_ones_back() -> None:
    with pytest.raises(NothingFits) as none:
        taken(Request(), LOCK, ready("a", "3.9.1"))
    reasons = dict(line.split(": ", 1) for line in none.value.why.splitlines())
    host_name, _, why = reasons["torch-2.13"].partition(": ")
    assert (host_name, re.findall(r"\d[\d.]*", why)) == ("a", ["3.9.1", "3.10", "3.14"])
    assert none.value.hint.startswith("rm ipexctl.lock")


def test_an_interpreter_that_does_not_run_on_a_host_is_told() -> None:
    with pytest.raises(NothingFits) as none:
        taken(Request(torch="2.13", python="/opt/py/bin/python"), None, ready("a", "3.11.2"))
    said = "torch-2.13: a: /opt/py/bin/python is not a Python that runs there; it has 3.11.2"
    assert said in none.value.why.splitlines()


def test_all_hosts_decide_which_ipex() -> None:
    stack = taken(Request(stack="ipex"), None, ready("a", "3.8.1"), ready("b", "3.8.9"))
    assert (stack.row.name, stack.reason) == (
        "ipex-2.4.0",
        "asked for with --stack ipex; ipex-2.8.0 does not fit: a: Python 3.8.1, "
        "but 3.9 to 3.13 is required",
    )


def test_ipex_that_is_asked_for_is_never_replaced_by_stock() -> None:
    with pytest.raises(NothingFits) as none:
        taken(Request(stack="ipex"), None, ready(), host("b", "3.10.2"))
    first, *_, last = none.value.why.splitlines()
    assert ": b: " in first and first.endswith(" avx, avx2, bmi1, bmi2, f16c, fma")
    assert (last.endswith("to torch-2.0: it has no IPEX"), "ipex" in last) == (True, False)
    assert "--stack stock" in none.value.hint


@pytest.mark.parametrize(
    ("asked", "python", "near"),
    [
        (Request(torch="2.13.77"), "3.13.1", "2.13"),
        (Request(torch="99.1"), "3.9.2", "2.8"),
        (Request(torch="1.14", stack="ipex"), "3.9.2", "1.13"),
        (Request(torch="2.13"), "3.6.2", ""),  # the table has it
        (Request(torch="new"), "3.13.1", ""),
    ],
)
def test_instead_of_a_torch_that_the_table_lacks_the_nearest_for_these_hosts_is_offered(
    asked: Request, python: str, near: str
) -> None:
    with pytest.raises(NothingFits) as none:
        taken(asked, None, ready("a", python))
    assert none.value.meant == ((asked.torch, near) if near else ("", ""))


# --- doctor and install decide the same ----------------------------------------------------------

FLEETS = [
    ("one Python", [ready()], None),
    ("several Pythons", [ready("a", "3.13.1", "3.11.2"), ready("b", "3.11.9", "3.13.0")], None),
    ("a lock for the older one", [ready("a", "3.13.1", "3.11.2")], LOCK),
    ("only an old Python", [ready("a", "3.9.1")], None),
    ("one host without bf16", [ready("a", flags=AVX512 | {"avx512_bf16"}), ready("b")], None),
    ("ARM", [host("a", "3.10.2", arch="aarch64")], None),
]


@pytest.mark.parametrize(("_title", "hosts", "lock"), FLEETS)
def test_doctor_recommends_what_install_takes(
    _title: str, hosts: list[Facts], lock: Lock | None
) -> None:
    decision = decide_stack(hosts, Request(mpi=""), lock, stack_rows())
    advice = recommend_settings(CheckedHosts(tuple(hosts), rows=stack_rows(), lock=lock))
    assert {(r.row, r.python, r.dtype) for r in advice} == {
        (decision.stack.row.name, decision.stack.python_text, decision.dtype)
    }


def test_the_locks_python_is_the_one_that_is_recommended() -> None:
    hosts = (ready("a", "3.13.1", "3.11.2"),)
    without, locked = (
        recommend_settings(CheckedHosts(hosts, rows=stack_rows(), lock=lock))[0].python
        for lock in (None, LOCK)
    )
    assert (without, locked, LOCK.python) == ("3.13", "3.11", "3.11")


# --- what the user sees --------------------------------------------------------------------------


def chosen(name: str, reason: str) -> Plan:
    stack: Stack = choose_stacks([ready()], Request(row=name, because=reason), stack_rows())[0]
    state = env_state()
    parts = tuple(HostInstall(Host(host), state, complete=False) for host in "ab")
    found = Resolved(stack, replace(LOCK, row=name), {})
    return Plan(found, parts, Path(), new_lock=True)


def test_the_first_line_is_the_choice_and_its_reason_and_the_end_of_life_stands_once() -> None:
    made = chosen("ipex-2.7.0", "--backend ccl")
    first, ended, unproved, _ = (line.strip() for line in chosen_text(made).splitlines())
    what, backend, mpi, where, reason = first.split(", ")
    assert what == made.found.stack.title == "torch 2.7.0 + IPEX 2.7.0 + oneCCL 2.7.0"
    assert (backend, mpi, where.split()[1], where.split()[-1]) == ("ccl", "no MPI", "3.11", "(a,b)")
    assert reason.endswith(": --backend ccl")
    assert ended == END_OF_LIFE
    assert len(made.found.stack.row.doubts) == 2
    assert unproved.partition(": ")[2].split("; ") == list(made.found.stack.row.doubts)


def test_stock_pytorch_has_not_ended() -> None:
    assert "ended" not in chosen_text(chosen("torch-2.13", "asked for"))


def test_no_file_of_the_folder_brings_ipex(shop: Shop) -> None:
    (shop.work / "examples").mkdir()
    (shop.work / "examples" / "train_ipex.py").write_text("import intel_extension_for_pytorch")
    asked = shop.install()
    assert asked.code == 0, asked.err
    assert (asked.document["row"], asked.document["ipex"]) == ("torch-2.13", None)
