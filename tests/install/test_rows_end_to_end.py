"""Rows with the oneCCL bindings from the command line to an environment in use, with stand-ins.

The table is the real one, and its addresses are asked, of a web on the loopback. The wheels are
stand-ins (standins.py): the real torch of that age, IPEX and oneccl_bind_pt were never here. What
is shown: the names of each era, the index of each package, the order of imports, the variables of
setvars.sh, an environment that is built, proved by two ranks and switched to, and the refusals.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from ipexctl.inventory.inventory import Host
from ipexctl.lab import HostSpec, LabSpec
from ipexctl.machines.agent_start import start_host_agent
from ipexctl.machines.probe_host import probe_facts
from ipexctl.machines.wire.transport import LocalTransport
from ipexctl.packages.uv import find_uv
from ipexctl.stack.lock_file import parse_lock
from ipexctl.stack.version_table import StackRow
from tests.cli import ipexctl
from tests.conftest import MakeLab
from tests.install import standins
from tests.install.conftest import REPO, Outcome, finish, make_wheel
from tests.install.standins import IPEX, NEW, OLD
from tests.packages.web import DEFAULT, Web, index, page, web
from tests.simulated_cpu import cpu
from tests.stack.test_table import row as of_table

BINDINGS, IPEX_DIST = "oneccl-bind-pt", IPEX.replace("_", "-")
IMPI = "2021.18.1"
MAC = "macosx_11_0_arm64"  # wheels that lie beside those for Linux, and that no host can take
# row, what is asked for, module of the bindings, site of Intel's wheels, numpy
ROWS = [
    ("ipex-1.10.100", "1.10", OLD, "software", "1.19.5"),
    ("ipex-1.11.200", "1.11", OLD, "developer", "1.19.5"),
    ("ipex-1.12.300", "1.12.1", NEW, "developer", "1.19.5"),
    ("ipex-1.13.100", "1.13", NEW, "developer", "1.19.5"),
    ("ipex-2.0.0", "2.0.0", NEW, "developer", "1.19.5"),
    ("ipex-2.7.0", "2.7", NEW, "pytorch-extension", "2.1.0"),
]


@dataclass
class World:
    """A web with stand-ins, an empty working folder, and the real command run with them."""

    folder: Path
    web: Web
    pythons: dict[str, str]  # minor -> path, of this machine
    front: tuple[str, ...] = ()  # what the command is started with
    path: str = str(REPO)  # PYTHONPATH

    @property
    def root(self) -> Path:
        return self.folder / "root"

    def stock(self, row: StackRow, python: str, *, away: bool = False) -> None:
        """`away`: the hosts do not see this machine's files, so uv itself travels, not its path."""
        tag = python.replace(".", "")
        tag = f"cp{tag}-cp{tag}{'m' * (python in ('3.6', '3.7'))}-linux_x86_64"
        default = self.web.shelf(f"https://{DEFAULT}/simple")
        intel, pytorch = self.web.shelf(row.links), self.web.shelf(row.torch_index)
        standins.torch(pytorch, f"{row.torch}+cpu", tag)
        standins.ipex(intel, row.ipex, tag)
        standins.bindings(intel, f"{row.oneccl}+cpu", tag, row.oneccl_import)
        for version in ("1.19.5", "2.1.0"):
            make_wheel(default, "numpy", version, {"numpy.py": b""})
        make_wheel(default, "psutil", "5.9", {"psutil.py": b""})
        for version in ("80.9.0", "81.0.0"):
            make_wheel(default, "setuptools", version, {"setuptools.py": b""})
        standins.impi_rt(default, IMPI)
        standins.impi_rt(default, "2021.19.0", "libfabric>=2.6")
        program = Path(find_uv(os.environ))
        uv = program.read_bytes() if away else f'#!/bin/sh\nexec {program} "$@"\n'.encode()
        files = {"uv-0.9.9.data/scripts/uv": uv}
        make_wheel(default, "uv", "0.9.9", files, tag="py3-none-manylinux_2_17_x86_64")
        make_wheel(default, "uv", "0.9.9", {}, tag=f"py3-none-{MAC}")
        make_wheel(pytorch, "torch", f"{row.torch}+cpu", {}, tag=f"py3-none-{MAC}")
        self.look_alikes(default, row)
        index(default)
        for shelf, flat in ((intel, "links" in row.flat), (pytorch, "torch_index" in row.flat)):
            name = urlsplit(row.torch_index).path.rpartition("/")[2] if shelf == pytorch else ""
            page(shelf, name or "index.html") if flat else index(shelf)

    def look_alikes(self, default: Path, row: StackRow) -> None:
        """What anybody could put under the free names: newer than all that is real."""
        for name, version in (("oneccl_bind_pt", row.oneccl), ("torch", row.torch)):
            for evil in (version, "99.0"):
                make_wheel(default, name, evil, {f"{name}.py": b"raise SystemExit('look-alike')"})

    def install(self, *options: str) -> Outcome:
        place = ("--root", str(self.root), "--index-url", f"https://{DEFAULT}/simple")
        return self.command("install", "-y", "--json", *place, *options)

    def command(self, *words: str) -> Outcome:
        work = self.folder / "work"
        work.mkdir(exist_ok=True)
        if not self.front:
            done = ipexctl(*words, cwd=work, env=self.environ())
            return Outcome(done.returncode, done.stdout, done.stderr)
        return finish(
            subprocess.Popen(
                [*self.front, sys.executable, "-m", "ipexctl", *words],
                cwd=work, env=self.environ(), stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )
        )  # fmt: skip

    def environ(self) -> dict[str, str]:
        dropped = ("PIP_", "UV_", "NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy", "SSL_CERT_")
        kept = {k: v for k, v in os.environ.items() if not k.startswith(dropped)}
        mine = {"PIP_CONFIG_FILE": os.devnull, "PYTHONPATH": self.path, "UV_HTTP_RETRIES": "0"}
        caches = {
            "XDG_CACHE_HOME": str(self.folder / "cache"),
            "UV_CACHE_DIR": str(self.folder / "uv"),
        }
        return {**kept, **mine, **caches, **self.web.environ()}

    def told(self) -> list[dict[str, object]]:
        """What the stand-ins wrote down when they were imported."""
        text = (self.root / "current" / "standins.jsonl").read_text()
        return [json.loads(line) for line in text.splitlines()]


@pytest.fixture(scope="session")
def pythons_here() -> dict[str, str]:
    agent = start_host_agent(LocalTransport(), Host("here", local=True))
    try:
        found = probe_facts(agent, "/nonexistent").pythons
    finally:
        agent.close()
    return {f"{p.version[0]}.{p.version[1]}": p.path for p in found}


@pytest.fixture
def world(tmp_path: Path, pythons_here: dict[str, str]) -> Iterator[World]:
    links = [of_table(name) for name, *_ in ROWS]
    sites = {str(urlsplit(u).hostname) for r in links for u in (r.links, r.torch_index)}
    with web(tmp_path, [DEFAULT, *sorted(sites)]) as made:
        yield World(tmp_path, made, pythons_here)


def fitting_python(world: World, row: StackRow) -> str:
    """The oldest that this machine has for the row: that is where old ways end."""
    for minor in row.pythons:
        if (text := f"{minor[0]}.{minor[1]}") in world.pythons:
            return text
    named = ", ".join(f"{a}.{b}" for a, b in row.pythons)
    return pytest.skip(f"none of the row's Pythons is on this machine ({named})")


@pytest.mark.parametrize("expected", ROWS, ids=lambda e: e[0])
def test_a_row_from_its_indexes_to_an_environment_in_use(
    world: World, expected: tuple[str, str, str, str, str]
) -> None:
    name, torch, module, site, numpy = expected
    row = of_table(name)
    python = fitting_python(world, row)
    world.stock(row, python)
    done = world.install("--torch", torch, "--backend", "ccl", "--python", world.pythons[python])
    if row.isa == "avx512" and done.code == 3 and "the CPU lacks" in done.err:
        pytest.skip("this machine has no AVX-512, and so is rightly refused")
    assert done.code == 0, done.err + done.out
    assert done.states == ["changed"]
    assert done.document["row"] == name

    # right names, right versions, right place for each
    lock = (world.folder / "work" / "ipexctl.lock").read_text()
    more = {"1.10": [("psutil", "5.9")], "2.7": [("setuptools", "80.9.0")]}.get(torch, [])
    assert packages(lock) == sorted([
        ("impi-rt", IMPI), (IPEX_DIST, row.ipex), ("numpy", numpy), *more,
        (BINDINGS, f"{row.oneccl}+cpu"), ("torch", f"{row.torch}+cpu"),
    ])  # fmt: skip
    intel, pytorch = (str(urlsplit(u).hostname) for u in (row.links, row.torch_index))
    assert intel.split(".")[0] == site
    asked = {p: world.web.asked(p) for p in ("numpy", "impi-rt", "uv", BINDINGS, IPEX_DIST)}
    everybodys = dict.fromkeys(("numpy", "impi-rt", "uv"), {DEFAULT})
    assert asked == {**everybodys, BINDINGS: {intel}, IPEX_DIST: {intel}}
    assert not {path for s, path in world.web.seen if s == DEFAULT and "oneccl" in path}
    assert (pytorch, True) in {(s, "torch-" in path) for s, path in world.web.seen}

    # proved by two ranks, in the order in which a program must import
    told = world.told()
    for rank in ("0", "1"):
        assert [t["module"] for t in told if t["rank"] == rank] == ["torch", IPEX, module]
    assert f"{module} {row.oneccl}+cpu" in done.detail
    assert done.detail.endswith("2 ranks agree, setvars.sh sourced")

    # what the script sets, below what is ours
    prefix = str((world.root / "current").resolve())
    ccl = next(Path(prefix, "lib").glob(f"python3*/site-packages/{module}"))
    theirs = {n: v.replace("$CCL_ROOT", str(ccl)) for n, v in standins.SETVARS[module].items()}
    env = next(t["env"] for t in told if t["module"] == module)
    assert isinstance(env, dict)
    assert env.pop("PATH").startswith(f"{prefix}/bin:{theirs['PATH']}:")
    assert env == {
        "CCL_ROOT": str(ccl), "I_MPI_ROOT": prefix, "FI_PROVIDER_PATH": None,
        "LD_LIBRARY_PATH": f"{prefix}/lib:{theirs['LD_LIBRARY_PATH']}",
    }  # fmt: skip


# options, and what is said of which row
REFUSED = [
    (("--torch", "2.7", "--stack", "ipex", "--python", "3.99"), "ipex-2.7.0", "3.99 is required"),
    (("--torch", "1.10"), "ipex-1.10.0", "it has IPEX, which needs --stack ipex"),
    (("--torch", "2.8", "--backend", "ccl"), "ipex-2.8.0", "it has no oneCCL bindings"),
    (("--torch", "1.12.1", "--ipex", "1.12.0"), "ipex-1.12.300",
     "IPEX is not 1.12.0"),
]  # fmt: skip
if sys.version_info >= (3, 11):  # the Python of the tests is also the one that is asked for
    options = ("--torch", "1.13", "--stack", "ipex")
    REFUSED.append((options, "ipex-1.13.100", "but 3.7 to 3.10 is required"))


@pytest.mark.parametrize(("options", "name", "why"), REFUSED, ids=lambda v: str(v)[:40])
def test_what_cannot_be_is_refused_before_any_index_is_asked(
    world: World, options: tuple[str, ...], name: str, why: str
) -> None:
    if "--python" not in options:
        options += ("--python", sys.executable)
    refused = world.install(*options)
    assert refused.code == 3, refused.err
    assert why_not(refused.err, name).endswith(why)
    assert world.web.seen == []
    assert not world.root.exists() or not (world.root / "current").exists()


def test_the_bindings_asked_for_with_2_8_are_those_of_2_7(world: World) -> None:
    refused = world.install("--torch", "2.8", "--backend", "ccl")
    assert refused.code == 3
    assert "it has no oneCCL bindings" in refused.err and "ipexctl stacks" in refused.err
    row = of_table("ipex-2.7.0")
    python = fitting_python(world, row)
    world.stock(row, python)
    asked = ("--backend", "ccl", "--python", world.pythons[python], "--check")
    done = world.command("install", *asked, "-y", "--index-url", f"https://{DEFAULT}/simple")
    assert done.code == 0, done.err
    (line,) = (text for text in done.err.splitlines() if f"{row.title}, ccl, " in text)
    assert f" {IMPI}, " in line and f" Python {python} " in line
    assert f"not tested: {row.doubts[0]}; " in done.err


@pytest.mark.lab
def test_a_host_without_avx512_is_refused_by_name_and_the_others_are_not(
    world: World, make_lab: MakeLab
) -> None:
    lab = make_lab(
        LabSpec(name="isas", hosts=(HostSpec(covers=cpu("avx512")), HostSpec(covers=cpu("avx2"))))
    )
    reach = ("-f", str(lab.hostfile), "-F", str(lab.ssh_config), "--mpi", "none", "--check")
    for torch, name in (("1.10", "ipex-1.10.100"), ("1.12.0", "ipex-1.12.0")):
        refused = world.install("--torch", torch, "--stack", "ipex", *reach)
        assert refused.code == 3
        why = why_not(refused.err, name)
        assert "node02: the CPU lacks avx512bw, avx512cd, avx512dq, avx512f, avx512vl" in why
        assert "node01: the CPU" not in why


def why_not(said: str, name: str) -> str:
    """The one line of reasons that is about this row, or about this row and others."""
    lines = (line.strip().removeprefix("why: ") for line in said.splitlines())
    (line,) = (s for s in lines if name in s.partition(": ")[0].split(", "))
    return line


def packages(lock: str) -> list[tuple[str, str]]:
    found = parse_lock(lock, "ipexctl.lock")
    return sorted((p.name, p.version) for p in found.packages)
