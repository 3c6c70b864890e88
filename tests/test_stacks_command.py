"""`ipexctl stacks`: the table to read, and the answer to "what fits these hosts"."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ipexctl.cli.install import bare_ipex
from ipexctl.core.rows import Request
from ipexctl.core.shelf import Query, offers, query
from ipexctl.errors import InputError
from ipexctl.ui.stacks import text, updated
from ipexctl.verbs.versions import table

ASKED = ["--python", "3.8", "--isa", "avx2", "--torch", "1.12.1"]


def stacks(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ipexctl", "stacks", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_the_whole_table_has_a_line_for_every_row_and_says_what_has_ended() -> None:
    shown = text(offers(table(), Query(), Request()))
    head, *lines = shown.splitlines()
    assert head.split() == [
        "NAME", "TORCH", "IPEX", "ONECCL", "BACKEND", "PYTHON", "ISA", "GLIBC", "LIFE",
    ]  # fmt: skip
    rows = lines[: lines.index("")]
    assert [line.split()[0] for line in rows] == [r.name for r in table()]
    assert ["ended" in line for line in rows] == [bool(r.ipex) for r in table()]
    assert shown.count("no fixes since March 2026") == 1


def test_the_question_of_the_handbook_names_two_rows_and_refuses_each_other_one() -> None:
    asked = stacks(*ASKED)
    assert asked.returncode == 0, asked.stderr
    fitting, _, others = asked.stdout.partition("does not fit:\n")
    assert [w.split()[0] for w in fitting.splitlines() if w.startswith("ipex")] == [
        "ipex-1.12.300", "ipex-1.12.100",
    ]  # fmt: skip
    assert len(others.splitlines()) == len(table()) - 2
    assert "  ipex-1.12.0    it is torch 1.12.0, 1.12.1 was asked for; avx512 is needed\n" in others


def test_json_has_the_same_answer() -> None:
    rows = json.loads(stacks(*ASKED, "--json").stdout)["stacks"]
    assert [r["name"] for r in rows if r["fits"]] == ["ipex-1.12.300", "ipex-1.12.100"]
    first = next(r for r in rows if r["fits"])
    assert (first["oneccl_distribution"], first["oneccl_module"], first["ended"]) == (
        "oneccl_bind_pt", "oneccl_bindings_for_pytorch", True,
    )  # fmt: skip


QUERIES = [
    (("3.11", "amx", "", ""), Request(backend="ccl"), "ipex-2.7.0"),
    (("3.11", "avx512", "2.17", ""), Request(), "ipex-2.5.0"),
    (("3.6", "avx512", "", ""), Request(), "ipex-1.10.100"),
    (("3.9", "sse", "", ""), Request(), None),
    (("3.6", "avx2", "", ""), Request(), None),
    (("3.12", "", "", "aarch64"), Request(), "torch-2.13"),
    (("3.12", "", "", "aarch64"), Request(stack="ipex"), None),
    (("3.11.4", "", "", ""), Request(torch="2.7", backend="gloo"), "ipex-2.7.0-gloo"),
]


@pytest.mark.parametrize(("words", "request_", "first"), QUERIES)
def test_the_first_row_that_fits(
    words: tuple[str, str, str, str], request_: Request, first: str | None
) -> None:
    found = offers(table(), query(*words), request_)
    assert next((o.row.name for o in found if not o.reasons), None) == first


def test_where_nothing_fits_the_command_ends_with_3() -> None:
    asked = stacks("--python", "3.6", "--isa", "avx2")
    assert (asked.returncode, asked.stdout.splitlines()[0]) == (3, "nothing fits")
    assert "ipex-1.10.100  avx512 is needed" in asked.stdout


@pytest.mark.parametrize(
    ("option", "value"), [("isa", "mmx"), ("python", "three"), ("glibc", "new"), ("backend", "mpi")]
)
def test_a_word_that_nobody_knows_ends_with_2(option: str, value: str) -> None:
    asked = stacks(f"--{option}", value)
    assert asked.returncode == 2
    assert f"--{option} {value}" in asked.stderr


def test_a_version_needs_two_numbers() -> None:
    with pytest.raises(InputError, match="--glibc 2 "):
        query("", "", "2", "")


def test_the_page_of_stacks_is_what_the_table_says() -> None:
    page = (Path(__file__).parent.parent / "docs/stacks.md").read_text("utf-8")
    assert updated(page, table()) == page, "python tools/gen_docs.py"
    assert [row.name for row in table() if f"| `{row.name}`" not in page] == []


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
    assert bare_ipex(typed.split()) == meant.split()
