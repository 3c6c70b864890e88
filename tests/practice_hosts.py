"""Practice hosts with the real torch and an MPI: installed once in a test run, then cloned.

A real `ipexctl install` on three hosts takes a minute. The homes that it leaves are kept as hard
links for every process of the test run, and laid into the hosts of later labs.
"""

from __future__ import annotations

import fcntl
import os
import pickle
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from ipexctl.errors import NotHere
from ipexctl.install.install import install
from ipexctl.install.install_options import InstallOptions
from ipexctl.install.install_plan import InstallReport
from ipexctl.lab import HostSpec, Lab, LabSpec
from ipexctl.lab.cluster.machine_support import choose_rung
from ipexctl.lab.cluster.rung_limits import FLAT, FULL
from ipexctl.machines.target import Target
from ipexctl.terminal.progress import HostProgress

EXAMPLE = Path(__file__).parents[1] / "examples" / "train_ddp.py"
HOSTS = (HostSpec(), HostSpec(nics=("ens3",)), HostSpec())
ONE_MACHINE = "practice hosts of the flat rung share processes, names and network"
ROOTS = {"intel": ".ipexctl", "mpich": ".mpich", "openmpi": ".openmpi"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rung", default="", help="rung of the practice hosts (docs/lab.md)")


def rung(config: pytest.Config) -> str:
    """The rung of this test run; skips, and says why, where no practice host can start."""
    try:
        return choose_rung(LabSpec.plain(1), str(config.getoption("--rung")))
    except NotHere as missing:
        pytest.skip(f"{missing.what}; {missing.hint or missing.why}")


@dataclass(frozen=True)
class LabRoot:
    """Where the labs of a test run keep their files, and their rung."""

    folder: Path
    rung: str


def start_lab(spec: LabSpec, lab_root: LabRoot) -> Lab:
    """A lab that ends with this process; skips where this machine cannot simulate all of it."""
    lab = Lab.up(spec, owner=os.getpid(), root=lab_root.folder, rung=lab_root.rung)
    if lab.left_out:
        lab.down()
        pytest.skip(f"the {lab.rung} rung cannot simulate {' '.join(lab.left_out)}")
    return lab


def give_to_account(lab: Lab, host: str, path: str) -> None:
    """What this process has written in a home; without root it is the account's already."""
    if lab.rung == FULL:
        assert lab.run_in(host, ["chown", "-R", "trainer:", path]).returncode == 0


@dataclass(frozen=True)
class Installed:
    """A lab whose hosts have what `ipexctl install` made: the real torch and Intel MPI."""

    lab: Lab
    report: InstallReport
    folder: Path  # where ipexctl.lock is


@dataclass(frozen=True)
class Home:
    """What an install left in the home of a host, its report and its lock file."""

    folder: Path

    @property
    def files(self) -> Path:
        return self.folder / "files"

    @property
    def report(self) -> InstallReport:
        with open(self.folder / "report", "rb") as file:
            found = pickle.load(file)
        assert isinstance(found, InstallReport)
        return found

    @property
    def left(self) -> list[str]:
        """What was in the home of each host right after its install."""
        return (self.folder / "left").read_text().split("\n")

    @property
    def is_made(self) -> bool:
        return (self.folder / "report").exists()

    def keep(self, home: Path, root: str, report: InstallReport) -> None:
        self.files.mkdir()
        _copy(home / root, self.files)
        with open(self.folder / "report.new", "wb") as file:
            pickle.dump(report, file)
        os.rename(self.folder / "report.new", self.folder / "report")

    def lay_into(self, home: Path) -> None:
        for path in self.files.iterdir():
            _copy(path, home)


def _copy(path: Path, folder: Path) -> None:
    subprocess.run(["cp", "-al", str(path), str(folder)], check=True)  # 700 MB, without links


@dataclass(frozen=True)
class Homes:
    """One for each MPI, shared by all processes of a test run."""

    folder: Path

    @contextmanager
    def of(self, mpi: str) -> Iterator[Home]:
        """While this is open no other process makes or takes it."""
        home = Home(self.folder / mpi)
        home.folder.mkdir(parents=True, exist_ok=True)
        with open(home.folder / "busy", "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield home


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Homes:
    base = tmp_path_factory.getbasetemp()
    return Homes((base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "homes")


@pytest.fixture(scope="session")
def installed(lab_root: LabRoot, homes: Homes) -> Iterator[Installed]:
    """Three hosts with Intel MPI, for the whole test run: leave them as you found them.

    Wheels come from the user's own cache, as in real life, and are fetched into it once.
    """
    hosts = (HostSpec(),) * 3 if lab_root.rung == FLAT else HOSTS
    lab = start_lab(LabSpec(name="installed", hosts=hosts), lab_root)
    try:
        with homes.of("intel") as home:
            if home.is_made:
                for host in lab.hosts.values():
                    home.lay_into(Path(host.files))
            else:
                _install_all(lab, home)
        yield Installed(lab, home.report, home.folder)
    finally:
        lab.down()


@pytest.fixture(scope="session")
def installed_lab(installed: Installed) -> Lab:
    return installed.lab


def _install_all(lab: Lab, home: Home) -> None:
    target = Target(hostfile=lab.hostfile, ssh_config=lab.ssh_config)
    report = install(target, InstallOptions(stack="stock", folder=home.folder), HostProgress())
    assert report.exit_code == 0, report.recaps
    first, *others = (Path(host.files) for host in lab.hosts.values())
    for other in others:
        assert _top(other) == _top(first)  # so that one stands for all
    (home.folder / "left").write_text("\n".join(_top(first)))
    _compile(lab, "~/.ipexctl")
    home.keep(first, ROOTS["intel"], report)


def _compile(lab: Lab, root: str) -> None:
    """800 modules that a training imports: each host of each later lab would do it anew."""
    training = f'{root}/current/bin/python -c "$0" --bf16 --epochs 1 --steps 1'
    argv = ["/bin/sh", "-c", training, EXAMPLE.read_text("utf-8")]
    done = lab.run_in("node01", argv, user="trainer", timeout=200)
    assert done.returncode == 0, done.stderr


def _top(home: Path) -> list[str]:
    found = (path for pattern in ("*", "*/*", "*/envs/*") for path in home.glob(pattern))
    return sorted(str(path.relative_to(home)) for path in found)


def home_with(mpi: str, installed: Installed, homes: Homes) -> Home:
    """Installed on node01 as users do it; below a root named after the MPI if not Intel's."""
    with homes.of(mpi) as home:
        if not home.is_made:
            _install_first(mpi, installed.lab, home)
    return home


def _install_first(mpi: str, lab: Lab, home: Home) -> None:
    node01, root = Path(lab.hosts["node01"].files), ROOTS[mpi]
    # the blobs that node01 has already need not travel again
    link = f"mkdir -m 700 ~/{root} && cp -al ~/.ipexctl/blobs ~/{root}/blobs"
    assert lab.run_in("node01", ["/bin/sh", "-c", link], user="trainer").returncode == 0
    target = Target(hostfile=lab.hostfile, ssh_config=lab.ssh_config, limit=("node01",))
    asked = InstallOptions(stack="stock", mpi=mpi, root=f"~/{root}", folder=home.folder)
    report = install(target, asked, HostProgress())
    assert [r.detail for r in report.recaps] == ["torch 2.13.0+cpu, 2 ranks agree"], report
    _compile(lab, f"~/{root}")
    home.keep(node01, root, report)
    subprocess.run(["rm", "-r", str(node01 / root)], check=True)
