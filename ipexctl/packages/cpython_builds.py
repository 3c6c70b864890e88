"""--python-from: a relocatable CPython for the hosts, as one blob in the store here.

An archive, or an unpacked one such as `uv python install` makes. Which it was does not matter
afterwards: the lock has its version and its sha256.
"""

from __future__ import annotations

import gzip
import re
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from ipexctl.base.blob import Blob
from ipexctl.blobs.blob_store import Store
from ipexctl.errors import InputError, reason_of
from ipexctl.install.stack.lock_file import Package
from ipexctl.install.stack.version_table import is_version
from ipexctl.packages.indexes import expanded
from ipexctl.quick_dataclass import dataclass

CHUNK = 1 << 20
_ARCHIVE = re.compile(
    r"cpython-(\d+\.\d+\.\d+)(?:\+\d+)?-(x86_64|aarch64)-unknown-linux-gnu"
    r"-install_only(?:_stripped)?\.tar\.gz\Z"
)
_UNPACKED = re.compile(r"cpython-(\d+\.\d+\.\d+)-linux-(x86_64|aarch64)-gnu\Z")
_MINOR = re.compile(r"python/bin/python(3\.\d+)\Z")
_PATCH = re.compile(rb'#define PY_VERSION\s+"(\d+\.\d+\.\d+)"')
_MACHINES = {62: "x86_64", 183: "aarch64"}  # of ELF
_HINT = "--python-from FILE   # a python-build-standalone archive: ...-install_only.tar.gz"


@dataclass(frozen=True)
class Wanted:
    """For hosts of one kind. `version`: as --python says it, "" for any."""

    arch: str
    version: str = ""

    def fits(self, version: str, arch: str) -> bool:
        return arch == self.arch and (not self.version or is_version(version, self.version))


def find_build(where: str, wanted: Wanted, store: Store) -> Package:
    """Its archive is in the store afterwards. Raises InputError or NotHere."""
    found, name = _from_path(expanded(where), store)
    version, arch = _inspect(store.path(found), where)
    said = _ARCHIVE.search(name) or _UNPACKED.search(name)
    if said and is_version(said[1], version):
        version = said[1]  # an archive without headers tells no patch number
    if not wanted.fits(version, arch):
        need = f"{wanted.version} " * bool(wanted.version) + f"for {wanted.arch}"
        raise InputError(
            f"{where} is CPython {version} for {arch}, not {need}",
            hint=_HINT,
            slug="python-does-not-fit",
        )
    file = f"cpython-{version}-{arch}.tar.gz"
    return Package("cpython", version, file, found.sha256, found.size)


# --- from where ----------------------------------------------------------------------------------


def _from_path(path: Path, store: Store) -> tuple[Blob, str]:
    if not path.exists():
        raise InputError(
            f"{path} does not exist",
            why="it was given with --python-from",
            hint=_HINT,
            slug="python-archive-missing",
        )
    if path.is_dir():
        if (path / "bin" / "python3").exists() and any(path.glob("lib/python3.*")):
            return store.add(path.name, _packed(path)), path.name
        raise InputError(
            f"{path} does not contain bin/python3 and lib/python3.X",
            hint="--python-from $(uv python dir)/cpython-...   # after: uv python install 3.11",
            slug="python-archive-invalid",
        )
    try:
        with path.open("rb") as file:
            return store.add(path.name, iter(lambda: file.read(CHUNK), b"")), path.name
    except OSError as e:
        raise InputError(
            f"cannot read {path}", why=reason_of(e), slug="python-archive-unreadable"
        ) from None


# --- an unpacked one as an archive ---------------------------------------------------------------


def _packed(folder: Path) -> Iterator[bytes]:
    """The same tree gives the same bytes: no dates, no owners, names in order."""
    with tempfile.TemporaryFile() as out:
        with (
            gzip.GzipFile("", "wb", 6, out, mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive,
        ):
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


# --- what it is ----------------------------------------------------------------------------------


def _inspect(path: Path, where: str) -> tuple[str, str]:
    """(version, architecture), by what is in it. The hosts look at every member again."""
    minor, patch, arch = "", "", ""
    try:
        with tarfile.open(path, "r|gz") as archive:
            for member in archive:
                if found := _MINOR.match(member.name):
                    if member.isreg() and (file := archive.extractfile(member)):
                        minor, arch = found[1], _machine(file)
                elif member.isreg() and member.name.endswith("/patchlevel.h"):
                    file = archive.extractfile(member)
                    said = _PATCH.search(file.read(1 << 16)) if file else None
                    patch = said[1].decode() if said else patch
    except (tarfile.TarError, OSError, EOFError, zlib.error, UnicodeError) as e:
        raise InputError(
            f"{where} is not a tar.gz archive",
            why=reason_of(e),
            hint=_HINT,
            slug="python-archive-invalid",
        ) from None
    if not minor or not arch:
        raise InputError(
            f"{where} contains no CPython for Linux",
            why="it has no python/bin/python3.X for x86_64 or aarch64",
            hint=_HINT,
            slug="python-archive-invalid",
        )
    return (patch if is_version(patch, minor) else minor), arch


def _machine(program: IO[bytes]) -> str:
    head = program.read(20)
    if head[:6] != b"\x7fELF\x02\x01":
        return ""
    return _MACHINES.get(int.from_bytes(head[18:20], "little"), "")
