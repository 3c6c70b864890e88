"""A resolver that takes a version of long ago is not left unsaid."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from ipexctl.install.stack.requirements import Extra
from ipexctl.packages.resolver import resolve
from ipexctl.packages.step_backs import Offer, note, offers
from tests.packages.test_resolve_ipex import LAST, World, fill, page, wheel, world

__all__ = ["world"]


def on_index(world: World, name: str, *versions: str, source: str = "", needs: str = "") -> None:
    folder = world.folder / "served/default" / name
    for version in versions:
        made = wheel(folder, name, version, needs=needs if version == versions[-1] else "")
        assert made.exists()
    page(folder)
    if source:
        text = Path(folder, "index.html").read_text()
        link = f'<a href="{name}-{source}.tar.gz">{name}-{source}.tar.gz</a>'
        Path(folder, "index.html").write_text(text + link)


def warned(world: World, *requirements: str) -> tuple[str, ...]:
    stacks = world.stacks("ipex-2.7.0-gloo", "3.12", backend="gloo")
    return resolve(stacks, world.indexes(), world.environ(), Extra(requirements)).notes


def test_a_version_of_long_ago_is_told_with_its_reason(world: World) -> None:
    fill(world, LAST)
    on_index(world, "speedy", "0.3.1.dev5", source="0.17.5")
    on_index(world, "models", "1.0", "2.0", "4.0", needs="numpy>=9")
    on_index(world, "recent", "1.0", source="1.9")
    by_source, by_needs = warned(world, "models", "recent", "speedy")[::-1]
    assert by_source.startswith("speedy 0.3.1.dev5 ")
    assert ": pip wheel speedy==0.17.5 " in by_source
    assert by_needs.startswith("models 2.0 ") and " 4.0; " in by_needs
    assert "numpy>=9" in by_needs
    assert warned(world, "models<3", "recent") == ()  # as the user wants it


PAGE = """
{"files": [{"filename": "a-2.0-py3-none-any.whl", "requires-python": ">=3.13"},
           {"filename": "a-9.0-py3-none-any.whl", "yanked": true}, {"filename": "odd"}]}
"""


def test_an_indexs_page_in_json_is_read_too() -> None:
    assert list(offers(PAGE)) == [Offer(Version("2.0"), True, ">=3.13")]
    assert list(offers('{"files": 3}')) == list(offers("{")) == []


CASES = [
    ("1.9", "2.0", False), ("1.9", "3.0", True), ("0.3", "0.7", False), ("0.3", "0.8", True),
    ("2.0rc1", "2.0", True), ("3.0", "2.0", False), ("0.9", "1.0", False),
]  # fmt: skip


@pytest.mark.parametrize(("chosen", "newest", "told"), CASES)
def test_what_is_far_behind(chosen: str, newest: str, told: bool) -> None:
    known = [Offer(Version(newest), True, ">=3.13")]
    text = note("a", Version(chosen), known, SpecifierSet(), "3.12", str)
    assert bool(text) == told
    assert not told or (" >=3.13, " in text and text.endswith(" 3.12"))
