"""setvars.sh of the oneCCL bindings, by stand-ins of both eras and by scripts that misbehave.

The stand-ins set what oneCCL's own template of that script sets; the real bindings were never here.
"""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from ipexctl.errors import HostFailed
from ipexctl.facts.mpi_install_facts import Mpi
from ipexctl.inventory.inventory import Host
from ipexctl.machines.agent_start import start_host_agent
from ipexctl.machines.wire.transport import LocalTransport
from ipexctl.remote import main
from ipexctl.remote.failure import Failure
from ipexctl.remote.install import setvars_script
from ipexctl.stack import mpi
from ipexctl.stack.mpi import with_setvars
from tests.install.standins import NEW, OLD, SETVARS, setvars_sh

KEY = "a" * 16


def environment(root: Path, package: str, script: str) -> Path:
    """What is looked at of an environment: a Python, and the script in its place."""
    prefix = root / "envs" / KEY
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin" / "python").write_text("#!/bin/sh\n")
    (prefix / "bin" / "python").chmod(0o755)
    folder = prefix / "lib" / "python3.11" / "site-packages" / package / "env"
    folder.mkdir(parents=True)
    (folder / "setvars.sh").write_text(script)
    (root / "current").symlink_to(f"envs/{KEY}")
    return folder.parent


def ask(root: Path) -> object:
    """The variables that a run is told."""
    agent = start_host_agent(LocalTransport(), Host("here", local=True))
    try:
        return agent.call("run.run_environment.find", {"root": str(root), "run_id": "x"}).done[
            "setvars"
        ]
    finally:
        agent.close()


@pytest.mark.parametrize("package", [NEW, OLD])
def test_the_script_of_its_era_is_found_and_sourced(tmp_path: Path, package: str) -> None:
    root = tmp_path / "root"
    there = environment(root, package, setvars_sh(package))
    assert ask(root) == {
        name: value.replace("$CCL_ROOT", str(there)) for name, value in SETVARS[package].items()
    }


def test_an_environment_without_bindings_sets_nothing(tmp_path: Path) -> None:
    root = tmp_path / "root"
    environment(root, "something_else", "export EVIL=1")
    assert ask(root) == {}


def test_a_folder_with_a_letter_that_is_not_ascii_is_no_trouble(tmp_path: Path) -> None:
    root = tmp_path / "K\u00f6ln"
    there = environment(root, NEW, setvars_sh(NEW))
    found = ask(root)
    assert isinstance(found, dict)
    assert found["CCL_ROOT"] == str(there)


def test_a_folder_with_spaces_and_quotes_is_refused_before_a_shell_sees_it(tmp_path: Path) -> None:
    root = tmp_path / "it's a $(touch root)"
    environment(root, NEW, setvars_sh(NEW))
    with pytest.raises(HostFailed, match="contains"):
        ask(root)
    assert not list(tmp_path.glob("**/root"))


# what the script does, and what is learned from it
ODD = [
    ("echo noise; echo more >&2; export A=1", {"A": "1"}),
    ("yes | head -c 9000000; export A=1", {"A": "1"}),
    ("unset PATH HOME; export A=1", {"A": "1"}),
    ("export A=1; return 3", {"A": "1"}),
    ("set -eu; export A=1; set --", {"A": "1"}),
    ("export A=\"$#\"", {"A": "0"}),
    ("f() { :; }; export -f f; export A=1; cd /tmp", {"A": "1"}),
    ("export A=$'two\\nlines = odd'", {"A": "two\nlines = odd"}),
    ("export A=$'no text \\xff' B=1", {"B": "1"}),
    ("export PATH=/x:$PATH:/y", {"PATH": "/x:/y"}),
    ("source /nowhere/vars.sh; export A=1", {"A": "1"}),
]  # fmt: skip


@pytest.mark.parametrize(("script", "found"), ODD)
def test_whatever_the_script_says_only_what_it_sets_counts(
    tmp_path: Path, script: str, found: dict[str, str]
) -> None:
    root = tmp_path / "root"
    environment(root, NEW, script + "\n")
    assert ask(root) == found


# how the script ends the shell that reads it
BROKEN = [
    ("exit 1", "bash failed (exit 1)"),
    ("exit 0", "it exits the shell that sources it"),
    ("kill -9 $$", "bash failed (signal 9)"),
    ("export A=$(yes | head -c 3000000)", "bash failed (exit 126)"),
]


@pytest.mark.parametrize(("script", "why"), BROKEN)
def test_a_script_that_ends_its_shell_is_told_with_how_to_look_at_it(
    tmp_path: Path, script: str, why: str
) -> None:
    root = tmp_path / "root"
    there = environment(root, NEW, script + "\n")
    with pytest.raises(HostFailed) as told:
        ask(root)
    assert told.value.slug == "setvars-failed"
    assert told.value.why == why
    assert f"bash -c 'source {there}/env/setvars.sh'" in told.value.hint


def a_call() -> main.Call:
    agent = main.AgentLoop(io.BytesIO(), io.BytesIO(), {})
    return main.Call(agent, 1)


def test_a_script_that_never_ends_is_ended(tmp_path: Path) -> None:
    there = environment(tmp_path / "root", NEW, f"echo $$ > {tmp_path}/pid; sleep 600; exit 1\n")
    with pytest.raises(Failure) as told:
        setvars_script.source_script(
            a_call(), str(tmp_path), str(there / "env" / "setvars.sh"), 2.0
        )
    assert (told.value.slug, told.value.why.endswith(" in time")) == ("setvars-failed", True)
    pid = int((tmp_path / "pid").read_text())
    assert not Path(f"/proc/{pid}").exists()


# --- what of it is used --------------------------------------------------------------------------

FOUND = {name: value.replace("$CCL_ROOT", "/p/ccl") for name, value in SETVARS[NEW].items()}


def impi(version: str) -> Mpi:
    return Mpi("intel", version, "/p/bin")


OURS = [
    ("nothing of the carried MPI goes before ours", mpi.env_vars("/p", impi("2021.18")),
     {"PATH": f"/p/bin:{FOUND['PATH']}", "I_MPI_ROOT": "/p",
      "LD_LIBRARY_PATH": f"/p/lib:{FOUND['LD_LIBRARY_PATH']}"}, {"FI_PROVIDER_PATH"}),
    ("in the older layout our providers win", mpi.env_vars("/p", impi("2021.14")),
     {"PATH": f"/p/bin:{FOUND['PATH']}", "I_MPI_ROOT": "/p",
      "FI_PROVIDER_PATH": "/p/lib/libfabric/prov",
      "LD_LIBRARY_PATH": f"/p/lib:/p/lib/libfabric:{FOUND['LD_LIBRARY_PATH']}"}, set()),
    ("without one all of it is taken", mpi.env_vars("/p", None),
     {"PATH": f"/p/bin:{FOUND['PATH']}"}, set()),
]  # fmt: skip


@pytest.mark.parametrize(("_title", "ours", "changed", "left_out"), OURS)
def test_ours_wins_over_the_scripts(
    _title: str, ours: mpi.Pairs, changed: dict[str, str], left_out: set[str]
) -> None:
    kept = {name: value for name, value in FOUND.items() if name not in left_out}
    assert dict(with_setvars(ours, FOUND)) == {**kept, **changed}
    assert with_setvars(ours, {}) == tuple(ours)
