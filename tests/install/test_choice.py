"""What is installed where no option says it: the lock's row, else what the code imports."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from ipexctl.core.model import Facts
from ipexctl.core.stack.lock_file import Lock
from ipexctl.core.stack.project_imports import modules
from ipexctl.core.stack.selection import Stack, choose
from ipexctl.core.stack.version_table import NEWEST, Request
from ipexctl.errors import InputError, NothingFits
from ipexctl.local.shipped_tables import table
from ipexctl.ui.install import chosen_text
from ipexctl.verbs.install import wanted_stack
from ipexctl.verbs.install.install_plan import Chosen
from ipexctl.verbs.install.wanted_stack import decide, scan
from tests.install.conftest import Shop
from tests.stack.test_lock import LOCK
from tests.stack.test_stack import host
from tests.stack.test_table import AVX512

SOURCES = [
    ("import torch", {"torch"}),
    ("import os, torch.distributed as dist", {"os", "torch"}),
    ("from torch.nn import functional", {"torch"}),
    ("def f():\n    import intel_extension_for_pytorch as ipex\n", {"intel_extension_for_pytorch"}),
    ("try:\n    import torch_ccl\nexcept ImportError:\n    pass\n", {"torch_ccl"}),
    ("from . import torch\nfrom .torch import x\n", set()),
    ("# import torch\ntext = 'import torch'\n", set()),
    ("print 'Python 2'\nimport torch\n  \timport torch_ccl\n", {"torch", "torch_ccl"}),
    ("import torch\0", {"torch"}),
    ("import torch\n" + "(" * 5000, {"torch"}),
    ("", set()),
]


@pytest.mark.parametrize(("source", "found"), SOURCES)
def test_what_a_file_imports(source: str, found: set[str]) -> None:
    assert modules(source) == found


PROJECTS = [
    ("IPEX", {"a.py": "import intel_extension_for_pytorch", "b.py": "import torch"},
     "ipex-2.8.0", "a.py imports intel_extension_for_pytorch"),
    ("the bindings", {"src/a.py": "import oneccl_bindings_for_pytorch"},
     "ipex-2.7.0", "src/a.py imports oneccl_bindings_for_pytorch"),
    ("the bindings of the older era", {"a.py": "import torch_ccl"},
     "ipex-1.11.200", "a.py imports torch_ccl"),
    ("both eras, tried in turn", {"a.py": "import torch_ccl\nimport oneccl_bindings_for_pytorch"},
     "ipex-2.7.0", "a.py imports oneccl_bindings_for_pytorch"),
    ("IPEX and the bindings in two files",
     {"a.py": "import intel_extension_for_pytorch", "b.py": "import oneccl_bindings_for_pytorch"},
     "ipex-2.7.0", "b.py imports oneccl_bindings_for_pytorch"),
    ("plain torch", {"a.py": "import torch", "b.py": "import torch"}, "torch-2.13",
     "a.py imports torch (and 1 more), and nothing here imports IPEX or oneCCL"),
    ("what is built on torch", {"a.py": "from accelerate import Accelerator"}, "torch-2.13",
     "a.py imports accelerate, and nothing here imports IPEX or oneCCL"),
    ("no code", {}, "torch-2.13", "no code here imports IPEX or oneCCL"),
    ("code about something else", {"a.py": "import os"}, "torch-2.13",
     "no code here imports IPEX or oneCCL"),
    ("an environment of the user's own below",
     {"a.py": "import torch", "venv/pyvenv.cfg": "", "venv/x.py": "import torch_ccl",
      ".git/x.py": "import torch_ccl", "build/x.py": "import torch_ccl"}, "torch-2.13",
     "a.py imports torch, and nothing here imports IPEX or oneCCL"),
]  # fmt: skip


def ready(name: str = "a", python: str = "3.10.2", flags: frozenset[str] = AVX512) -> Facts:
    return host(name, python, flags=flags)


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.mark.parametrize(("_title", "files", "row", "reason"), PROJECTS)
def test_the_code_decides(
    tmp_path: Path, _title: str, files: dict[str, str], row: str, reason: str
) -> None:
    write(tmp_path, files)
    stack = choose([ready()], decide(Request(), None, tmp_path), table())[0]
    assert (stack.row.name, stack.reason) == (row, reason)


def test_options_win_over_the_lock_and_the_lock_over_the_code(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": "import oneccl_bindings_for_pytorch"})
    code, lock = (decide(Request(mpi="none"), old, tmp_path) for old in (None, LOCK))
    option = decide(Request(ipex="2.5", torch="2.5.0"), LOCK, tmp_path)
    seen = [choose([ready()], r, table())[0] for r in (code, lock, option)]
    assert [(s.row.name, s.reason, s.mpi) for s in seen] == [
        ("ipex-2.7.0", "a.py imports oneccl_bindings_for_pytorch", ""),
        ("torch-2.13", "ipexctl.lock names it", ""),
        ("ipex-2.5.0", "asked for with --torch 2.5.0 --ipex 2.5", "impi-rt<2021.19"),
    ]


OPTIONS = [
    (Request(stack="ipex"), "ipex-2.8.0"),
    (Request(ipex=NEWEST), "ipex-2.8.0"),
    (Request(ipex="2.3"), "ipex-2.3.100"),
    (Request(backend="ccl"), "ipex-2.7.0"),
    (Request(stack="ipex", backend="gloo", torch="2.7"), "ipex-2.7.0-gloo"),
    (Request(backend="gloo"), "torch-2.13"),
    (Request(stack="stock"), "torch-2.13"),
    (Request(torch="2.1"), "ipex-2.1.100"),
    (Request(torch="2.12"), "torch-2.12"),
]


@pytest.mark.parametrize(("options", "row"), OPTIONS)
def test_an_option_decides(tmp_path: Path, options: Request, row: str) -> None:
    assert choose([ready()], decide(options, None, tmp_path), table())[0].row.name == row


LOCKED = [("impi-rt<2021.19", "intel"), ("", "none"), ("mpich", "mpich"), ("system", "system")]


@pytest.mark.parametrize(("locked", "word"), LOCKED)
def test_the_mpi_of_the_lock_stays_until_another_is_named(
    tmp_path: Path, locked: str, word: str
) -> None:
    lock = replace(LOCK, mpi=locked)
    asked = [Request(mpi=""), Request(mpi="", torch="2.13"), Request(mpi="openmpi")]
    found = [decide(request, lock, tmp_path).mpi for request in asked]
    assert found == [word, word, "openmpi"]
    assert decide(Request(mpi=""), None, tmp_path).mpi == "intel"


def test_a_lock_of_a_row_without_its_bindings_finds_that_row_again(tmp_path: Path) -> None:
    wanted = decide(Request(), replace(LOCK, row="ipex-2.7.0-gloo"), tmp_path)
    stack = choose([ready()], wanted, table())[0]
    assert (stack.row.name, stack.row.oneccl, stack.row.backend) == ("ipex-2.7.0-gloo", "", "gloo")


def test_a_lock_of_an_unknown_row_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="names the row torch-9, which is not in the version"):
        decide(Request(), replace(LOCK, row="torch-9"), tmp_path)


def test_a_lock_that_no_longer_fits_the_hosts_is_not_replaced_behind_ones_back(
    tmp_path: Path,
) -> None:
    wanted = decide(Request(), LOCK, tmp_path)
    with pytest.raises(NothingFits) as none:
        choose([ready(python="3.9.1")], wanted, table())
    reasons = dict(line.split(": ", 1) for line in none.value.why.splitlines())
    assert reasons["torch-2.13"] == "a: Python 3.9.1, needed is 3.10 to 3.14"
    assert none.value.hint.startswith("rm ipexctl.lock")


def test_an_interpreter_that_does_not_run_on_a_host_is_told(tmp_path: Path) -> None:
    wanted = decide(Request(torch="2.13", python="/opt/py/bin/python"), None, tmp_path)
    with pytest.raises(NothingFits) as none:
        choose([ready(python="3.11.2")], wanted, table())
    said = "torch-2.13: a: /opt/py/bin/python is no Python that runs there; it has 3.11.2"
    assert said in none.value.why.splitlines()


HOSTS = [
    ("the newest that the oldest Python of them has",
     [ready(python="3.8.1"), ready("b", "3.8.9")], "ipex-2.4.0",
     "asked for with --stack ipex; ipex-2.8.0 does not fit: a: Python 3.8.1, "
     "needed is 3.9 to 3.13"),
]  # fmt: skip


@pytest.mark.parametrize(("_title", "hosts", "row", "reason"), HOSTS)
def test_all_hosts_decide_which_ipex(
    tmp_path: Path, _title: str, hosts: list[Facts], row: str, reason: str
) -> None:
    stack = choose(hosts, decide(Request(stack="ipex"), None, tmp_path), table())[0]
    assert (stack.row.name, stack.reason) == (row, reason)


def test_ipex_that_the_code_needs_is_never_replaced_by_stock(tmp_path: Path) -> None:
    write(tmp_path, {"train.py": "import intel_extension_for_pytorch"})
    wanted = decide(Request(), None, tmp_path)
    with pytest.raises(NothingFits) as none:
        choose([ready(), host("b", "3.10.2")], wanted, table())
    reasons = dict(line.split(": ", 1) for line in none.value.why.splitlines())
    assert list(reasons) == [row.name for row in table()]
    assert reasons["torch-2.13"] == "it has no IPEX"
    assert reasons["ipex-2.8.0"] == "b: the CPU lacks avx, avx2, bmi1, bmi2, f16c, fma"
    assert "--stack stock" in none.value.hint


# --- looking at a folder -------------------------------------------------------------------------


def test_what_cannot_be_read_is_no_reason_to_stop(tmp_path: Path) -> None:
    write(tmp_path, {"good.py": "import torch", "sub/also.py": "import os"})
    (tmp_path / "gone.py").symlink_to("nowhere")
    (tmp_path / "round").symlink_to(tmp_path)
    (tmp_path / "folder.py").mkdir()
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "binary.py").write_bytes(b"\xff\xfe\0import torch_ccl")
    assert scan(tmp_path) == {
        "binary.py": frozenset(), "good.py": {"torch"}, "sub/also.py": {"os"},
    }  # fmt: skip
    assert scan(tmp_path / "not-there") == {}


def test_a_folder_without_end_is_looked_at_in_part(tmp_path: Path) -> None:
    deep = tmp_path
    for _ in range(wanted_stack.DEPTH + 3):
        deep = deep / "d"
        deep.mkdir()
        (deep / "x.py").write_text("import torch")
    for i in range(wanted_stack.FILES):
        (tmp_path / f"f{i:03}.py").write_text("")
    seen = scan(tmp_path)
    assert len(seen) == wanted_stack.FILES
    for i in range(wanted_stack.FILES):
        (tmp_path / f"f{i:03}.py").unlink()
    assert max(name.count("/") for name in scan(tmp_path)) == wanted_stack.DEPTH - 1


# --- what the user sees --------------------------------------------------------------------------


def chosen(name: str, reason: str) -> Chosen:
    stack: Stack = choose([ready()], Request(row=name, because=reason), table())[0]
    lock: Lock = replace(LOCK, row=name)
    return Chosen(stack, lock, ("a", "b"), new_lock=True)


def test_the_first_line_is_the_choice_and_its_reason_and_the_end_of_life_stands_once() -> None:
    shown = chosen_text(chosen("ipex-2.7.0", "--backend ccl"))
    first, ended, unproved, _ = shown.splitlines()
    assert first == (
        "torch 2.7.0 + IPEX 2.7.0 + oneCCL 2.7.0, ccl, no MPI, Python 3.11 on 2 hosts (a,b), "
        "because: --backend ccl"
    )
    assert ended.strip().startswith("IPEX and the oneCCL bindings have ended: no fixes since")
    assert unproved == (
        "  not proved: oneccl_bind_pt was run with a private build, not Intel's binary; the "
        "bindings' Pythons and glibc"
    )


def test_stock_pytorch_has_not_ended() -> None:
    assert "ended" not in chosen_text(chosen("torch-2.13", "asked for"))


def test_the_command_takes_what_the_script_beside_it_needs(shop: Shop) -> None:
    (shop.work / "train.py").write_text("import intel_extension_for_pytorch")
    asked = shop.install("--torch", "2.13", "--ipex")
    assert asked.code == 3
    assert "torch-2.13: it has no IPEX" in asked.err
