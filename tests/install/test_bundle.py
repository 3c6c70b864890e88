"""Bundles of stand-in wheels, by the real commands: made, used without network, tampered with."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from ipexctl.blobs.blob_store import Store
from ipexctl.errors import InputError
from ipexctl.install.bundle import read_lock_of, unpack_archive, write_archive
from ipexctl.stack.lock_file import Lock, LockedPackage, parse_lock, render_lock
from tests.install.conftest import Outcome, Shop, make_wheel

BYTES = "d54416ca0775ee2598611d25294cadc1fd91cc5dda8221c39ecc033217ea8b4f"  # of a bundle
BLOCK = 512  # bytes of a tar header
PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"


def made(shop: Shop) -> Path:
    """A bundle for this machine's Python, and its lock in the working folder."""
    words = ("--python", PYTHON, "--mpi", "none", "--stack", "stock", "-o", "here.tar")
    done = shop.ipexctl("bundle", *words)
    assert done.code == 0, done.err
    return shop.work / "here.tar"


def install(shop: Shop, *words: str, **more: str) -> Outcome:
    """On a machine that has nothing but the bundle: no cache, no folder of wheels, no index."""
    bare = {"XDG_CACHE_HOME": str(shop.folder / "bare"), "PIP_FIND_LINKS": "", **more}
    options = ("--root", str(shop.root), "--bundle", "here.tar", "--json", "-y")
    return shop.ipexctl("install", *options, *words, **bare)


def blobs_of(shop: Shop) -> set[str]:
    """What the bare machine's store has, parts of files too."""
    return {p.name for p in (shop.folder / "bare" / "ipexctl" / "blobs").rglob("*") if p.is_file()}


def unpack(shop: Shop) -> None:
    """What `install --bundle` does once it has accepted the lock."""
    path, text = shop.work / "here.tar", (shop.work / "ipexctl.lock").read_bytes()
    store = Store(shop.folder / "bare" / "ipexctl" / "blobs")
    read_lock_of(path)
    unpack_archive(path, text, parse_lock(text.decode(), "").blobs, store, lambda n: None)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_bundle_is_the_lock_and_its_files_as_any_tar_reads_it(shop: Shop) -> None:
    path = made(shop)
    text = (shop.work / "ipexctl.lock").read_bytes()
    lock = parse_lock(text.decode(), "")
    with tarfile.open(path, "r:") as tar:
        found = {m.name: tar.extractfile(m).read() for m in tar}
        modes = {(m.mode, m.uid, m.mtime, m.type) for m in tar}
    assert list(found) == ["ipexctl.lock", *(f"blobs/{b.sha256}" for b in lock.blobs)]
    assert found.pop("ipexctl.lock") == text
    assert {hashlib.sha256(c).hexdigest() for c in found.values()} == {
        name.removeprefix("blobs/") for name in found
    }
    assert modes == {(0o644, 0, 0, tarfile.REGTYPE)}


def test_the_same_lock_gives_the_same_bytes(shop: Shop) -> None:
    path = made(shop)
    first = path.read_bytes()
    lock = (shop.work / "ipexctl.lock").read_bytes()
    shutil.rmtree(shop.folder / "cache")  # all is fetched anew
    make_wheel(shop.wheels, "numpy", "2.1", {"numpy.py": b""})  # newer, and not in the lock
    again = shop.ipexctl("bundle", "-o", "here.tar", "--json").document
    assert (path.read_bytes(), (shop.work / "ipexctl.lock").read_bytes()) == (first, lock)
    assert (again["new_lock"], again["lock_sha256"]) == (False, hashlib.sha256(lock).hexdigest())


def test_every_python_writes_the_same_bytes(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    kept = [store.add(f"{i}.whl", [bytes([i]) * 700]) for i in range(3)]
    write_archive(tmp_path / "b.tar", b"the lock", kept, store, lambda n: None)
    assert digest(tmp_path / "b.tar") == BYTES


def test_without_lock_and_hosts_it_asks_which_python_is_meant(shop: Shop) -> None:
    refused = shop.ipexctl("bundle")
    assert (refused.code, "ipexctl bundle --python 3.11" in refused.err) == (2, True)
    assert list(shop.work.iterdir()) == []


def test_a_machine_without_network_installs_from_it_and_fetches_nothing(shop: Shop) -> None:
    made(shop)
    if os.geteuid():
        pytest.skip("in a user namespace root's folders are another user's, and so not trusted")
    offline = ("unshare", "--map-root-user", "--net")
    if subprocess.run([*offline, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user may not make a network namespace")
    environ = {"XDG_CACHE_HOME": str(shop.folder / "bare"), "PIP_FIND_LINKS": ""}
    words = ("install", "--root", str(shop.root), "--bundle", "here.tar", "--json", "-y")
    done = shop.ipexctl(*words, before=offline, **environ)
    assert (done.code, done.states) == (0, ["changed"]), done.document["hosts"]
    assert (done.document["bytes_fetched"], done.document["bytes_sent"] > 0) == (0, True)
    again = shop.ipexctl(*words, before=offline, **environ)
    assert (again.code, again.states, again.document["bytes_sent"]) == (0, ["ok"], 0)


def test_its_sha256_stands_for_a_lock_that_is_not_there_and_the_lock_is_kept(shop: Shop) -> None:
    made(shop)
    lock = shop.work / "ipexctl.lock"
    text = lock.read_text()
    known = digest(lock)
    lock.unlink()
    refused = install(shop)
    assert (refused.code, refused.slug) == (2, "bundle-unverified")
    assert known not in refused.out + refused.err  # it must come from where the bundle was made
    wrong = install(shop, "--lock-sha256", "0" * 64)
    assert (wrong.code, wrong.slug) == (2, "bundle-other-lock")
    assert (blobs_of(shop), shop.root.exists()) == (set(), False)
    done = install(shop, "--lock-sha256", known)
    assert (done.code, done.states) == (0, ["changed"]), done.err
    assert lock.read_text() == text


REFUSED = [
    (("--torch", "2.13.0"), "options-conflict"),
    (("-r", "requirements.txt"), "options-conflict"),
    (("--lock-sha256", "abc"), "bundle-other-lock"),
    (("--bundle", "gone.tar"), "bundle-unreadable"),
]


@pytest.mark.parametrize(("words", "slug"), REFUSED)
def test_what_is_not_clear_is_refused(shop: Shop, words: tuple[str, ...], slug: str) -> None:
    made(shop)
    refused = install(shop, *words)
    assert (refused.code, refused.slug) == (2, slug), refused.err


def test_a_bundle_for_another_python_is_refused_with_both(shop: Shop) -> None:
    other = "3.12" if PYTHON != "3.12" else "3.11"
    words = ("--python", other, "--mpi", "none", "--stack", "stock", "-o", "here.tar")
    assert shop.ipexctl("bundle", *words).code == 0
    refused = install(shop, "--python", sys.executable)
    assert (refused.code, refused.slug) == (3, "bundle-does-not-fit")
    assert f" Python {other}, " in refused.err and f" Python {PYTHON}, " in refused.err


# --- tampering ------------------------------------------------------------------------------------


def evil(name: str, kind: bytes = tarfile.REGTYPE, **more: object) -> bytes:
    """One member as any tar program may write it."""
    info = tarfile.TarInfo(name)
    info.type = kind
    for key, value in more.items():
        setattr(info, key, value)
    return info.tobuf(tarfile.GNU_FORMAT)


def places(data: bytes) -> list[tuple[int, int]]:
    """Where each member begins, and its size."""
    found, at = [], 0
    while any(data[at : at + BLOCK]):
        size = int(data[at + 124 : at + 135], 8)
        found.append((at, size))
        at += BLOCK + size + -size % BLOCK
    return found


def first_blob(data: bytes) -> int:
    return places(data)[1][0]


def instead(new: bytes) -> Callable[[bytes], bytes]:
    """Another header for the first blob; its bytes follow as they were."""

    def change(data: bytes) -> bytes:
        at = first_blob(data)
        return data[:at] + new + data[at + BLOCK :]

    return change


def changed_blob(data: bytes) -> bytes:
    at = first_blob(data) + BLOCK
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def twice(data: bytes) -> bytes:
    (first, size), (second, _) = places(data)[1:3]
    return data[:second] + data[first:second] + data[second:]


def swapped(data: bytes) -> bytes:
    (first, _), (second, _), (third, _) = places(data)[1:4]
    return data[:first] + data[second:third] + data[first:second] + data[third:]


def one_more_member(data: bytes) -> bytes:
    at, size = places(data)[-1]
    end = at + BLOCK + size + -size % BLOCK
    return data[:end] + evil("x") + data[end:]


NOT_NEXT = " is not blobs/"
TAMPERED = [
    ("a blob was changed", changed_blob, "in it was changed: sha256"),
    ("truncated in a file", lambda d: d[: first_blob(d) + BLOCK + 7], "unexpected end of data"),
    ("truncated between files", lambda d: d[: first_blob(d)], "it ends before blobs/"),
    ("a member more than it says", one_more_member, "it has more files than its lock"),
    ("not a tar", lambda d: b"PK" + d, "bad checksum"),
    ("empty", lambda d: b"", "empty file"),
    ("without a lock", lambda d: d[first_blob(d) :], "does not begin with ipexctl.lock"),
    ("one file twice", twice, NOT_NEXT),
    ("another order", swapped, NOT_NEXT),
    ("absolute", instead(evil("/etc/cron.d/x")), NOT_NEXT),
    ("dots", instead(evil("blobs/../../.ssh/authorized_keys")), NOT_NEXT),
    ("unknown", instead(evil("blobs/" + "f" * 64)), NOT_NEXT),
    ("a link", instead(evil("blobs/x", tarfile.SYMTYPE, linkname="/etc")), NOT_NEXT),
    ("a hard link", instead(evil("blobs/x", tarfile.LNKTYPE, linkname="y")), NOT_NEXT),
    ("a device", instead(evil("blobs/x", tarfile.CHRTYPE)), NOT_NEXT),
    ("a folder", instead(evil("blobs", tarfile.DIRTYPE)), NOT_NEXT),
    ("a sparse file", instead(evil("x", tarfile.GNUTYPE_SPARSE)), NOT_NEXT),
    ("noise", instead(os.urandom(BLOCK)), "it ends before blobs/"),
]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """A shop with a bundle; each test works on a copy."""
    shop = Shop(tmp_path_factory.mktemp("good"))
    shop.stock()
    made(shop)
    return shop


@pytest.fixture
def bundled(good: Shop, tmp_path: Path) -> Shop:
    shutil.copytree(good.work, tmp_path / "work")
    return Shop(tmp_path)


@pytest.mark.parametrize(("change", "why"), [t[1:] for t in TAMPERED], ids=[t[0] for t in TAMPERED])
def test_what_is_not_whole_is_refused_and_nothing_is_left(
    bundled: Shop, change: Callable[[bytes], bytes], why: str
) -> None:
    path = bundled.work / "here.tar"
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(InputError) as refused:
        unpack(bundled)
    assert why in refused.value.why
    assert (refused.value.slug, str(path) in refused.value.what) == ("bundle-invalid", True)
    lock = parse_lock((bundled.work / "ipexctl.lock").read_text(), "")
    assert blobs_of(bundled) <= {b.sha256 for b in lock.blobs}  # no part, nothing strange


SAME_NAME = [
    ("a link", {"type": tarfile.SYMTYPE, "linkname": "/etc"}, NOT_NEXT),
    ("a hard link", {"type": tarfile.LNKTYPE, "linkname": "ipexctl.lock"}, NOT_NEXT),
    ("a device", {"type": tarfile.CHRTYPE}, NOT_NEXT),
    ("a size of 7 GiB", {"size": 7 << 30}, NOT_NEXT),
]


@pytest.mark.parametrize(
    ("fields", "why"), [t[1:] for t in SAME_NAME], ids=[t[0] for t in SAME_NAME]
)
def test_a_known_name_with_another_header_is_refused(
    bundled: Shop, fields: dict[str, object], why: str
) -> None:
    path = bundled.work / "here.tar"
    data = path.read_bytes()
    at, size = places(data)[1]
    name = data[at : at + 70].decode()
    path.write_bytes(instead(evil(name, **{"size": size, **fields}))(data))
    with pytest.raises(InputError) as refused:
        unpack(bundled)
    assert why in refused.value.why


EVIL = LockedPackage(
    "evil", "1.0", "evil-1.0-py3-none-any.whl", hashlib.sha256(b"evil").hexdigest(), 4
)


def another_wheel(lock: Lock) -> Lock:
    changed = dataclasses.replace(lock.packages[0], sha256=EVIL.sha256, size=EVIL.size)
    return dataclasses.replace(lock, packages=(changed, *lock.packages[1:]))


def one_more(lock: Lock, **fields: str) -> Lock:
    more = dataclasses.replace(EVIL, **fields)
    return dataclasses.replace(lock, packages=(more, *lock.packages))


def both_changed(path: Path, change: Callable[[Lock], Lock] = another_wheel) -> None:
    """What somebody does who knows the format: the lock changed, and its files to match it."""
    with tarfile.open(path) as tar:
        text, *contents = [tar.extractfile(m).read() for m in tar]
    before = parse_lock(text.decode(), "")
    lock = change(before)
    known = {b.sha256: c for b, c in zip(before.blobs, contents, strict=True)}
    known[EVIL.sha256] = b"evil"
    ordered = dataclasses.replace(lock, packages=tuple(sorted(lock.packages, key=lambda p: p.name)))
    members = [("ipexctl.lock", render_lock(lock).encode())]
    members += [(f"blobs/{b.sha256}", known[b.sha256]) for b in ordered.blobs]
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))


ANOTHER = "was made from another one, or was changed since"
HIDDEN = [
    ("twice", lambda lock: one_more(lock, name="numpy", version="2.0"), "is not numpy 2.0"),
    ("more", one_more, ANOTHER),
    ("a second uv", lambda lock: one_more(lock, name="uv", file="uv-1.0-py3-none-any.whl"),
     ANOTHER),
    ("later", lambda lock: dataclasses.replace(lock, requirements=("evil",)),
     ANOTHER),
    ("held back", lambda lock: dataclasses.replace(lock, constraints=("numpy<1",)),
     ANOTHER),
]  # fmt: skip


@pytest.mark.parametrize(("change", "why"), [h[1:] for h in HIDDEN], ids=[h[0] for h in HIDDEN])
def test_nothing_hides_in_the_lock_of_a_bundle(
    bundled: Shop, change: Callable[[Lock], Lock], why: str
) -> None:
    here = (bundled.work / "ipexctl.lock").read_text()
    both_changed(bundled.work / "here.tar", change)
    refused = install(bundled)
    assert (refused.code, why in refused.err) == (2, True), refused.err
    assert (blobs_of(bundled), bundled.root.exists()) == (set(), False)
    assert (bundled.work / "ipexctl.lock").read_text() == here


def test_a_blob_and_the_lock_changed_together_are_refused_by_the_sha256(bundled: Shop) -> None:
    known = digest(bundled.work / "ipexctl.lock")
    both_changed(bundled.work / "here.tar")
    refused = install(bundled, "--lock-sha256", known)
    assert (refused.code, refused.slug) == (2, "bundle-other-lock")
    assert (blobs_of(bundled), bundled.root.exists()) == (set(), False)


def test_current_stays_what_it_was_when_a_bundle_is_refused(shop: Shop) -> None:
    path = made(shop)
    assert install(shop).states == ["changed"]
    before = shop.current
    (shop.work / "ipexctl.lock").unlink()
    make_wheel(shop.wheels, "numpy", "2.1", {"numpy.py": b""})
    made(shop)
    path.write_bytes(changed_blob(path.read_bytes()))
    refused = install(shop)
    assert (refused.code, refused.slug) == (2, "bundle-invalid")
    assert "numpy-2.1-py3-none-any.whl" in refused.err
    assert (shop.current, len(shop.envs())) == (before, 2)
