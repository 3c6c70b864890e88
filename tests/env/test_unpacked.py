"""Wheels that hosts keep unpacked: shared by environments, and taken only as they were left."""

from __future__ import annotations

import os
import stat
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ipexctl.errors import HostFailed
from ipexctl.remote.install import wheel_cache
from tests.install.conftest import Builder, Shop, make_wheel

A, B, C = "a" * 16, "b" * 16, "c" * 16
SCRIPTS = "big-1.0.data/scripts"


def big(shop: Shop) -> Path:
    """What two environments have in common."""
    files = {
        "big.py": b"word = 'right'\n",
        "more.py": b"more = 1\n",
        f"{SCRIPTS}/by-sh": b"#!/bin/sh\necho by sh\n",
        f"{SCRIPTS}/by-python": b"#!python\nimport big\nprint(big.word)\n",
    }
    return make_wheel(shop.wheels, "big", "1.0", files)


def small(shop: Shop, version: str, text: bytes = b"") -> Path:
    return make_wheel(shop.wheels, "small", version, {"small.py": text})


def inode(path: Path) -> int:
    return path.stat().st_ino


def test_two_environments_share_files_that_nobody_can_write(builder: Builder) -> None:
    wheel = big(builder.shop)
    first = builder.build(A, wheel, small(builder.shop, "1.0"))
    second = builder.build(B, wheel, small(builder.shop, "1.1"))
    assert inode(first / "big.py") == inode(second / "big.py")
    assert [builder.says(key, "import big, small; print(big.word)") for key in (A, B)] == [
        "right", "right",
    ]  # fmt: skip
    infos = [p.lstat() for key in (A, B) for p in builder.env(key).rglob("*")]
    shared = [i for i in infos if stat.S_ISREG(i.st_mode) and i.st_nlink > 1]
    assert len(shared) > 10
    assert [oct(i.st_mode) for i in shared if i.st_mode & 0o222] == []
    for key in (A, B):
        for script, said in (("by-sh", "by sh\n"), ("by-python", "right\n")):
            path = builder.env(key) / "bin" / script
            assert subprocess.run([path], capture_output=True, text=True).stdout == said


def changed_by_size(file: Path) -> None:
    file.chmod(0o600)
    file.write_bytes(b"word = 'wrong and longer'\n")


def changed_within(file: Path) -> None:
    file.chmod(0o600)
    file.write_bytes(file.read_bytes().replace(b"right", b"wrong"))


def removed(file: Path) -> None:
    file.unlink()


def added(file: Path) -> None:
    (file.parent / "evil.py").write_text("")


def replaced(file: Path) -> None:
    other = file.with_name("other")
    other.write_bytes(file.read_bytes().replace(b"right", b"wrong"))
    os.utime(other, ns=(file.stat().st_atime_ns, file.stat().st_mtime_ns))
    other.rename(file)


@pytest.mark.parametrize("change", [changed_by_size, changed_within, removed, added, replaced])
def test_what_is_not_as_it_was_left_is_not_taken(
    builder: Builder, change: Callable[[Path], None]
) -> None:
    wheel = big(builder.shop)
    first = builder.build(A, wheel, small(builder.shop, "1.0"))
    (kept,) = builder.cache.rglob("big.py")
    change(kept)
    second = builder.build(B, wheel, small(builder.shop, "1.1"))
    assert builder.says(B, "import big, more, small; print(big.word)") == "right"
    for name in ("big.py", "more.py"):
        assert inode(first / name) != inode(second / name)
    assert not (second / "evil.py").exists()
    assert inode(builder.build(C, wheel) / "big.py") == inode(second / "big.py")


def test_a_file_changed_in_an_environment_does_not_get_into_the_next_one(builder: Builder) -> None:
    wheel = big(builder.shop)
    changed_within(builder.build(A, wheel) / "big.py")
    builder.build(B, wheel, small(builder.shop, "1.0"))
    assert [builder.says(key, "import big; print(big.word)") for key in (A, B)] == [
        "wrong", "right",
    ]  # fmt: skip


@pytest.mark.parametrize("used_before", [False, True])
def test_a_blob_that_is_another_one_is_refused_though_it_is_a_good_wheel(
    builder: Builder, used_before: bool
) -> None:
    """uv checks no hash: it is for the agent to see."""
    wheel, more = big(builder.shop), small(builder.shop, "1.0", b"word = 'right'")
    builder.build(A, wheel, *[more] * used_before)
    blob, wrong = builder.blob(more), builder.shop.folder / "wrong"
    wrong.mkdir()
    before = blob.stat()
    make_wheel(wrong, "small", "1.0", {"small.py": b"word = 1"})
    padded = (wrong / more.name).read_bytes().ljust(before.st_size, b"\0")
    assert len(padded) == before.st_size
    blob.write_bytes(padded)
    os.utime(blob, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(HostFailed) as refused:
        builder.build(B, wheel, more, small(builder.shop, "2.0"))
    assert refused.value.slug == "damaged"
    assert not builder.env(B).exists()
    assert not blob.exists()
    builder.build(B, wheel, more)
    assert builder.says(B, "import big, small; print(small.word)") == "right"


def test_another_wheel_of_the_same_name_is_unpacked(builder: Builder) -> None:
    wheel = big(builder.shop)
    first = builder.build(A, wheel, small(builder.shop, "1.0", b"word = 'old'"))
    second = builder.build(B, wheel, small(builder.shop, "1.0", b"word = 'new'"))
    assert builder.says(B, "import small; print(small.word)") == "new"
    assert inode(first / "big.py") != inode(second / "big.py")
    builder.build(C, wheel, small(builder.shop, "1.0", b"word = 'old'"))
    assert builder.says(C, "import small; print(small.word)") == "old"


def test_fresh_unpacks_everything(builder: Builder) -> None:
    wheel = big(builder.shop)
    first = builder.build(A, wheel)
    second = builder.build(B, wheel, rebuild="another")
    third = builder.build(C, wheel)
    assert inode(first / "big.py") != inode(second / "big.py") == inode(third / "big.py")
    again = builder.build(B, wheel, rebuild="another")  # not that build: it is kept
    assert inode(again / "big.py") == inode(second / "big.py")


def test_scripts_of_packages_run_with_the_python_of_their_environment(builder: Builder) -> None:
    """It gets its name when it is complete: what it consists of cannot have known it."""
    names = b"[console_scripts]\ntool = tool:say\n"
    files = {
        "tool.py": b"def say():\n    import sys\n    print(sys.prefix)\n",
        "tool-1.0.dist-info/entry_points.txt": names,
    }
    builder.build(A, make_wheel(builder.shop.folder, "tool", "1.0", files))
    done = subprocess.run([builder.env(A) / "bin" / "tool"], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == (str(builder.env(A)), "")


def test_a_build_that_fails_leaves_nothing_unpacked(builder: Builder) -> None:
    wheel, broken = big(builder.shop), builder.shop.wheels / "broken-1.0-py3-none-any.whl"
    with zipfile.ZipFile(broken, "w") as archive:
        archive.writestr("broken.py", "")
    first = builder.build(A, wheel)
    assert builder.cache.exists()
    with pytest.raises(HostFailed):
        builder.build(B, wheel, broken)
    assert not builder.cache.exists()
    assert not builder.env(B).exists()
    assert builder.says(A, "import big; print(big.word)") == "right"
    assert inode(builder.build(B, wheel) / "big.py") != inode(first / "big.py")


# --- the class alone: another uv, no hard links --------------------------------------------------

UV, WHEEL = "b" * 64, ("big-1.0-py3-none-any.whl", "a" * 64)


@pytest.fixture
def unpacked(tmp_path: Path) -> Any:
    """The module, on a host that has one wheel as a blob."""
    blob = tmp_path / "blobs" / "sha256" / "aa" / WHEEL[1]
    blob.parent.mkdir(parents=True)
    blob.write_text("a wheel")
    return wheel_cache


def built(unpacked: Any, root: Path, *, shared: bool = True) -> None:
    store = began(unpacked.WheelCache(str(root), UV, [WHEEL], False))
    os.mkdir(store.cache)
    Path(store.cache, "big.py").write_text("")
    if shared:
        os.link(Path(store.cache, "big.py"), root / "big.py")
    store.note_unpacked([WHEEL])
    store.keep()


def began(store: Any) -> Any:
    store.make_empty_links()
    store.begin([WHEEL])
    return store


def nothing(root: Path) -> None:
    pass


def half_marked(root: Path) -> None:
    mark = root / "blobs" / "unpacked" / "mark"
    mark.write_text(mark.read_text()[:-9])


def touched(root: Path) -> None:
    os.utime(root / "blobs" / "sha256" / "aa" / WHEEL[1])


# what happens, the next uv, wheels that are unpacked anew, is all that was unpacked removed
NEXT = [
    (nothing, UV, [], False),
    (nothing, "c" * 64, [WHEEL], True),
    (half_marked, UV, [WHEEL], True),
    (touched, UV, [WHEEL], False),
]


@pytest.mark.parametrize(("happens", "uv", "lacking", "gone"), NEXT)
def test_when_unpacked_wheels_are_taken(
    unpacked: Any, tmp_path: Path, happens: Callable[[Path], None], uv: str,
    lacking: list[object], gone: bool,
) -> None:  # fmt: skip
    built(unpacked, tmp_path)
    happens(tmp_path)
    store = unpacked.WheelCache(str(tmp_path), uv, [WHEEL], False)
    assert store.find_lacking([WHEEL]) == lacking
    began(store)
    assert os.path.exists(store.cache) is not gone
    assert not os.path.exists(store.mark)  # until this build is good too


def test_nothing_is_kept_where_files_are_copied(unpacked: Any, tmp_path: Path) -> None:
    built(unpacked, tmp_path, shared=False)
    assert not list((tmp_path / "blobs" / "unpacked").glob("*"))
