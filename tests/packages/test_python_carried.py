"""A CPython that is carried to the hosts.

Real standalone builds are not at hand in a test: a Python of this machine, with only what runs, is
packed in their layout. Wheels are stand-ins.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ipexctl.blobs.blob_store import Store
from ipexctl.errors import InputError, NothingFits
from ipexctl.install import carried_python
from ipexctl.install.carried_python import find_build
from ipexctl.local.shipped_tables import stack_rows
from ipexctl.machines.agent import Agent
from ipexctl.stack.lock_file import parse_lock
from ipexctl.stack.selection import choose_stacks
from ipexctl.stack.version_table import Request
from tests.install.conftest import Shop
from tests.stack.test_stack import host

ASK = "import sys, sysconfig as s; print(*sys.version_info[:3]); print(s.get_path('stdlib')); " \
      "print(s.get_config_var('Py_ENABLE_SHARED'))"  # fmt: skip
SKIPPED = ("test", "idlelib", "lib2to3", "ensurepip", "tkinter", "site-packages", "dist-packages",
           "__pycache__", "config-*")  # fmt: skip


def usable() -> tuple[str, str, Path] | None:
    """(path, version, its library) of a Python here that can be moved: it needs no libpython."""
    for path in dict.fromkeys((sys.executable, "/usr/bin/python3", "/usr/local/bin/python3")):
        done = subprocess.run([path, "-c", ASK], capture_output=True, text=True, check=False)
        if done.returncode:
            continue
        version, library, shared = done.stdout.splitlines()
        if shared == "0" or not links_libpython(os.path.realpath(path)):
            return os.path.realpath(path), version.replace(" ", "."), Path(library)
    return None


def links_libpython(program: str) -> bool:
    found = subprocess.run(["ldd", program], capture_output=True, text=True, check=False)
    return found.returncode != 0 or "libpython" in found.stdout


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As uv keeps one: cpython-VERSION-linux-ARCH-gnu with bin and lib in it."""
    if not (found := usable()):
        pytest.skip("no Python here that runs without its own libpython")
    program, version, library = found
    minor = version.rpartition(".")[0]
    arch = os.uname().machine
    folder = tmp_path_factory.mktemp("pythons") / f"cpython-{version}-linux-{arch}-gnu"
    (folder / "bin").mkdir(parents=True)
    shutil.copy(program, folder / "bin" / f"python{minor}")
    (folder / "bin" / "python3").symlink_to(f"python{minor}")
    skip = shutil.ignore_patterns(*SKIPPED)
    shutil.copytree(library, folder / "lib" / f"python{minor}", ignore=skip, symlinks=False)
    return folder


def base(shop: Shop) -> Path:
    """The interpreter that the current environment is made with."""
    return Path(os.path.realpath(shop.root / "current" / "bin" / "python"))


def test_it_is_unpacked_once_and_stays_the_locks_choice(shop: Shop, unpacked: Path) -> None:
    first = shop.install("--python-from", str(unpacked))
    assert (first.code, first.states) == (0, ["changed"]), first.err + first.out
    locked = parse_lock((shop.work / "ipexctl.lock").read_text(), "").cpython
    assert locked and locked.version == unpacked.name.split("-")[1]
    place = shop.root / "pythons" / locked.sha256[:16]
    assert base(shop).parent == place / "bin"
    assert oct(place.parent.stat().st_mode & 0o777) == "0o700"
    again = shop.install()  # without the option: the lock has it
    assert (again.code, again.states) == (0, ["ok"])
    own = shop.install("--python", sys.executable)
    assert (own.code, own.states) == (0, ["changed"])
    assert own.document["environment"] != first.document["environment"]
    assert parse_lock((shop.work / "ipexctl.lock").read_text(), "").cpython is None
    assert not base(shop).is_relative_to(shop.root)


def test_it_goes_when_no_environment_needs_it(agent: Agent, tmp_path: Path) -> None:
    root, needed, idle = tmp_path / "root", "a" * 64, "b" * 64
    env = root / "envs" / ("c" * 16)
    env.mkdir(parents=True, mode=0o700)
    root.chmod(0o700)
    (env / ".ipexctl-ok").write_text(json.dumps({"wheels": [], "blobs": [needed]}))
    for sha in (needed, idle):
        (root / "pythons" / sha[:16] / "bin").mkdir(parents=True)
    for check, left in ((True, [needed[:16], idle[:16]]), (False, [needed[:16]])):
        agent.call("remove.root_upkeep.remove", {"root": str(root), "keys": [], "check": check})
        assert sorted(os.listdir(root / "pythons")) == left


def test_a_bundle_brings_it(shop: Shop, unpacked: Path) -> None:
    words = ("--python-from", str(unpacked), "--mpi", "none", "--stack", "stock", "-o", "b.tar")
    made = shop.ipexctl("bundle", *words)
    assert made.code == 0, made.err
    bare = {"XDG_CACHE_HOME": str(shop.folder / "bare"), "PIP_FIND_LINKS": ""}
    where = ("--root", str(shop.root), "--bundle", "b.tar", "--json", "-y")
    done = shop.ipexctl("install", *where, **bare)
    assert (done.code, done.states) == (0, ["changed"]), done.err
    assert base(shop).is_relative_to(shop.root / "pythons")


def test_who_has_not_got_it_any_more_is_told_to_name_it_again(shop: Shop, unpacked: Path) -> None:
    assert shop.install("--python-from", str(unpacked)).states == ["changed"]
    shutil.rmtree(shop.folder / "cache")
    refused = shop.install("--root", str(shop.folder / "other"))
    assert (refused.code, "--python-from FOLDER" in refused.err) == (2, True), refused.err
    other = ("--root", str(shop.folder / "other"))
    assert shop.install("--python-from", str(unpacked), *other).states == ["changed"]


def test_a_path_on_the_hosts_and_one_to_carry_contradict_each_other(
    shop: Shop, unpacked: Path
) -> None:
    refused = shop.install("--python-from", str(unpacked), "--python", sys.executable)
    assert (refused.code, refused.slug) == (2, "options-conflict"), refused.err


def test_where_no_python_fits_the_message_says_how_one_gets_there() -> None:
    with pytest.raises(NothingFits) as refused:
        choose_stacks([host("a", "3.6.8")], Request(stack="stock"), stack_rows())
    assert "--python-from FOLDER" in refused.value.hint


# --- from where -----------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


ARCH = os.uname().machine


def test_the_same_tree_gives_the_same_bytes(unpacked: Path, store: Store) -> None:
    version = unpacked.name.split("-")[1]
    minor = version.rpartition(".")[0]
    found = find_build(str(unpacked), ARCH, minor, store)
    assert (found.version, found.file) == (version, f"cpython-{version}-{ARCH}.tar.gz")
    assert find_build(str(unpacked), ARCH, "", store) == found


def test_how_files_share_their_bytes_and_what_is_no_file_change_nothing(tmp_path: Path) -> None:
    linked, copied = tmp_path / "linked", tmp_path / "copied"
    for folder in (linked, copied):
        folder.mkdir()
        (folder / "a.py").write_text("x = 1\n")
    (linked / "b.py").hardlink_to(linked / "a.py")
    os.mkfifo(linked / "c")
    shutil.copy(copied / "a.py", copied / "b.py")
    assert b"".join(carried_python._pack_folder(linked)) == b"".join(
        carried_python._pack_folder(copied)
    )


def test_another_version_or_architecture_is_refused_with_both(unpacked: Path, store: Store) -> None:
    other = "aarch64" if ARCH == "x86_64" else "x86_64"
    for arch, wanted, said in ((other, "", f"not for {other}"), (ARCH, "3.2", "3.2 ")):
        with pytest.raises(InputError) as refused:
            find_build(str(unpacked), arch, wanted, store)
        assert said in refused.value.what


def test_what_is_not_a_folder_of_uv_is_refused(tmp_path: Path, store: Store) -> None:
    named = tmp_path / f"cpython-3.11.9-linux-{ARCH}-gnu"
    named.mkdir()
    archive = tmp_path / "a.tar.gz"
    archive.write_bytes(b"")
    for path, slug in (
        (named, "python-folder-invalid"),  # without bin/python3
        (tmp_path, "python-folder-invalid"),
        (archive, "python-folder-invalid"),
        (tmp_path / "gone", "python-folder-invalid"),
    ):
        with pytest.raises(InputError) as refused:
            find_build(str(path), ARCH, "", store)
        assert (refused.value.slug, str(path) in refused.value.what) == (slug, True)
