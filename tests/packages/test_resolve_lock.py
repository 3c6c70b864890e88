"""A lock that is there already: its files are found again on another controller, or nothing is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ipexctl.errors import InputError
from ipexctl.packages.resolver import Urls, locate_files, resolve_stack
from ipexctl.stack.lock_file import Lock
from ipexctl.stack.selection import Stack
from tests.install.conftest import make_wheel
from tests.packages.test_resolve_ipex import LAST, ROWS, World, fill, page


def asked(world: World, stack: Stack, lock: Lock) -> Urls:
    return locate_files(stack, lock, world.indexes(), elsewhere(world))


def elsewhere(world: World) -> dict[str, str]:
    """Another controller: its uv has not seen the pages of before."""
    return {**world.environ(), "UV_CACHE_DIR": str(world.folder / "elsewhere")}


def default(world: World, name: str) -> Path:
    return world.folder / "served/default" / name


def only_for(folder: Path, python: str) -> None:
    """As the index says it of every file of the real uv."""
    shown = folder / "index.html"
    shown.write_text(shown.read_text().replace("<a ", f'<a data-requires-python="{python}" '))


def test_the_uv_of_a_lock_may_need_a_newer_python_than_the_hosts_have(world: World) -> None:
    fill(world, ROWS[0])
    only_for(default(world, "uv"), "&gt;=3.8")
    found = world.resolve(world.stacks("ipex-1.10.100", "3.6"))
    assert found.lock.python == "3.6"
    assert asked(world, found.stack, found.lock) == found.urls


def test_a_wheel_that_was_locked_is_found_among_those_that_came_later(world: World) -> None:
    fill(world, LAST)
    numpy = default(world, "numpy")
    found = world.resolve(world.stacks("ipex-2.7.0", "3.12"))
    assert found.lock.version("numpy") == "2.1.0"
    make_wheel(numpy, "numpy", "2.1.0", {}, tag="cp312-cp312-manylinux_2_17_x86_64")
    page(numpy)
    afresh = resolve_stack(world.stacks("ipex-2.7.0", "3.12"), world.indexes(), elsewhere(world))
    assert afresh.lock.version("numpy") == "2.1.0"
    assert afresh.lock.key != found.lock.key  # by now another wheel is the first
    assert asked(world, found.stack, found.lock) == found.urls


def test_another_file_under_the_same_name_is_told(world: World) -> None:
    fill(world, LAST)
    found = world.resolve(world.stacks("ipex-2.7.0", "3.12"))
    packages = tuple(
        replace(p, sha256="d" * 64) if p.name == "numpy" else p for p in found.lock.packages
    )
    with pytest.raises(InputError) as refused:
        asked(world, found.stack, replace(found.lock, packages=packages))
    assert refused.value.slug == "locked-file-differs"
    assert refused.value.what.startswith("numpy-2.1.0-py3-none-any.whl ")
    assert "d" * 64 in refused.value.why


@pytest.mark.parametrize("name", ["numpy", "uv"])
def test_a_file_that_is_nowhere_is_told_with_uvs_words(world: World, name: str) -> None:
    fill(world, LAST)
    found = world.resolve(world.stacks("ipex-2.7.0", "3.12"))
    for made in default(world, name).glob("*.whl"):
        made.unlink()
    page(default(world, name))
    with pytest.raises(InputError) as refused:
        asked(world, found.stack, found.lock)
    assert (refused.value.slug, f" {name}==" in refused.value.why) == ("locked-files-missing", True)
