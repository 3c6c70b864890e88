"""Packages of the user's own beside the stack, resolved together and from no stranger."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ipexctl.errors import InputError
from ipexctl.packages.indexes import Indexes
from ipexctl.packages.resolver import resolve_stack
from ipexctl.stack.lock_file import parse_lock, render_lock
from ipexctl.stack.requirements import Extra
from ipexctl.stack.selection import choose_stacks
from ipexctl.stack.version_table import Request
from tests.packages.test_resolve_ipex import LAST, World, fill, page, wheel
from tests.stack.test_stack import host
from tests.stack.test_table import AVX512


def asked(world: World, *requirements: str, constraints: tuple[str, ...] = ()) -> Extra:
    fill(world, LAST)
    for name, version, needs in (
        ("accelerate", "1.2", "numpy"), ("accelerate", "1.1", "numpy"), ("helper", "1.0", "torch"),
        ("dragging", "1.0", "oneccl_bind_pt"), ("old", "1.0", "torch==1.13"),
    ):  # fmt: skip
        folder = world.folder / "served/default" / name
        wheel(folder, name, version, needs=needs)
        page(folder)
    source = world.folder / "served/default/sdist"
    source.mkdir()
    (source / "sdist-1.0.tar.gz").write_bytes(b"")
    (source / "index.html").write_text('<a href="sdist-1.0.tar.gz">sdist-1.0.tar.gz</a>')
    return Extra(requirements, constraints)


def test_they_are_locked_with_the_stack_and_the_lock_says_what_was_asked(world: World) -> None:
    extra = asked(world, "accelerate", "helper", constraints=("accelerate<1.2",))
    stacks = world.stacks("ipex-2.7.0", "3.12")
    found = resolve_stack(stacks, world.indexes(), world.environ(), extra)
    assert world.whence(found) == {
        "accelerate": "1.1 default", "helper": "1.0 default", "impi-rt": "2021.18.1 default",
        "intel-extension-for-pytorch": "2.7.0 index", "numpy": "2.1.0 default",
        "oneccl-bind-pt": "2.7.0 index", "setuptools": "80.9.0 default",
        "torch": "2.7.0+cpu cpu",
    }  # fmt: skip
    text = render_lock(found.lock)
    assert (parse_lock(text, ""), "127.0.0.1" in text) == (found.lock, False)
    assert 'requirements = [\n    "accelerate",\n    "helper",\n]' in text
    again = resolve_stack(stacks, world.indexes(), world.environ(), extra)
    assert render_lock(again.lock) == text


def test_what_is_for_other_machines_is_asked_for_and_left_out(world: World) -> None:
    extra = asked(
        world, "accelerate; sys_platform == 'linux'", "nowhere==1; sys_platform == 'win32'",
        "torch==2.2.2; sys_platform == 'darwin'", "torchvision; sys_platform == 'darwin'",
    )  # fmt: skip
    stacks = world.stacks("ipex-2.7.0", "3.12")
    found = world.whence(resolve_stack(stacks, world.indexes(), world.environ(), extra))
    assert {name: found[name] for name in sorted(found) if name in ("accelerate", "torch")} == {
        "accelerate": "1.2 default", "torch": "2.7.0+cpu cpu",
    }  # fmt: skip
    assert {"nowhere", "torchvision"} & set(found) == set()


REFUSED = [
    ("a free name that a package drags in", "dragging",
     "oneccl-bind-pt would come from a public index, where anybody can publish"),
    ("another torch by way of a package", "old", "torch==1.13"),
    ("another torch", "torch==2.5", "torch==2.5"),
    ("a name of Intel's that the row does not bring", "oneccl_bind_pt", "--backend ccl"),
    ("a package without a wheel", "sdist", "no usable wheels"),
    ("a version that nobody has", "accelerate==9", "accelerate==9"),
]  # fmt: skip


@pytest.mark.parametrize(("_title", "requirement", "why"), REFUSED)
def test_what_does_not_go_with_the_stack_is_refused(
    world: World, _title: str, requirement: str, why: str
) -> None:
    extra, narrow = asked(world, requirement), {**world.environ(), "COLUMNS": "40"}
    with pytest.raises(InputError) as refused:
        resolve_stack(world.stacks("ipex-2.7.0-gloo", "3.12", backend="gloo"), world.indexes(),
                narrow, extra)  # fmt: skip
    assert refused.value.slug == "requirements-do-not-fit"
    assert why in refused.value.why
    assert "pip wheel" in refused.value.hint


# --- a CUDA build of torch, where nothing else is to be had ---------------------------------------


def cuda_only(world: World) -> None:
    """The default index has the CUDA build, and no other index has any."""
    fill(world, LAST)
    served = world.folder / "served"
    for made in (served / "cpu/torch").iterdir():
        made.unlink()
    torch = served / "default/torch"
    wheel(torch, "torch", "2.7.0", needs="triton==3.3")
    page(torch)
    wheel(served / "default/triton", "triton", "3.3", needs="nvidia-cublas")
    page(served / "default/triton")


def test_a_cuda_build_is_called_one(world: World) -> None:
    cuda_only(world)
    stacks = world.stacks("ipex-2.7.0-gloo", "3.12", backend="gloo")
    indexes = Indexes(f"{world.url}/default/".replace("//", "//joe:secret@", 1))
    found = resolve_stack(stacks, indexes, world.environ())
    assert world.whence(found) == {
        "impi-rt": "2021.18.1 default", "intel-extension-for-pytorch": "2.7.0 index",
        "numpy": "2.1.0 default", "nvidia-cublas": "13.0 default", "torch": "2.7.0 default",
        "setuptools": "80.9.0 default", "triton": "3.3 default",
    }  # fmt: skip
    assert found.lock.cuda
    assert " 2.7.0+cpu, " in found.no_cpu_build and f" {world.url}/cpu/ " in found.no_cpu_build


def partial(world: World) -> Indexes:
    """An index of the user's own, asked first, that has a package for another Python alone."""
    fill(world, LAST)
    for place, version, python in (("mine", "2021.18.0", "3.11"), ("default", "3.0", "")):
        folder = world.folder / "served" / place / "private"
        wheel(folder, "private", version, python)
        page(folder)
    return Indexes(f"{world.url}/default/", (f"{world.url}/mine/",))


def test_a_package_that_only_the_user_names_comes_from_no_later_index(world: World) -> None:
    indexes = partial(world)
    stacks = world.stacks("ipex-2.7.0-gloo", "3.12", backend="gloo")
    with pytest.raises(InputError) as e:
        resolve_stack(stacks, indexes, world.environ(), Extra(("private",), ()))
    assert e.value.slug == "requirements-do-not-fit"
    assert "`private`" in e.value.why and f" {world.url}/mine/," in e.value.why
    assert e.value.hint.startswith("export UV_INDEX_STRATEGY=unsafe-first-match")
    trusting = {**world.environ(), "UV_INDEX_STRATEGY": "unsafe-first-match"}
    found = resolve_stack(stacks, indexes, trusting, Extra(("private",), ()))
    assert world.whence(found)["private"] == "3.0 default"


def test_an_index_that_gives_no_answer_is_named_and_not_waited_for_again(world: World) -> None:
    cuda_only(world)
    rows = [
        replace(row, torch_index="http://127.0.0.1:9/cpu", links="http://127.0.0.1:9/intel")
        for row in world.rows()
    ]
    there = host("a", "3.12.1", flags=AVX512)
    stacks = choose_stacks([there], Request(row="ipex-2.7.0-gloo", backend="gloo"), rows)
    default = world.folder / "served/default/intel-extension-for-pytorch"
    wheel(default, "intel_extension_for_pytorch", "2.7.0")
    page(default)
    found = resolve_stack(stacks, world.indexes(), world.environ())
    assert "http://127.0.0.1:9/cpu did not " in found.no_cpu_build
    assert found.lock.version("torch") == "2.7.0"
