"""What is installed on a host: read from made folders by the agent itself, over its own way."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ipexctl.facts.host_facts import from_json
from ipexctl.facts.mpi_install_facts import Layout, MpiFolder
from ipexctl.facts.package_changes import PackageChange
from ipexctl.facts.pythons_facts import Python
from ipexctl.facts.software_facts import Current, Prefix, SoftwareFacts
from ipexctl.inventory.inventory import Host
from ipexctl.machines.agent_start import start_host_agent
from ipexctl.machines.probe_host import probe_facts
from ipexctl.machines.wire.transport import LocalTransport

# What each impi-rt puts where, of the files that matter; the folders are below the environment.
LAYOUTS = {
    "2021.12.0": (
        ["lib/libmpi.so.12", "lib/libfabric/libfabric.so.1", "lib/libfabric/prov/libtcp-fi.so",
         "lib/libfabric/prov/libverbs-1.12-fi.so"],
        Layout(True, "lib/libfabric", ("tcp", "verbs"), ()),
    ),
    "2021.18.1": (
        ["lib/libmpi.so.12", "lib/libfabric.so.1", "lib/libtcp-fi.so", "lib/libpsmx2-fi.so"],
        Layout(True, "lib", ("psmx2", "tcp"), ()),
    ),
    "2021.19.0": (["lib/libmpi.so.12"], Layout(True, "", (), ())),
}  # fmt: skip


def look(monkeypatch: pytest.MonkeyPatch, home: Path, **variables: str) -> SoftwareFacts:
    """As the agent of this machine sees an account with that home and these variables."""
    monkeypatch.setenv("HOME", str(home))
    for name, value in {"PATH": "/usr/bin:/bin", **variables}.items():
        monkeypatch.setenv(name, value)
    agent = start_host_agent(LocalTransport(), Host("here", local=True), timeout=30)
    try:
        found = probe_facts(agent, str(home / ".ipexctl")).software
    finally:
        agent.close()
    assert found
    return found


def make(folder: Path, *files: str) -> Path:
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch(0o755)
    return folder


def package(folder: Path, name: str, version: str) -> None:
    (folder / "lib/python3.11/site-packages" / f"{name}-{version}.dist-info").mkdir(parents=True)


def of(found: SoftwareFacts, path: Path) -> Prefix:
    return next(p for p in found.prefixes if p.path == str(path.resolve()))


@pytest.mark.parametrize("version", LAYOUTS)
def test_the_files_of_every_layout_of_intel_mpi_are_found(monkeypatch, tmp_path, version):
    files, expected = LAYOUTS[version]
    env = make(tmp_path / ".ipexctl/envs/0123456789abcdef", "bin/mpirun", "bin/mpiexec.hydra")
    make(env, *files)
    package(env, "impi_rt", version)
    (tmp_path / ".ipexctl/current").symlink_to(env)
    found = of(look(monkeypatch, tmp_path), env).mpi
    fabric = f"{env}/{expected.libfabric}" if expected.libfabric else ""
    assert found == Layout(True, fabric, expected.providers, ())


def test_a_package_that_install_did_not_put_there_is_told(monkeypatch, tmp_path):
    env = make(tmp_path / ".ipexctl/envs/0123456789abcdef", "bin/python")
    package(env, "numpy", "1.26")
    package(env, "torch", "2.13.0+cpu")
    dists = {"numpy-2.0.dist-info": "", "torch-2.13.0+cpu.dist-info": ""}
    (env / ".ipexctl-ok").write_text(json.dumps({"wheels": [], "dists": dists}))
    (tmp_path / ".ipexctl/current").symlink_to(env)
    current = look(monkeypatch, tmp_path).current
    assert current and current.environment and current.environment.key == "0123456789abcdef"
    assert replace(current, environment=None) == Current(
        str(env), True, True, (PackageChange("numpy", "2.0", "1.26"),)
    )


def test_an_environment_is_told_with_its_kind_python_and_versions(monkeypatch, tmp_path):
    venv = make(tmp_path / "work/venv", "pyvenv.cfg", "bin/python3")
    package(venv, "torch", "2.7.0+cpu")
    package(venv, "intel_extension_for_pytorch", "2.7.0")
    package(venv, "Not_Ours", "1.0")
    make(venv, "lib/python3.11/site-packages/torch/lib/libtorch_cuda.so")
    found = look(monkeypatch, tmp_path, VIRTUAL_ENV=str(venv))
    assert of(found, venv) == Prefix(
        path=str(venv),
        kind="active",
        python="3.11",
        packages=(("intel-extension-for-pytorch", "2.7.0"), ("torch", "2.7.0+cpu")),
        cuda=True,
    )
    assert found.used is None


def test_programs_of_an_mpi_that_cannot_be_run_are_told(monkeypatch, tmp_path):
    folder = make(tmp_path / "mpi/bin", "mpirun", "hydra_bstrap_proxy")
    (folder / "hydra_bstrap_proxy").chmod(0o644)
    found = look(monkeypatch, tmp_path, PATH=f"{folder}:/usr/bin:/bin")
    assert found.mpis[0] == MpiFolder(str(folder), ("hydra_bstrap_proxy",))


def test_of_proxies_only_the_names_are_told_and_of_other_variables_nothing(monkeypatch, tmp_path):
    found = look(
        monkeypatch,
        tmp_path,
        https_proxy="http://user:canary@proxy:3128",
        NO_PROXY="user:canary@proxy",
        no_proxy="localhost,10.0.0.0/8",
        HF_TOKEN="canary",
        OMP_NUM_THREADS="4",
    )
    expected = {"https_proxy": None, "NO_PROXY": None, "no_proxy": "localhost,10.0.0.0/8"}
    assert dict(found.env) == expected
    assert "canary" not in repr(found)


def test_an_unreadable_folder_and_a_loop_of_links_stop_nothing(monkeypatch, tmp_path):
    (tmp_path / ".ipexctl").mkdir()
    (tmp_path / ".ipexctl/current").symlink_to("current")
    (tmp_path / "loop").symlink_to("loop")
    make(tmp_path / "env", "pyvenv.cfg", "lib/python3.11/site-packages/x")
    assert look(monkeypatch, tmp_path).used is None


@pytest.mark.parametrize(
    ("there", "lacks"),
    [
        (("_json", "_ssl", "_bz2", "_sqlite3"), ()),
        (("_json", "_ssl"), ("_bz2", "_sqlite3")),
        (("_ctypes_test",), ()),  # all others are a part of the program
    ],
)
def test_modules_that_a_python_was_built_without_are_told(monkeypatch, tmp_path, there, lacks):
    top = tmp_path / ".pyenv/versions/3.12.9"
    modules, program = top / "lib/python3.12/lib-dynload", top / "bin/python3.12"
    modules.mkdir(parents=True)
    program.parent.mkdir()
    program.write_bytes(b"\x7fELF")
    program.chmod(0o755)
    for name in there:
        (modules / f"{name}.cpython-312-x86_64-linux-gnu.so").touch()
    monkeypatch.setenv("HOME", str(tmp_path))
    agent = start_host_agent(LocalTransport(), Host("here", local=True), timeout=30)
    try:
        found = probe_facts(agent).pythons
    finally:
        agent.close()
    assert Python(str(program), (3, 12, 9), lacks) in found


def test_a_python_without_a_path_is_none():
    raw = [
        {"path": "/usr/bin/python3", "version": [3, 11]},
        {"version": [3, 11]},
        {"path": 7, "version": [3, 11]},
        "/usr/bin/python3",
    ]
    parts: dict[str, object] = dict.fromkeys(("host", "cpu", "mem", "disk", "net"), {})
    facts = from_json("n1", {**parts, "pythons": raw})
    assert facts.pythons == (Python("/usr/bin/python3", (3, 11)),)
