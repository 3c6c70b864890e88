"""torch and torchvision of one build, or the reason why not."""

from __future__ import annotations

import pytest

from ipexctl.errors import InputError
from ipexctl.packages.resolver import Resolved, resolve_stack
from ipexctl.stack.requirements import Extra
from tests.packages.test_resolve_ipex import LAST, World, fill, page, wheel


def offered(world: World, *vision: tuple[str, str]) -> None:
    """torchvision as (index, version); `models` needs it, as timm does."""
    fill(world, LAST)
    served = world.folder / "served"
    for place, version in vision:
        wheel(served / place / "torchvision", "torchvision", version, needs="torch==2.7.0")
        page(served / place / "torchvision")
    wheel(served / "default/models", "models", "1.0", needs="torchvision")
    page(served / "default/models")


def found(world: World, requirement: str) -> Resolved:
    stacks = world.stacks("ipex-2.7.0-gloo", "3.12", backend="gloo")
    return resolve_stack(stacks, world.indexes(), world.environ(), Extra((requirement,)))


def test_what_a_package_drags_in_comes_from_the_index_of_torch(world: World) -> None:
    offered(world, ("default", "0.22.0"), ("cpu", "0.22.0+cpu"))
    for requirement in ("models", "torchvision"):
        seen = world.whence(found(world, requirement))
        assert (seen["torch"], seen["torchvision"]) == ("2.7.0+cpu cpu", "0.22.0+cpu cpu")


def test_two_builds_are_refused_before_anything_is_fetched(world: World) -> None:
    offered(world, ("default", "0.22.0"))
    for made in (world.folder / "served/default/torch").glob("*"):
        made.unlink()  # else a CUDA build of both were to be had
    with pytest.raises(InputError) as refused:
        found(world, "models")
    said = "torchvision 0.22.0 and torch 2.7.0+cpu are different builds and do not load together"
    assert said in refused.value.why
    assert "+cpu wheels" in refused.value.hint and "--find-links" in refused.value.hint
