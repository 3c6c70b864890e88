"""IPEX rows resolved against stand-in indexes: the right wheel from the right place, or nothing.

The wheels are made here and are empty. They have the names of torch, IPEX and the oneCCL bindings
and are not: the real oneccl_bind_pt was never run with ipexctl. No environment is built from them.
"""

from __future__ import annotations

import functools
import http.server
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from ipexctl.errors import InputError
from ipexctl.local.shipped_tables import stack_rows
from ipexctl.packages.indexes import Indexes
from ipexctl.packages.resolver import Resolved, locate_files, resolve_stack
from ipexctl.stack.selection import Stack, choose_stacks
from ipexctl.stack.version_table import Request, StackRow
from tests.install.conftest import make_wheel
from tests.packages.web import index, page
from tests.stack.test_stack import host
from tests.stack.test_table import AVX512

IPEX = "intel_extension_for_pytorch"
# row, Python, torch, IPEX, bindings
ROWS = [
    ("ipex-1.10.100", "3.6", "1.10.0", "1.10.100", "1.10.0"),
    ("ipex-1.11.200", "3.8", "1.11.0", "1.11.200", "1.11.0"),
    ("ipex-1.12.300", "3.8", "1.12.1", "1.12.300", "1.12.100"),
    ("ipex-1.13.100", "3.10", "1.13.0", "1.13.100", "1.13.0"),
    ("ipex-2.0.0", "3.11", "2.0.0", "2.0.0", "2.0.0"),
    ("ipex-2.7.0", "3.12", "2.7.0", "2.7.0", "2.7.0"),
]


def wheel(folder: Path, name: str, version: str, python: str = "", needs: str = "") -> Path:
    """With a Python, tagged as Intel and PyTorch tag theirs: for that one, and for Linux."""
    folder.mkdir(parents=True, exist_ok=True)
    made = make_wheel(folder, name, version, {f"{name}.txt": str(folder).encode()},
                      (needs,) if needs else ())  # fmt: skip
    if not python:
        return made
    tag = "cp" + python.replace(".", "")
    abi = tag + "m" * (python in ("3.6", "3.7"))
    return made.rename(folder / f"{name}-{version}-{tag}-{abi}-linux_x86_64.whl")


@dataclass
class World:
    """A default index, PyTorch's and Intel's, on the loopback; the default one has look-alikes."""

    folder: Path
    url: str

    def rows(self) -> tuple[StackRow, ...]:
        return tuple(
            replace(
                row,
                links=row.links and f"{self.url}/{'page' if row.flat else 'index'}/",
                torch_index=f"{self.url}/{'stable' if 'torch_index' in row.flat else 'cpu'}/",
            )
            for row in stack_rows()
        )

    def stacks(self, name: str, *pythons: str, backend: str = "") -> tuple[Stack, ...]:
        there = host("a", *(f"{p}.1" for p in pythons), flags=AVX512)
        return choose_stacks([there], Request(row=name, backend=backend), self.rows())

    def environ(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "UV_"))}
        return {**kept, "UV_CACHE_DIR": str(self.folder / "cache"), "UV_HTTP_RETRIES": "0"}

    def indexes(self, *folders: Path) -> Indexes:
        return Indexes(f"{self.url}/default/", find_links=tuple(str(f) for f in folders))

    def resolve(self, stacks: tuple[Stack, ...], *folders: Path) -> Resolved:
        return resolve_stack(stacks, self.indexes(*folders), self.environ())

    def whence(self, found: Resolved) -> dict[str, str]:
        """Package -> version and the place that it came from."""
        return {
            p.name: f"{p.version} {self.place(found.urls[p.sha256])}" for p in found.lock.packages
        }

    def place(self, url: str) -> str:
        if url.startswith(self.url):
            return url.removeprefix(self.url).split("/")[1]
        return "own" if url.startswith("file://") else url


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    root = tmp_path / "served"
    root.mkdir()
    handler = functools.partial(_Quiet, directory=str(root))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield World(tmp_path, f"http://127.0.0.1:{server.server_port}")
    server.shutdown()
    server.server_close()


def fill(world: World, *rows: tuple[str, ...]) -> None:
    root = world.folder / "served"
    default, intel = root / "default", root / "index"
    for name in ("numpy-1.19.5", "numpy-2.1.0", "psutil-5.9", "uv-0.9.9", "impi_rt-2021.18.1"):
        wheel(default, *name.split("-"))
    wheel(default, "impi_rt", "2021.19.0", needs="libfabric>=2.6")
    for version in ("80.9.0", "81.0.0"):
        wheel(default, "setuptools", version)
    for folder in (root / "page", intel, root / "stable", root / "cpu"):
        folder.mkdir()
    for _, python, torch, ipex, bindings in rows:
        era = "page" if ipex < "2.1" else "index"
        wheel(root / era, IPEX, ipex, python)
        wheel(root / era, "oneccl_bind_pt", bindings, python)
        # what somebody else put under the free names, newer than all that is real
        for evil in (bindings, "99.0"):
            wheel(default, "oneccl_bind_pt", evil)
        wheel(default, "torch", torch, needs="nvidia-cublas")
        pytorch = root / ("stable" if torch < "1.11" else "cpu")
        wheel(pytorch, "torch", f"{torch}+cpu", python)
        if pytorch.name == "stable":
            wheel(pytorch, "torch", f"{torch}+cu113", python)
    wheel(default, "nvidia_cublas", "13.0")
    for folder in (default, intel, root / "cpu"):
        index(folder)
    for folder in (root / "page", root / "stable"):
        page(folder)


@pytest.mark.parametrize("expected", ROWS, ids=lambda e: e[0])
def test_each_package_comes_from_its_own_place(world: World, expected: tuple[str, ...]) -> None:
    name, python, torch, ipex, bindings = expected
    fill(world, expected)
    found = world.resolve(world.stacks(name, python))
    era = "page" if ipex < "2.1" else "index"
    numpy = {"numpy": "2.1.0 default" if torch >= "2.3" else "1.19.5 default"}
    psutil = {"psutil": "5.9 default"} if torch == "1.10.0" else {}
    setuptools = {"setuptools": "80.9.0 default"} if torch == "2.7.0" else {}
    assert world.whence(found) == {
        "impi-rt": "2021.18.1 default",
        "intel-extension-for-pytorch": f"{ipex} {era}",
        "oneccl-bind-pt": f"{bindings} {era}",
        "torch": f"{torch}+cpu {'stable' if torch == '1.10.0' else 'cpu'}",
        **numpy,
        **psutil,
        **setuptools,
    }
    assert locate_files(found.stack, found.lock, world.indexes(), world.environ()) == found.urls


LAST = ROWS[-1]


def test_the_users_own_folder_goes_before_intels_index(world: World) -> None:
    fill(world, LAST)
    own = world.folder / "own"
    wheel(own, "oneccl_bind_pt", "2.7.0+cpu", "3.12")
    found = world.whence(world.resolve(world.stacks("ipex-2.7.0", "3.12"), own))
    assert (found["oneccl-bind-pt"], found["intel-extension-for-pytorch"]) == (
        "2.7.0+cpu own", "2.7.0 index",
    )  # fmt: skip


def test_bindings_that_only_the_default_index_has_are_refused(world: World) -> None:
    fill(world, LAST)
    for made in (world.folder / "served/index/oneccl-bind-pt").iterdir():
        made.unlink()
    with pytest.raises(InputError) as refused:
        world.resolve(world.stacks("ipex-2.7.0", "3.12"))
    assert refused.value.slug == "stack-not-available"
    assert "oneccl-bind-pt 2.7.0 " in refused.value.why
    assert "--stack stock" in refused.value.hint


def test_the_old_ipex_that_only_the_default_index_has_is_refused(world: World) -> None:
    fill(world, ROWS[1])
    for made in (world.folder / "served/page").glob(f"{IPEX}*"):
        made.rename(world.folder / made.name)
    page(world.folder / "served/page")
    wheel(world.folder / "served/default/intel-extension-for-pytorch", IPEX, "1.11.200")
    page(world.folder / "served/default/intel-extension-for-pytorch")
    with pytest.raises(InputError) as refused:
        world.resolve(world.stacks("ipex-1.11.200", "3.8"))
    assert refused.value.slug == "stack-not-available"


def test_ipex_that_intel_put_on_the_default_index_itself_is_taken_from_there(world: World) -> None:
    fill(world, LAST)
    there = world.folder / "served/index/intel-extension-for-pytorch"
    target = world.folder / "served/default/intel-extension-for-pytorch"
    there.rename(target)
    found = world.whence(world.resolve(world.stacks("ipex-2.7.0", "3.12")))
    assert (found["intel-extension-for-pytorch"], found["oneccl-bind-pt"]) == (
        "2.7.0 default", "2.7.0 index",
    )  # fmt: skip


def test_a_python_without_wheels_of_the_bindings_gives_way_to_one_that_has_them(
    world: World,
) -> None:
    fill(world, LAST)
    found = world.resolve(world.stacks("ipex-2.7.0", "3.13", "3.12"))
    assert found.lock.python == "3.12"


def test_without_any_index_the_users_folder_has_all_of_it(world: World) -> None:
    fill(world, LAST)
    own = world.folder / "own"
    for name, version in ((IPEX, "2.7.0"), ("oneccl_bind_pt", "2.7.0"), ("torch", "2.7.0+cpu")):
        wheel(own, name, version, "3.12")
    more = (("numpy", "2.1.0"), ("impi_rt", "2021.18.1"), ("uv", "0.9.9"), ("setuptools", "80.9.0"))
    for name, version in more:
        wheel(own, name, version)
    offline = Indexes(find_links=(str(own),), no_index=True)
    found = resolve_stack(world.stacks("ipex-2.7.0", "3.12"), offline, world.environ())
    assert {text.split()[1] for text in world.whence(found).values()} == {"own"}
    assert len(found.lock.packages) == 6
