"""A controller that looks like a Mac: no /proc, and a Python that says darwin (macos/).

The hosts are Linux all the same. That it runs on a real Mac is not shown by this.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ipexctl.lab import HostSpec, LabSpec
from ipexctl.stack.lock_file import parse_lock
from tests.conftest import MakeLab
from tests.install.conftest import REPO
from tests.install.test_rows_end_to_end import World, pythons_here, world
from tests.simulated_cpu import cpu
from tests.stack.test_table import row as of_table

__all__ = ["pythons_here", "world"]  # fixtures

PATH = f"{REPO / 'tests' / 'macos'}:{REPO}"
HIDE = ("unshare", "-m", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh")
# What of the suite is about the controller alone, quick, and not pure: pure code sees no system.
CONTROLLERS_HALF = (
    "files/test_sync.py", "packages/test_indexes.py", "packages/test_fetch.py",
    "stack/test_stacks_command.py",
)  # fmt: skip
RANK = """
import os, sys
print("rank", os.environ["RANK"], sys.platform, os.path.basename(os.environ["CCL_ROOT"]))
"""


def mac(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*HIDE, *words], cwd=REPO, env={**os.environ, "PYTHONPATH": PATH},
        capture_output=True, text=True, timeout=250,
    )  # fmt: skip


@pytest.fixture(scope="module")
def like_a_mac() -> None:
    look = "import os, platform, sys; print(sys.platform, platform.machine(), os.listdir('/proc'))"
    try:
        said = mac(sys.executable, "-c", look)
    except OSError:
        pytest.skip("there is no unshare here")
    if said.returncode:
        pytest.skip(f"/proc cannot be hidden here: {said.stderr.strip()}")
    assert said.stdout == "darwin arm64 []\n"


@pytest.mark.lab  # it hides /proc, as root
def test_the_controllers_half_of_the_suite_passes_there(like_a_mac: None) -> None:
    files = [str(Path("tests") / name) for name in CONTROLLERS_HALF]
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not lab")
    done = mac(*command, *files)
    assert done.returncode == 0, done.stdout[-3000:]
    assert " passed" in done.stdout.splitlines()[-1]


def test_without_hosts_it_says_that_this_machine_cannot_train(like_a_mac: None) -> None:
    done = mac(sys.executable, "-m", "ipexctl", "doctor", "--json")
    (error,) = json.loads(done.stdout)["errors"]
    assert (done.returncode, error["slug"]) == (2, "not-linux")


@pytest.mark.lab
def test_from_there_linux_hosts_get_wheels_for_linux_and_run(
    like_a_mac: None, world: World, make_lab: MakeLab
) -> None:
    said = subprocess.run(["/usr/bin/python3", "-V"], capture_output=True, text=True).stdout
    row, python = of_table("ipex-2.7.0"), ".".join(said.split()[-1].split(".")[:2])
    if python not in {f"{a}.{b}" for a, b in row.pythons}:
        pytest.skip(f"the hosts would have Python {python}, for which the row has no wheels")
    lab = make_lab(LabSpec(name="frommac", hosts=(HostSpec(covers=cpu("avx512")),) * 2))
    world.stock(row, python, away=True)
    world.front, world.path = HIDE, PATH
    reach = ("-f", str(lab.hostfile), "-F", str(lab.ssh_config))
    asked = ("--torch", "2.7", "--backend", "ccl", "--mpi", "none", "--root", "~/.ipexctl")
    done = world.install(*reach, *asked)
    assert done.code == 0, done.err + done.out
    assert done.states == ["changed", "changed"]
    lock = parse_lock((world.folder / "work" / "ipexctl.lock").read_text(), "ipexctl.lock")
    assert lock.platform.startswith("x86_64-manylinux_2_")
    assert [p.file for p in lock.files if "macosx" in p.file] == []
    assert lock.uv.file == "uv-0.9.9-py3-none-manylinux_2_17_x86_64.whl"
    (world.folder / "work" / "train.py").write_text(RANK)
    # --force: the stand-in of the bindings has no libccl.so.1, and the preflight sees that
    ran = world.command("run", *reach, "--force", "-n", "2", "train.py")
    assert ran.code == 0, ran.err
    lines = [line.partition("rank ")[2] for line in ran.out.splitlines() if "rank " in line]
    assert sorted(lines) == [f"{i} linux oneccl_bindings_for_pytorch" for i in (0, 1)], ran.out
