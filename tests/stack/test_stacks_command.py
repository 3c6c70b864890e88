"""`ipexctl stacks`: the table to read, and the answer to "what fits these hosts"."""

from __future__ import annotations

import json
import re
import subprocess

import pytest

from ipexctl.cli import rewrite_args
from ipexctl.install.command.stacks_text import stack_table_text
from ipexctl.local.shipped_tables import stack_rows
from ipexctl.stack.table_view import as_host, stack_offers
from ipexctl.stack.version_table import Request
from tests.cli import ipexctl

ASKED = ["--python", "3.8", "--isa", "avx2", "--torch", "1.12.1"]


def stacks(*options: str) -> subprocess.CompletedProcess[str]:
    return ipexctl("stacks", *options)


def test_the_whole_table_has_a_line_for_every_row_and_says_what_has_ended() -> None:
    shown = stack_table_text(stack_offers(stack_rows(), as_host("", "", "", ""), Request()))
    head, *lines = shown.splitlines()
    assert head.split() == ["NAME", "TORCH", "IPEX", "ONECCL", "PYTHON", "ISA", "GLIBC"]
    rows = [line.removeprefix("* ").split() for line in lines[: lines.index("")]]
    assert sorted(row[0] for row in rows) == sorted(r.name for r in stack_rows())
    assert {row[0]: row[-1].startswith("ended") for row in rows} == {
        r.name: bool(r.ipex) for r in stack_rows()
    }
    assert " ".join(shown.split()).count(" March 2026") == 1


def test_what_was_not_tested_is_shown_with_v_alone() -> None:
    brief, full = stacks().stdout, stacks("--verbose").stdout
    assert "?" not in brief and "private build" not in brief
    assert sum(line.startswith("-v: ") for line in brief.splitlines()) == 1
    assert full == stacks("-v").stdout
    words = " ".join(full.split())
    (row,) = (row for row in stack_rows() if row.name == "ipex-2.7.0")
    assert f"{row.doubts[0]}: {row.name}" in words, full
    others = [r for r in stack_rows() if r.oneccl and not r.oneccl_run]
    assert f": {len(others)} rows with ONECCL" in words
    assert [line for line in full.splitlines() if len(line) > 80] == []


def test_the_newest_torch_is_first_and_a_star_marks_what_install_takes() -> None:
    lines = stack_table_text(
        stack_offers(stack_rows(), as_host("", "", "", ""), Request())
    ).splitlines()
    torches = [line[2:].split()[1].split(".") for line in lines[1 : lines.index("")]]
    numbers = [[int(n) for n in t] for t in torches]
    assert numbers == sorted(numbers, reverse=True)
    assert [line.split()[1] for line in lines if line.startswith("* ")][0] == stack_rows()[0].name


ASKED_FOR = [Request(), Request(backend="gloo"), Request(stack="stock"), Request(torch="1.12.1")]


@pytest.mark.parametrize("request_", ASKED_FOR)
def test_80_columns_are_enough(request_: Request) -> None:
    shown = stack_table_text(stack_offers(stack_rows(), as_host("", "", "", ""), request_))
    assert [line for line in shown.splitlines() if len(line) > 80] == []


def test_the_question_of_the_handbook_names_two_rows_and_refuses_each_other_one() -> None:
    asked = stacks(*ASKED)
    assert asked.returncode == 0, asked.stderr
    fitting, _, others = asked.stdout.partition("does not fit:\n")
    names = [line[2:].split()[0] for line in fitting.splitlines()[1:3]]
    assert names == ["ipex-1.12.300", "ipex-1.12.100"]
    refused = [line.split()[0] for line in others.splitlines() if line[2:3] != " "]
    assert sorted([*refused, *names]) == sorted(r.name for r in stack_rows())
    (near,) = (line for line in others.splitlines() if line.split()[0] == "ipex-1.12.0")
    assert re.findall(r"\d[\w.]+|avx\w+", near)[:3] == ["1.12.0", "1.12.1", "avx512bw"]


def test_json_has_the_same_answer() -> None:
    rows = json.loads(stacks(*ASKED, "--json").stdout)["stacks"]
    assert [r["name"] for r in rows if r["first_choice"]] == []  # only --stack ipex brings it
    assert [r["name"] for r in rows if r["fits"]] == ["ipex-1.12.300", "ipex-1.12.100"]
    first = next(r for r in rows if r["fits"])
    assert (first["oneccl_distribution"], first["oneccl_module"], first["ended"]) == (
        "oneccl_bind_pt", "oneccl_bindings_for_pytorch", True,
    )  # fmt: skip


QUERIES = [
    ("--python 3.11 --isa avx512 --glibc 2.17", "torch-2.5"),
    ("--python 3.12 --arch aarch64", "torch-2.13"),
    ("--python 3.11.4 --torch 2.7 --backend gloo", "torch-2.7"),
]


@pytest.mark.parametrize(("asked", "first"), QUERIES)
def test_the_first_row_that_fits(asked: str, first: str) -> None:
    rows = json.loads(stacks(*asked.split(), "--json").stdout)["stacks"]
    assert next(row["name"] for row in rows if row["fits"]) == first


def test_where_nothing_fits_the_command_ends_with_3() -> None:
    asked = stacks("--python", "3.6", "--isa", "avx2")
    assert (asked.returncode, asked.stdout.splitlines()[0]) == (3, "nothing fits")
    assert "ipex-1.10.100  the CPU lacks avx512bw" in asked.stdout


@pytest.mark.parametrize(
    ("asked", "instead"),
    [
        ("--torch 99.1", "newest"),
        ("--torch=2.13.77", "--torch=2.13"),
        ("--torch 0.4", "--torch 2.0"),
        ("--torch 1.14 --stack ipex", "--torch 1.13 --stack ipex"),
        ("--torch 99.1 --python 3.9", "--torch 2.8 --python 3.9"),
    ],
)
def test_a_version_that_the_table_lacks_is_answered_with_the_nearest_that_fits(asked, instead):
    newest = max(tuple(map(int, row.torch.split("."))) for row in stack_rows())
    instead = instead.replace("newest", f"--torch {newest[0]}.{newest[1]}")
    done = stacks(*asked.split())
    first, second = done.stdout.splitlines()[:2]
    assert (done.returncode, first) == (3, "nothing fits")
    assert second == f"  try: ipexctl stacks {instead}   # the nearest version in the table"
    assert stacks(*instead.split()).returncode == 0


@pytest.mark.parametrize("asked", ["--torch x", "--torch 1.12.1 --python 3.14", "--python 3.5"])
def test_where_no_other_version_is_nearest_none_is_offered(asked):
    done = stacks(*asked.split())
    assert (done.returncode, "try:" in done.stdout) == (3, False)


@pytest.mark.parametrize(
    ("option", "value"),
    [("isa", "mmx"), ("python", "three"), ("glibc", "new"), ("glibc", "2"), ("backend", "mpi")],
)
def test_a_word_that_nobody_knows_ends_with_2(option: str, value: str) -> None:
    asked = stacks(f"--{option}", value)
    assert asked.returncode == 2
    assert f"--{option} {value}" in asked.stderr


BARE = [
    ("install --ipex", "install --ipex=newest"),
    ("install --ipex -f hosts", "install --ipex=newest -f hosts"),
    ("install --ipex a b", "install --ipex=newest a b"),
    ("install --ipex 2.7 a", "install --ipex 2.7 a"),
    ("stacks --ipex=2.7", "stacks --ipex=2.7"),
    ("run train.py --ipex", "run train.py --ipex"),
]


@pytest.mark.parametrize(("typed", "meant"), BARE)
def test_ipex_alone_means_the_newest(typed: str, meant: str) -> None:
    assert rewrite_args(typed.split(), "spelled") == meant.split()
