"""The wheel and the sdist that `make dist` builds: what is in them, and that they work."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.repo.test_repo import _tracked as tracked
from tools import try_wheels

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `make dist` does it."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(build, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (found,) = dist.glob("*.whl")
    return found


def packaged() -> set[str]:
    """The package, and the plays: ipexctl/playbooks is a link to playbooks."""
    plays = {f"ipexctl/{n}" for n in tracked() if n.startswith("playbooks/") and ".yaml" in n}
    return plays | {n for n in tracked() if n.startswith("ipexctl/") and n != "ipexctl/playbooks"}


def test_the_wheel_has_every_file_of_the_package_and_no_other_one(wheel: Path) -> None:
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert packed == packaged()
    assert "ipexctl/playbooks/train.yaml" in packed


def test_the_sdist_has_the_package_and_what_builds_it(dist: Path) -> None:
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert packaged() | {"pyproject.toml", "LICENSE", "README.md"} <= names
    assert {name.partition("/")[0] for name in names if "/" in name} == {
        "ipexctl", "ipexctl.egg-info",
    }  # fmt: skip


def test_the_installed_wheel_runs_what_needs_no_hosts(wheel: Path, tmp_path: Path) -> None:
    program = try_wheels.installed_with_pip(wheel, sys.executable, tmp_path)
    assert try_wheels.wrong(program, sys.executable, tmp_path) == []


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("version", try_wheels.PYTHONS)
@pytest.mark.parametrize("way", ["pip", "pipx"])
def test_the_wheel_works_on_each_python(
    wheel: Path, tmp_path: Path, way: str, version: str
) -> None:
    python = try_wheels.python(version) or pytest.skip(f"Python {version} is not on this machine")
    install = {"pip": try_wheels.installed_with_pip, "pipx": try_wheels.installed_with_pipx}[way]
    program = install(wheel, python, tmp_path)
    assert try_wheels.wrong(program, python, tmp_path) == []
