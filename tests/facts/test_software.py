"""What is installed on a host: read from made folders by the agent itself, over its own way."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ipexctl.env.choice.package_changes import Change
from ipexctl.facts.reader import record
from ipexctl.facts.software_facts import Current, Layout, Mpi, Prefix, SoftwareFacts
from ipexctl.inventory.inventory import Host
from ipexctl.machines.agent_start import connect
from ipexctl.machines.probe_host import probe
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
    agent = connect(LocalTransport(), Host("here", local=True), timeout=30)
    try:
        found = probe(agent, str(home / ".ipexctl")).software
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
        str(env), True, True, 0, (Change("numpy", "2.0", "1.26"),)
    )


def test_an_environment_is_told_with_its_kind_python_and_versions(monkeypatch, tmp_path):
    venv = make(tmp_path / "work/venv", "pyvenv.cfg", "bin/python3")
    package(venv, "torch", "2.7.0+cpu")
    package(venv, "intel_extension_for_pytorch", "2.7.0")
    package(venv, "Not_Ours", "1.0")
    other = make(tmp_path / "old", "pyvenv.cfg")
    package(other, "torch", "1.13.0")
    make(other, "lib/python3.11/site-packages/torch/lib/libtorch_cuda.so")
    found = look(monkeypatch, tmp_path, VIRTUAL_ENV=str(venv))
    assert of(found, venv) == Prefix(
        path=str(venv),
        kind="active",
        python="3.11",
        packages=(("intel-extension-for-pytorch", "2.7.0"), ("torch", "2.7.0+cpu")),
    )
    assert (of(found, other).kind, of(found, other).cuda) == ("other", True)
    assert found.used is None


MPIS = {
    "Intel's script": (["hydra_bstrap_proxy", "mpiexec.hydra", "mpirun"], "mpirun", "intel"),
    "Open MPI 5": (["prterun", "ompi_info"], "prterun", "openmpi"),
    "Open MPI 4 of Debian": (["mpirun.openmpi"], "mpirun.openmpi", "openmpi"),
    "MPICH": (["mpiexec.hydra", "mpichversion"], "mpiexec.hydra", "mpich"),
    "MPICH of Debian": (["mpirun.mpich"], "mpirun.mpich", "mpich"),
    "nobody knows": (["mpirun"], "mpirun", "unknown"),
}


@pytest.mark.parametrize(("files", "starter", "flavour"), MPIS.values(), ids=MPIS)
def test_an_mpi_is_known_by_its_files(monkeypatch, tmp_path, files, starter, flavour):
    folder = make(tmp_path / "mpi/bin", *files)
    if starter != "mpirun":
        (folder / "mpirun").symlink_to(starter)
    make(tmp_path / "mpi/lib/pkgconfig")
    found = look(monkeypatch, tmp_path, PATH=f"{folder}:/usr/bin:/bin")
    assert found.mpis[0] == Mpi(flavour, "", str(folder), 0)


def test_a_version_comes_from_pkgconfig_or_the_path(monkeypatch, tmp_path):
    ompi = make(tmp_path / "ompi", "bin/prterun", "lib/pkgconfig/ompi.pc")
    (ompi / "bin/mpirun").symlink_to("prterun")
    (ompi / "lib/pkgconfig/ompi.pc").write_text("Name: Open MPI\nVersion: 5.0.11\n")
    intel = make(tmp_path / "mpi/2021.15/bin", "hydra_bstrap_proxy", "mpirun")
    found = look(monkeypatch, tmp_path, PATH=f"{ompi}/bin:{intel}:/usr/bin:/bin")
    assert [str(m) for m in found.mpis[:2]] == ["Open MPI 5.0.11", "Intel MPI 2021.15"]


def test_of_secrets_only_the_names_are_told(monkeypatch, tmp_path):
    found = look(
        monkeypatch,
        tmp_path,
        SLURM_JWT="canary",
        TORCH_API_KEY="canary",
        CCL_MIRROR="https://user:canary@mirror/",
        https_proxy="http://user:canary@proxy:3128",
        HF_TOKEN="canary",
        OMP_NUM_THREADS="4",
    )
    env = dict(found.env)
    told = {name: env[name] for name in ("SLURM_JWT", "TORCH_API_KEY", "CCL_MIRROR", "https_proxy")}
    assert told == dict.fromkeys(told)
    assert env["OMP_NUM_THREADS"] == "4"
    assert "HF_TOKEN" not in env


def test_what_intels_scripts_leave_behind_is_told(monkeypatch, tmp_path):
    names = ("ONEAPI_ROOT", "SETVARS_COMPLETED", "CMPLR_ROOT", "MKLROOT", "I_MPI_ROOT", "CCL_ROOT")
    found = look(monkeypatch, tmp_path, **dict.fromkeys(names, "/opt/intel"))
    assert {name: dict(found.env).get(name) for name in names} == dict.fromkeys(names, "/opt/intel")
    assert "canary" not in repr(found)


STARTUP = {
    "source /opt/intel/setvars.sh": "source /opt/intel/setvars.sh",
    "  . ~/setvars.sh --force": ". ~/setvars.sh --force",
    "TOKEN=canary; source /opt/intel/setvars.sh": "source /opt/intel/setvars.sh",
    "if [ -f /o/setvars.sh ]; then . /o/setvars.sh; fi": "then . /o/setvars.sh",
    "sh /opt/intel/setvars.sh": "sh /opt/intel/setvars.sh",
    "./env/vars.sh": "./env/vars.sh",
    "# source /opt/intel/setvars.sh": None,
    "alias one='source /opt/intel/setvars.sh'": None,
    "echo run setvars.sh first": None,
    "export SETVARS=/opt/intel/setvars.sh": None,
}


@pytest.mark.parametrize(("line", "told"), STARTUP.items())
def test_commands_of_start_up_files_are_told_and_nothing_beside_them(
    monkeypatch, tmp_path, line, told
):
    (tmp_path / ".bashrc").write_text(f"PS1=x\n{line}\n")
    found = look(monkeypatch, tmp_path)
    assert found.startup == (((".bashrc", told),) if told else ())


def test_an_unreadable_folder_and_a_loop_of_links_stop_nothing(monkeypatch, tmp_path):
    (tmp_path / ".ipexctl").mkdir()
    (tmp_path / ".ipexctl/current").symlink_to("current")
    (tmp_path / "loop").symlink_to("loop")
    make(tmp_path / "env", "pyvenv.cfg", "lib/python3.11/site-packages/x")
    os.mkfifo(tmp_path / ".bashrc")
    os.mkfifo(tmp_path / ".profile")
    assert look(monkeypatch, tmp_path).used is None


# --- what a host sends is not believed -----------------------------------------------------------

ODD: list[Any] = [None, 1, -1, 1.5, True, "x", "\x1b[2J", [], [[]], [None], {}, {"a": {}}, [{}]]
FIELDS = ("current", "prefixes", "mpis", "env", "missing", "shadows", "startup", "accelerate",
          "accelerate_path", "stale", "stale_bytes", "fabrics")  # fmt: skip


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_odd_answers_are_left_out(odd):
    for name in FIELDS:
        found = record(SoftwareFacts, {name: odd})
        assert isinstance(found, SoftwareFacts)
    inner = {"path": "/x", "packages": odd, "mpi": odd, "omp": odd, "ccl": odd, "python": odd}
    mpi = {"bin": "/x", "path": odd, "not_run": odd}
    found = record(SoftwareFacts, {"prefixes": [inner], "mpis": [mpi]})
    assert (len(found.prefixes), len(found.mpis)) == (1, 1)
    assert "\x1b" not in repr(record(SoftwareFacts, {"env": {"A": odd}, "fabrics": [odd]}))
