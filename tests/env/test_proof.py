"""The proof of rows with IPEX, with stand-ins: nothing here is the real torch, IPEX or oneCCL.

The stand-in torch has one number that is trained, and the stand-in IPEX writes down what it is
asked to do. That real IPEX passes is another matter: docs/stacks.md says what was run.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import threading
import zipfile
from io import StringIO
from pathlib import Path

import pytest

from ipexctl.errors import HostFailed
from ipexctl.local.shipped_tables import stack_rows
from ipexctl.machines.agent import Agent
from ipexctl.remote.install.env_proof import PROOF
from ipexctl.stack.selection import stack_modules
from tests.install import standins
from tests.install.conftest import TORCH, Shop, make_wheel
from tests.install.standins import TRAINABLE

IPEX = "intel_extension_for_pytorch"
BINDINGS = "oneccl_bindings_for_pytorch"

OPTIMIZE = """
import sys
assert "torch" in sys.modules and "oneccl_bindings_for_pytorch" not in sys.modules
def optimize(model, dtype, optimizer):
    return model, optimizer
"""
AFTER_IPEX = f"import sys\nassert {IPEX!r} in sys.modules\n"


def stand_ins(shop: Shop, *, ipex: str = OPTIMIZE, bindings: str = AFTER_IPEX) -> None:
    """torch 2.7.0, IPEX and the bindings, as 2.7.0 names them."""
    source = TORCH.format(version="2.7.0+cpu", gradient=128.0) + TRAINABLE
    make_wheel(shop.wheels, "torch", "2.7.0+cpu", {"torch.py": source.encode()})
    make_wheel(shop.wheels, IPEX, "2.7.0", {f"{IPEX}.py": ipex.encode()})
    make_wheel(shop.wheels, "setuptools", "80.9.0", {"pkg_resources.py": b""})
    files = {f"{BINDINGS}.py": bindings.encode()}
    make_wheel(shop.wheels, "oneccl_bind_pt", "2.7.0+cpu", files)


def test_the_proof_imports_all_of_the_row_in_order_and_trains_with_ipex(shop: Shop) -> None:
    stand_ins(shop)
    done = shop.install("--ipex", "2.7.0")
    assert (done.code, done.states) == (0, ["changed"]), done.err + done.out
    assert re.fullmatch(
        rf"torch 2\.7\.0\+cpu, {IPEX} 2\.7\.0, {BINDINGS} 2\.7\.0\+cpu, (bf16|fp32) step",
        done.detail,
    )
    kept = json.loads((shop.root / "current" / ".ipexctl-proved").read_text())
    assert [name for name, _ in kept["modules"]] == ["torch", IPEX, BINDINGS]


STILL = OPTIMIZE.replace("return model", "optimizer.step = lambda: None; return model")
# what is broken, and what the user reads
BROKEN = [
    ({"bindings": "raise ImportError('undefined symbol: _ZN2at')"},
     [f"failed its test at: import {BINDINGS}", "ImportError: undefined symbol: _ZN2at"]),
    ({"ipex": "import os; os.kill(os.getpid(), 4)"},
     [f"failed its test at: import {IPEX}", "signal 4"]),
    ({"ipex": "def optimize(*_, **__): raise AssertionError('no AVX-512')"},
     ["failed its test at: training step with ipex.optimize in ", "AssertionError: no AVX-512"]),
    ({"ipex": STILL},
     ["failed its test at: training step with ipex.optimize in ", "the loss went from 64.0 to"]),
]  # fmt: skip


@pytest.mark.parametrize(("broken", "said"), BROKEN, ids=lambda v: str(v)[:40])
def test_a_host_whose_ipex_does_not_work_keeps_its_environment_and_names_what_failed(
    shop: Shop, broken: dict[str, str], said: list[str]
) -> None:
    assert shop.install().states == ["changed"]
    good = shop.current
    (shop.work / "ipexctl.lock").unlink()
    stand_ins(shop, **broken)
    bad = shop.install("--ipex", "2.7.0")
    assert (bad.code, bad.states) == (1, ["failed"]), bad.err + bad.out
    assert [text for text in said if text not in bad.detail] == []
    assert shop.current == good


def test_every_row_proves_the_modules_of_its_era() -> None:
    found = {
        row.name: [name for name, _, _ in stack_modules(row, lambda dist: "1")]
        for row in stack_rows()
        if row.name in ("torch-2.13", "ipex-2.8.0", "ipex-2.7.0", "ipex-1.10.100")
    }
    assert found == {
        "torch-2.13": ["torch"],
        "ipex-2.8.0": ["torch", IPEX],
        "ipex-2.7.0": ["torch", IPEX, BINDINGS],
        "ipex-1.10.100": ["torch", IPEX, "torch_ccl"],
    }


def test_the_agent_proves_nothing_but_modules_that_are_there(agent: Agent, tmp_path: Path) -> None:
    header: dict[str, object] = {
        "root": str(tmp_path / "root"), "key": "a" * 16, "mpi": "", "mpirun": [],
        "requested": [], "env": [],
    }  # fmt: skip
    header["modules"] = [["torch", "torch", "1"]]
    with pytest.raises(HostFailed, match="there is no torch, the lock requires 1"):
        agent.call("install.environments.prove", header)


# --- two ranks that compile the same files -------------------------------------------------------


def wait_for_bytecode(running: int):
    """The proof's own function, on a host where so many processes want a CPU."""
    functions = ast.parse(PROOF)
    wanted = [n for n in functions.body if getattr(n, "name", "") == "wait_for_bytecode"]
    there = {"os": os, "open": lambda path: StringIO(f"3.1 2.2 1.0 {running}/300 4711\n")}
    exec(compile(ast.Module(wanted, []), "PROOF", "exec"), there)
    return there["wait_for_bytecode"]


def test_where_cpus_are_busy_the_second_rank_waits_for_what_the_first_compiles(tmp_path) -> None:
    mark = tmp_path / "loaded"
    wait = wait_for_bytecode(os.cpu_count() + 1)
    waiting = threading.Thread(target=wait, args=(str(mark),), daemon=True)
    waiting.start()
    waiting.join(0.3)
    assert waiting.is_alive()
    mark.touch()
    waiting.join(20)
    assert not waiting.is_alive()


def test_where_a_cpu_is_free_it_does_not_wait(tmp_path) -> None:
    waiting = threading.Thread(
        target=wait_for_bytecode(os.cpu_count()), args=(str(tmp_path / "never"),), daemon=True
    )
    waiting.start()
    waiting.join(20)
    assert not waiting.is_alive()


# --- ranks that fail -----------------------------------------------------------------------------

FAILS = {
    "an import": ("raise ImportError('undefined symbol: _ZN2at')", "failed at import broken"),
    "a crash": ("os.kill(os.getpid(), 4)", "failed at import broken, where rank {rank} crashed"),
}


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize(("broken", "said"), FAILS.values(), ids=FAILS)
def test_no_rank_waits_for_one_that_failed(
    tmp_path: Path, broken: str, said: str, rank: int
) -> None:
    """Like Intel MPI, the stand-in of mpirun leaves the others alone when a rank ends."""
    standins.torch(tmp_path, "2.7.0+cpu", "py3-none-any")
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        wheel.extractall(tmp_path)
    text = f"import os\nif os.environ['PMI_RANK'] == '{rank}':\n    {broken}\n"
    (tmp_path / "broken.py").write_text(text)
    mpirun = tmp_path / "mpirun"
    mpirun.write_text(standins._MPIRUN)
    command = ["/bin/bash", str(mpirun), "-n", "2", sys.executable, "-c", PROOF]
    command += [str(tmp_path / "rendezvous"), "fp32", "torch", "broken"]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    lines = done.stderr.splitlines()
    ended = [line.partition("ipexctl-proof: ")[2] for line in lines if "failed at" in line]
    assert (done.returncode != 0, ended) == (True, [said.format(rank=rank)])
    why = "undefined symbol: _ZN2at" if "ImportError" in broken else "Illegal instruction"
    assert why in done.stderr


MODEL = "import torch\ntorch.vision = 1\n"
NMS = "raise RuntimeError('operator torchvision::nms does not exist')\n"


def with_vision(shop: Shop, **sources: str) -> None:
    files = {f"{name}/__init__.py": text.encode() for name, text in sources.items()}
    make_wheel(shop.wheels, "torchvision", "0.28.0+cpu", files)
    (shop.work / "needs.txt").write_text("torchvision\n")


def test_the_proof_imports_what_the_user_asked_for(shop: Shop) -> None:
    with_vision(shop, torchvision=NMS)
    done = shop.install("-r", "needs.txt")
    assert (done.code, done.slugs) == (1, ["env-test-failed"])
    assert ": import torchvision" in done.detail and " torchvision::nms " in done.detail
    assert shop.current == ""
    with_vision(shop, torchvision=MODEL, tests=NMS, other=NMS, _private=NMS)
    (shop.work / "ipexctl.lock").unlink()
    done = shop.install("-r", "needs.txt")
    assert (done.code, done.detail) == (0, "torch 2.13.0+cpu, imports torchvision")
    (kept,) = shop.ipexctl("env", "ls", "--root", str(shop.root), "--json").document["hosts"]
    requested = [(env["use"], env["requested"]) for env in kept["environments"]]
    asked_for = [{"package": "torchvision", "version": "0.28.0+cpu"}]
    assert sorted(requested, key=str) == [("current", asked_for), ("unused", [])]


def test_modules_are_known_by_the_record_and_not_by_the_name(shop: Shop) -> None:
    """One module of another name, a namespace, and a distribution without any."""
    make_wheel(shop.wheels, "scikit_model", "1.0", {"skmodel/__init__.py": b"import torch\n"})
    files = {"goo/cloud/thing/__init__.py": b"", "goo/cloud/thing/deep/__init__.py": b"1/0"}
    make_wheel(shop.wheels, "goo_cloud_thing", "1.0", files)
    make_wheel(shop.wheels, "only_data", "1.0", {"only_data-1.0.data/data/share/x": b""})
    (shop.work / "needs.txt").write_text("scikit-model\ngoo-cloud-thing\nonly-data\n")
    done = shop.install("-r", "needs.txt")
    assert (done.code, done.detail) == (0, "torch 2.13.0+cpu, imports goo.cloud.thing, skmodel")
