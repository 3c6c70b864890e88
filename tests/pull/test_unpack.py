"""data pull --unpack: archives that would write elsewhere or fill the disk, and damaged ones, leave
nothing."""

from __future__ import annotations

import gzip
import io
import os
import stat
import struct
import tarfile
import time
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from ipexctl.base.remote_file import Content, RemoteFile
from ipexctl.data import unpack_files as unpack_module
from ipexctl.data.rules.pulled_tree import archive_suffix
from ipexctl.data.unpack_files import unpack_files
from tests.refused import refused


def unpacked(top: Path, **archives: bytes) -> Path:
    """Unpack archives, whose names have `__` for the dot."""
    fetched = top / "fetched"
    fetched.mkdir(exist_ok=True)
    files = []
    for key, data in archives.items():
        name = key.replace("__", ".")
        (fetched / key).write_bytes(data)
        files.append(RemoteFile(name, f"https://x/{name}", key, len(data)))
    contents = {f.local: Content(str(hash(archives[f.local])), f.size) for f in files}
    return unpack_files(fetched, files, contents)


def member(name: str, data: bytes = b"", kind: bytes = tarfile.REGTYPE, **values) -> bytes:
    """Return one member of a tar archive."""
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, len(data)
    for key, value in values.items():
        setattr(info, key, value)
    return info.tobuf(tarfile.GNU_FORMAT, errors="surrogateescape") + data + bytes(-len(data) % 512)


END = bytes(1024)


def sparse(form: int) -> bytes:
    """Return an archive with a file of 5 GiB without data, in each form that GNU tar writes."""
    size = 5 << 30
    if form == 0:
        info = tarfile.TarInfo("x")
        info.type = tarfile.GNUTYPE_SPARSE
        header = bytearray(info.tobuf(tarfile.GNU_FORMAT))
        header[386:410] = b"%011o\0%011o\0" % (size, 0)
        header[483:495] = b"%011o\0" % size
        header[148:156] = b" " * 8
        header[148:155] = b"%06o\0" % sum(header)
        return bytes(header) + END
    info, data = tarfile.TarInfo("x"), b""
    if form == 1:
        info.pax_headers = {"GNU.sparse.size": f"{size}", "GNU.sparse.map": f"{size},0"}
    elif form == 2:
        info.pax_headers = {
            "GNU.sparse.size": f"{size}", "GNU.sparse.numblocks": "1",
            "GNU.sparse.offset": f"{size}", "GNU.sparse.numbytes": "0",
        }  # fmt: skip
    else:
        info.pax_headers = {
            "GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "x",
            "GNU.sparse.realsize": f"{size}",
        }  # fmt: skip
        data = f"1\n{size}\n0\n".encode().ljust(512, b"\0")
        info.size = len(data)
    return info.tobuf(tarfile.PAX_FORMAT) + data + END


def zipped(name: str, data: bytes = b"", mode: int = stat.S_IFREG) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        info = zipfile.ZipInfo(name)
        info.external_attr = mode << 16
        archive.writestr(info, data)
    return out.getvalue()


def tree(folder: Path) -> dict[str, bytes | None]:
    return {
        str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None
        for p in sorted(folder.rglob("*"))
    }


@pytest.mark.parametrize(
    ("name", "suffix"),
    [
        ("a.tar", ".tar"), ("d.x/A.TAR.GZ", ".TAR.GZ"), ("a.tgz", ".tgz"),
        ("a.tar.bz2", ".tar.bz2"), ("a.tar.xz", ".tar.xz"), ("a.b.zip", ".zip"), ("a.gz", ""),
        (".zip", ""), ("d/.tar", ""), ("zip", ""), ("a.tar.zst", ""),
    ],
)  # fmt: skip
def test_archives_are_known_by_their_names(name: str, suffix: str) -> None:
    assert archive_suffix(name) == suffix


@pytest.mark.parametrize(
    ("key", "mode"),
    [
        ("set__tar", "w"), ("set__tar__gz", "w:gz"), ("set__tgz", "w:gz"),
        ("set__tar__bz2", "w:bz2"), ("SET__TAR__XZ", "w:xz"),
    ],
)  # fmt: skip
def test_tar_archives_become_their_files(tmp_path: Path, key: str, mode: str) -> None:
    source = tmp_path / "source"
    (source / "train/empty").mkdir(parents=True)
    large = os.urandom(3 << 20)
    (source / "train/x.bin").write_bytes(large)
    (source / "tool").write_bytes(b"#!")
    (source / "tool").chmod(0o6755)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:
        archive.add(source, ".")
    folder = unpacked(tmp_path, **{key: out.getvalue()})
    assert tree(folder) == tree(source)
    modes = [stat.S_IMODE((folder / name).stat().st_mode) for name in ("tool", "train/x.bin")]
    assert modes == [0o700, 0o600]
    inode = folder.stat().st_ino
    assert unpacked(tmp_path, **{key: out.getvalue()}).stat().st_ino == inode


def test_each_archive_of_a_folder_is_unpacked_in_its_place(tmp_path: Path) -> None:
    made = {"a/x__zip": zipped("1", b"one"), "labels__csv": b"0", "b__tar": member("2") + END}
    (tmp_path / "fetched/a").mkdir(parents=True)
    found = tree(unpacked(tmp_path, **made))
    assert found == {"a": None, "a/1": b"one", "labels.csv": b"0", "2": b""}


def tar_with(*arguments: object, **values: object) -> Callable[[], bytes]:
    return lambda: member("good", b"1") + member(*arguments, **values) + END  # type: ignore[arg-type]


def pax_bomb() -> bytes:
    """A name of 4 GB, which tarfile would have in memory."""
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, 4 << 30
    return gzip.compress(info.tobuf(tarfile.USTAR_FORMAT))


def lying_zip() -> bytes:
    """It declares ten of the million bytes that it has."""
    data = bytearray(zipped("x", bytes(10**6)))
    for at, size in ((data.find(b"PK\1\2"), 24), (0, 22)):
        data[at + size : at + size + 4] = struct.pack("<I", 10)
    return bytes(data)


TARS = {
    "absolute": tar_with("/etc/x", b"1"),
    "parent": tar_with("../x", b"1"),
    "inner-parent": tar_with("a/../../x", b"1"),
    "parent-folder": tar_with("..", kind=tarfile.DIRTYPE),
    "git": tar_with(".git/hooks/x", b"1"),
    "escape": tar_with("a\x1b]0;x\x07", b"1"),
    "not-utf-8": tar_with("a\udcff", b"1"),
    "symlink": tar_with("x", kind=tarfile.SYMTYPE, linkname="/etc"),
    "inner-symlink": tar_with("x", kind=tarfile.SYMTYPE, linkname="good"),
    "hard-link": tar_with("x", kind=tarfile.LNKTYPE, linkname="good"),
    "device": tar_with("x", kind=tarfile.CHRTYPE, devmajor=1),
    "fifo": tar_with("x", kind=tarfile.FIFOTYPE),
    "twice": tar_with("good", b"2"),
    "below-a-file": tar_with("good/x", b"2"),
    "long": tar_with("x" * 300, b"2"),
    **{f"sparse-{n}": partial(sparse, n) for n in range(4)},
    "negative": lambda: member("good", b"1") + member("x", size=-512) + END,
}
BROKEN = {
    "cut": lambda: member("good", b"1") + member("x", b"1" * 5000)[:2000],
    "cut-between": lambda: member("good", b"1"),
    "garbage": lambda: member("good", b"1") + b"x" * 1024,
    "page": lambda: b"<html>",
    "empty": lambda: b"",
}


def header(kind: bytes, body: bytes) -> bytes:
    """A header of tar that belongs to the next member, with its body."""
    info = tarfile.TarInfo("x")
    info.type, info.size = kind, len(body)
    return info.tobuf(tarfile.USTAR_FORMAT) + body + bytes(-len(body) % 512)


def many_sparse_blocks() -> bytes:
    """An old sparse header that goes on and on: each block says that another one follows."""
    first = bytearray(tarfile.TarInfo("x").tobuf(tarfile.GNU_FORMAT))
    first[156:157], first[482] = tarfile.GNUTYPE_SPARSE, 1
    first[148:156] = b" " * 8
    first[148:156] = b"%06o\0 " % sum(first)
    block = bytearray(512)
    block[504] = 1
    return bytes(first) + bytes(block) * 20_000


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "archive",
    [
        header(b"x", b"1" * (1 << 20)) + member("x") + END,
        header(b"x", b"%d comment=%s\n" % (100_019, b"1" * 100_000)) + member("x") + END,
        b"".join(header(b"g", b"%d k%d=%s\n" % (60_000, n, b"v" * 59_990)) for n in range(50))
        + member("x") + END,
        many_sparse_blocks(),
    ],
    ids=["digits", "digits-in-a-value", "headers-for-all", "sparse-blocks"],
)  # fmt: skip
def test_headers_that_cost_time_or_memory_are_refused(tmp_path: Path, archive: bytes) -> None:
    began = time.process_time()
    with refused("archive-invalid", "a header as long as no archive needs"):
        unpacked(tmp_path, set__tgz=gzip.compress(archive))
    assert time.process_time() - began < 20


@pytest.mark.parametrize("top", ["", "a/b/"])
def test_an_archive_does_not_become_a_repository(tmp_path: Path, top: str) -> None:
    """Git takes a folder with these three for one, and obeys its config."""
    names = ["HEAD", "config", "refs/heads/x", "Objects/pack/x"]
    data = b"".join(member(top + name, b"1") for name in names) + END
    with refused("archive-invalid", "git repository"):
        unpacked(tmp_path, set__tar=data)
    assert unpacked(tmp_path, two__tar=b"".join(member(n, b"1") for n in names[:3]) + END)


@pytest.mark.parametrize("case", [*TARS, *BROKEN])
def test_a_tar_that_leaves_its_folder_or_is_damaged_is_refused(tmp_path: Path, case: str) -> None:
    word = "set.tar" if case in BROKEN else "'"
    with refused("archive-invalid", word) as e:
        unpacked(tmp_path, set__tar={**TARS, **BROKEN}[case]())
    assert "set.tar" in e.value.what
    assert {"\x1b", "\x07"}.isdisjoint(str(e.value.why))
    assert tree(tmp_path).keys() == {"fetched", "fetched/set__tar"}
    assert "sparse" not in case or e.value.why.startswith("'x': only files and folders")


@pytest.mark.parametrize(
    "archive",
    [
        zipped("../x", b"1"),
        zipped("/x", b"1"),
        zipped("x", b"/etc", stat.S_IFLNK | 0o777),
        zipped("x", b"", stat.S_IFCHR),
        zipped("x", b"1" * 100)[:-30],
        lying_zip(),
        b"<html>",
    ],
)
def test_a_zip_that_leaves_its_folder_or_is_damaged_is_refused(
    tmp_path: Path, archive: bytes
) -> None:
    with refused("archive-invalid", "set.zip"):
        unpacked(tmp_path, set__zip=archive)
    assert tree(tmp_path).keys() == {"fetched", "fetched/set__zip"}


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("set__tar__gz", gzip.compress(member("x", b"1" * 5000) + END)[:-20]),
        ("set__tar__gz", gzip.compress(member("x", b"1") + END)[:-6] + b"sum456"),
        ("set__tar__xz", member("x") + END),
        ("set__tgz", pax_bomb()),
    ],
)
def test_damaged_compressed_data_is_refused(tmp_path: Path, name: str, data: bytes) -> None:
    with refused("archive-invalid", name.replace("__", ".")):
        unpacked(tmp_path, **{name: data})
    assert tree(tmp_path).keys() == {"fetched", f"fetched/{name}"}


def test_what_does_not_fit_on_the_disk_is_not_begun(tmp_path: Path) -> None:
    bomb = member("good", b"1") + member("zeros", size=1 << 60)
    with refused("no-space-here", "'zeros'") as e:
        unpacked(tmp_path, set__tar__gz=gzip.compress(bomb))
    assert "XDG_CACHE_HOME" in e.value.hint
    assert tree(tmp_path).keys() == {"fetched", "fetched/set__tar__gz"}


MANY = [f"{n}" for n in range(3000)]
AGAIN = ["d/"] * 3000
DEEP = ["/".join([f"{n}", *"x" * 600]) for n in range(5)]  # each member with many folders


@pytest.mark.parametrize(
    ("key", "names"),
    [("set__tar__gz", MANY), ("set__tar__gz", DEEP), ("set__tar__gz", AGAIN), ("set__zip", DEEP)],
)
def test_a_small_archive_does_not_become_any_number_of_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, names: list[str]
) -> None:
    monkeypatch.setattr(unpack_module, "FEW_ENTRIES", 1000)
    out = io.BytesIO()
    if key == "set__zip":
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in names:
                archive.writestr(name, b"")
    else:
        with gzip.GzipFile(fileobj=out, mode="wb") as stream:
            for name in names:
                info = tarfile.TarInfo(name)
                info.type = tarfile.DIRTYPE if name.endswith("/") else tarfile.REGTYPE
                stream.write(info.tobuf(tarfile.PAX_FORMAT))
            stream.write(END)
    with refused("archive-too-many", "files and folders") as e:
        unpacked(tmp_path, **{key: out.getvalue()})
    assert "data push FOLDER" in e.value.hint
    assert tree(tmp_path).keys() == {"fetched", f"fetched/{key}"}


def test_many_small_files_are_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpack_module, "FEW_ENTRIES", 1000)
    names = [f"{n % 10}/{n}" for n in range(2000)]
    members = b"".join(member(name, os.urandom(150)) for name in names)
    folder = unpacked(tmp_path, set__tar__gz=gzip.compress(members + END))
    assert sum(path.is_file() for path in folder.rglob("*")) == len(names)


def test_what_a_killed_process_left_is_unpacked_again(tmp_path: Path) -> None:
    folder = unpacked(tmp_path, set__zip=zipped("x", b"1"))
    half = folder.rename(f"{folder}.ipexctl-part")
    (half / "more").write_bytes(b"")
    assert tree(unpacked(tmp_path, set__zip=zipped("x", b"1"))) == {"x": b"1"}
    assert not half.exists()
