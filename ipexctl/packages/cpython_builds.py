"""--python-from: the folder of a CPython that `uv python install` made, as one blob in the store
here. Its name has the version and the architecture; the lock keeps both, and its sha256."""

from __future__ import annotations

import gzip
import re
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ipexctl.blobs.blob_store import Store
from ipexctl.errors import InputError
from ipexctl.install.stack.lock_file import Package
from ipexctl.install.stack.version_table import is_version
from ipexctl.packages.indexes import expanded
from ipexctl.quick_dataclass import dataclass

CHUNK = 1 << 20
_NAME = re.compile(r"cpython-(\d+\.\d+\.\d+)-linux-(x86_64|aarch64)-gnu")
_HINT = "--python-from $(uv python dir)/cpython-...   # after: uv python install 3.11"


@dataclass(frozen=True)
class Wanted:
    """For hosts of one kind. `version`: as --python says it, "" for any."""

    arch: str
    version: str = ""

    def fits(self, version: str, arch: str) -> bool:
        return arch == self.arch and (not self.version or is_version(version, self.version))


def find_build(where: str, wanted: Wanted, store: Store) -> Package:
    """Its archive is in the store afterwards. Raises InputError or NotHere."""
    folder = expanded(where).resolve()  # uv links cpython-3.11-... to the one with all numbers
    if not folder.exists():
        raise InputError(
            f"{folder} does not exist",
            why="it was given with --python-from",
            hint=_HINT,
            slug="python-folder-missing",
        )
    found = _NAME.fullmatch(folder.name)
    if not found or not (folder / "bin" / "python3").exists():
        raise InputError(
            f"{folder} is not a folder that `uv python install` made",
            why="it is called cpython-VERSION-linux-ARCH-gnu and contains bin/python3",
            hint=_HINT,
            slug="python-folder-invalid",
        )
    version, arch = found.groups()
    if not wanted.fits(version, arch):
        need = f"{wanted.version} " * bool(wanted.version) + f"for {wanted.arch}"
        raise InputError(
            f"{where} is CPython {version} for {arch}, not {need}",
            hint=_HINT,
            slug="python-does-not-fit",
        )
    blob = store.add(folder.name, _packed(folder))
    file = f"cpython-{version}-{arch}.tar.gz"
    return Package("cpython", version, file, blob.sha256, blob.size)


def _packed(folder: Path) -> Iterator[bytes]:
    """The same tree gives the same bytes: no dates, no owners, names in order."""
    with tempfile.TemporaryFile() as out:
        with (
            gzip.GzipFile("", "wb", 6, out, mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive,
        ):
            _add(archive, folder, "python")
            for path in _tree(folder):
                _add(archive, path, f"python/{path.relative_to(folder).as_posix()}")
        out.seek(0)
        while chunk := out.read(CHUNK):
            yield chunk


def _tree(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.name == "__pycache__":
            continue
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from _tree(path)


def _add(archive: tarfile.TarFile, path: Path, name: str) -> None:
    info = archive.gettarinfo(str(path), name)
    if info.islnk():  # the same file under two names: twice, so that neither needs the other
        info.type, info.linkname, info.size = tarfile.REGTYPE, "", path.stat().st_size
    info.uid = info.gid = info.mtime = 0
    info.uname = info.gname = ""
    info.mode = 0o755 if info.mode & 0o100 else 0o644
    if info.isreg():
        with path.open("rb") as file:
            archive.addfile(info, file)
    elif info.isdir() or info.issym():
        archive.addfile(info)
