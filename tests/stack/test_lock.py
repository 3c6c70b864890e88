"""The lock as text and back, and what its name depends on."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from ipexctl.errors import InputError
from ipexctl.local.shipped_tables import stack_rows
from ipexctl.stack.lock_file import Lock, LockedPackage, lock_fits, parse_lock, render_lock
from ipexctl.stack.selection import Stack

TORCH = LockedPackage("torch", "2.13.0+cpu", "torch-2.13.0+cpu-cp311-cp311-linux.whl", "a" * 64, 5)
NUMPY = LockedPackage("numpy", "2.0", "numpy-2.0-py3-none-any.whl", "b" * 64, 6)
UV = LockedPackage("uv", "0.9", "uv-0.9-py3-none-any.whl", "c" * 64, 7)
LOCK = Lock(
    row="torch-2.13",
    torch="2.13.0",
    mpi="impi-rt<2021.19",
    python="3.11",
    platform="x86_64-manylinux_2_28",
    packages=(NUMPY, TORCH),
    uv=UV,
)
TEXT = render_lock(LOCK)


def stack_on(platform: str) -> Stack:
    (row,) = (row for row in stack_rows() if row.name == LOCK.row)
    return Stack(row, (3, 11), platform, LOCK.mpi, (), "")


def test_the_text_does_not_depend_on_the_order_of_resolution() -> None:
    assert render_lock(replace(LOCK, packages=(TORCH, NUMPY))) == TEXT


# a lock, and whether its environment is the same
CHANGED = {
    "another builder": (replace(LOCK, uv=replace(UV, sha256="d" * 64)), True),
    "sizes not known yet": (replace(LOCK, packages=(replace(NUMPY, size=0), TORCH)), True),
    "another file": (replace(LOCK, packages=(replace(NUMPY, sha256="d" * 64), TORCH)), False),
    "one package less": (replace(LOCK, packages=(TORCH,)), False),
    "another Python": (replace(LOCK, python="3.12"), False),
    "another platform": (replace(LOCK, platform="aarch64-manylinux_2_28"), False),
}


@pytest.mark.parametrize(("lock", "same"), CHANGED.values(), ids=CHANGED)
def test_the_key_is_sixteen_hex_digits_of_what_is_installed(lock: Lock, same: bool) -> None:
    assert (lock.key == LOCK.key) is same
    assert len(lock.key) == 16 and int(lock.key, 16) >= 0


def test_a_lock_is_for_its_request_whatever_was_resolved() -> None:
    stack = stack_on(LOCK.platform)
    assert lock_fits(LOCK, stack)
    assert not lock_fits(LOCK, replace(stack, mpi="mpich"))


HOSTS = [
    ("x86_64-manylinux_2_28", True),
    ("x86_64-manylinux_2_36", True),
    ("x86_64-manylinux_2_17", False),
    ("aarch64-manylinux_2_36", False),
]


@pytest.mark.parametrize(("platform", "loads"), HOSTS)
def test_a_lock_serves_hosts_that_are_no_older_than_those_it_was_made_for(
    platform: str, loads: bool
) -> None:
    assert lock_fits(LOCK, stack_on(platform)) is loads


TOLD = replace(
    LOCK,
    requirements=("accelerate>=1.0", 'x; python_version < "4"'),
    requirement_files=("needs/requirements.txt",),
    constraints=("numpy<3",),
)


@pytest.mark.parametrize("lock", [LOCK, TOLD])
def test_a_lock_survives_the_way_through_text(lock: Lock) -> None:
    assert parse_lock(render_lock(lock), "ipexctl.lock") == lock


def test_a_lock_that_names_kinds_of_indexes_as_older_ones_do_is_read_as_the_same() -> None:
    assert "index" not in TEXT
    told = TEXT.replace("size = 6\n", 'size = 6\nindex = "own"\n')
    assert told != TEXT
    assert parse_lock(told, "ipexctl.lock") == LOCK
    assert (TOLD.key, LOCK.key) == (LOCK.key, parse_lock(TEXT, "").key)


# version, file as the default index or PyTorch's own name it, what it needs, CUDA or not
BUILDS = [
    ("2.13.0+cpu", "torch-2.13.0+cpu-cp312-cp312-manylinux_2_28_x86_64.whl", "numpy", False),
    ("2.13.0", "torch-2.13.0-cp312-cp312-manylinux_2_28_x86_64.whl", "nvidia-cublas", True),
    ("2.13.0", "torch-2.13.0-cp312-cp312-manylinux_2_28_aarch64.whl", "nvidia-cublas", True),
    ("2.0.0", "torch-2.0.0-1-cp310-cp310-manylinux2014_aarch64.whl", "numpy", False),
    ("2.0.1+cu118", "torch-2.0.1+cu118-cp310-cp310-linux_x86_64.whl", "numpy", True),
    ("1.13.0", "torch-1.13.0-cp310-cp310-manylinux1_x86_64.whl", "nvidia-cublas-cu11", True),
    ("1.12.1", "torch-1.12.1-cp38-cp38-manylinux1_x86_64.whl", "numpy", True),
    ("1.12.1", "torch-1.12.1-cp310-cp310-manylinux2014_aarch64.whl", "numpy", False),
    ("1.12.1+cpu", "torch-1.12.1+cpu-cp38-cp38-linux_x86_64.whl", "numpy", False),
    ("1.12.1+cu113", "torch-1.12.1+cu113-cp38-cp38-linux_x86_64.whl", "numpy", True),
    ("1.12.1", "torch-1.12.1-cp38-cp38-linux_x86_64.whl", "numpy", False),  # somebody's own
    ("1.12.1+cpu", "torch-1.12.1+cpu-cp38-cp38-manylinux2014_x86_64.whl", "numpy", False),
    ("1.10.0", "torch-1.10.0-cp36-cp36m-manylinux1_x86_64.whl", "numpy", True),
    ("1.13.0", "torch-1.13.0-cp38-cp38-manylinux2014_x86_64.whl", "numpy", False),
]


@pytest.mark.parametrize(("version", "file", "beside", "cuda"), BUILDS)
def test_a_cuda_build_is_known_by_its_needs_its_version_or_its_age(
    version: str, file: str, beside: str, cuda: bool
) -> None:
    torch = LockedPackage("torch", version, file, "a" * 64)
    assert replace(LOCK, packages=(replace(NUMPY, name=beside), torch)).cuda is cuda


BROKEN = [
    ("", "schema is missing"),
    ("schema = 2", "schema 2 is not 1"),
    ("schema = [", "nvalid"),
    (TEXT.replace("[uv]", "[vu]"), "uv is missing"),
    (TEXT.replace("[stack]", "[other]"), "stack is missing"),
    (TEXT.replace('"numpy-2.0-py3-none-any.whl"', '"../numpy.whl"'), "not the name of a wheel"),
    (TEXT.replace('"numpy-2.0-py3-none-any.whl"', '"a b-1-x.whl"'), "not the name of a wheel"),
    (TEXT.replace("b" * 64, "b" * 63), "is not a sha256"),
    (render_lock(replace(LOCK, packages=(NUMPY, NUMPY))), "numpy is duplicated"),
    (TEXT.replace('"numpy"', '"torch"').replace("numpy-2", "torch-2"), "torch is duplicated"),
    (TEXT.replace('"numpy-2.0-', '"evil-2.0-'), "evil-2.0-py3-none-any.whl is not numpy 2.0"),
    (TEXT.replace('"numpy-2.0-', '"numpy-2.1-'), "numpy-2.1-py3-none-any.whl is not numpy 2.0"),
    (TEXT.replace('"uv-0.9-', '"vu-0.9-'), "vu-0.9-py3-none-any.whl is not uv 0.9"),
    (TEXT.replace("size = 6", "size = -6"), "size -6 of numpy"),
    (TEXT.replace("size = 6", 'size = "6"'), "size '6' of numpy"),
    (TEXT.replace('version = "2.0"', "version = 2.0"), "2.0 is not text"),
    (render_lock(TOLD).replace('"numpy<3"', "3"), "3 is not text"),
    (render_lock(TOLD).replace('"numpy<3"', '"-e ."'), "-e ."),
    (render_lock(TOLD).replace("numpy<3", "x @ git+ssh://host/x"), "is a path or URL"),
    (
        render_lock(TOLD).replace("numpy<3", "x @ file:///x ; python_version>'3'"),
        "is a path or URL",
    ),
    (render_lock(replace(LOCK, row="torch\nnode09: ok")), "not printable"),
    (render_lock(replace(LOCK, python="3.11\x1b[2J")), "not printable"),
    (TEXT + "<<<<<<< HEAD\n", "nvalid"),
    # tomli's own words before Python 3.11
    (
        "deep = " + "[" * 5000,
        "nested too deeply" if sys.version_info >= (3, 11) else "nested",
    ),
]


@pytest.mark.parametrize(("text", "why"), BROKEN)
def test_a_broken_lock_is_told_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_lock(text, "ipexctl.lock")
    assert (caught.value.slug, "ipexctl.lock" in caught.value.what) == ("lock-invalid", True)
    assert why in caught.value.why
