"""--python-from: a relocatable CPython for the hosts, as one blob in the store here.

A file or address of an archive, a folder or mirror with many of them, or an unpacked one such as
uv keeps. Which it was is nobody's business afterwards: the lock has its version and its sha256.
"""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import tarfile
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO
from urllib.parse import unquote, urldefrag, urlsplit

from ipexctl.base.blob import Blob
from ipexctl.blobs.blob_store import Store
from ipexctl.errors import InputError, NotHere, reason_of
from ipexctl.install.stack.lock_file import Package
from ipexctl.install.stack.version_table import is_version
from ipexctl.packages.http_opener import bare
from ipexctl.packages.indexes import expanded
from ipexctl.packages.uv import find_uv
from ipexctl.packages.wheel_fetch import Fetcher
from ipexctl.quick_dataclass import dataclass

CHUNK = 1 << 20
LIST_TIMEOUT = 60
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


def find_build(where: str, wanted: Wanted, fetcher: Fetcher, environ: Mapping[str, str]) -> Package:
    """Its archive is in the store afterwards. Raises InputError, NotHere, FetchFailed."""
    if "://" in where:
        found, name = _from_url(where, wanted, fetcher, environ)
        where = bare(where)  # messages name it
    else:
        found, name = _from_path(expanded(where), wanted, fetcher.store)
    version, arch = _inspect(fetcher.store.path(found), where)
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


def _from_path(path: Path, wanted: Wanted, store: Store) -> tuple[Blob, str]:
    if not path.exists():
        raise InputError(
            f"{path} does not exist",
            why="it was given with --python-from",
            hint=_HINT,
            slug="python-archive-missing",
        )
    if path.is_dir() and not _is_unpacked(path):
        path = _newest(path, wanted)
    if path.is_dir():
        return store.add(path.name, _packed(path)), path.name
    try:
        with path.open("rb") as file:
            return store.add(path.name, iter(lambda: file.read(CHUNK), b"")), path.name
    except OSError as e:
        raise InputError(
            f"cannot read {path}", why=reason_of(e), slug="python-archive-unreadable"
        ) from None


def _is_unpacked(path: Path) -> bool:
    return (path / "bin" / "python3").exists() and any(path.glob("lib/python3.*"))


def _newest(folder: Path, wanted: Wanted) -> Path:
    """Of the archives and unpacked ones in it, or one folder below, as mirrors keep them."""
    found = []
    for path in sorted([*folder.glob("*"), *folder.glob("*/cpython-*")]):
        said = _ARCHIVE.fullmatch(path.name) if path.is_file() else _UNPACKED.fullmatch(path.name)
        if said and wanted.fits(said[1], said[2]):
            found.append((tuple(map(int, said[1].split("."))), path))
    if not found:
        which = wanted.version or "3.x"
        raise InputError(
            f"no CPython {which} for {wanted.arch} found in {folder}",
            why="looked for cpython-VERSION...-install_only.tar.gz and for a Python unpacked by uv",
            hint=_HINT,
            slug="python-archive-missing",
        )
    if len({version[:2] for version, _ in found}) > 1:
        there = ", ".join(sorted({".".join(map(str, v)) for v, _ in found}))
        raise InputError(
            f"{folder} has more than one CPython: {there}",
            hint="--python 3.11   # for example",
            slug="python-ambiguous",
        )
    return max(found)[1]


def _from_url(
    where: str, wanted: Wanted, fetcher: Fetcher, environ: Mapping[str, str]
) -> tuple[Blob, str]:
    """A fragment `#sha256=HEX` is checked; without one, what came now is what the lock says."""
    url, fragment = urldefrag(where)
    if not urlsplit(url).path.endswith(".tar.gz"):
        url = _on_mirror(url, wanted, environ)
    name = unquote(urlsplit(url).path.rsplit("/", 1)[-1])
    sha256 = fragment.removeprefix("sha256=") if fragment.startswith("sha256=") else ""
    return fetcher.add(name, url, sha256=sha256), name


def _on_mirror(base: str, wanted: Wanted, environ: Mapping[str, str]) -> str:
    """uv knows the names of all archives, and the mirror has them under the same ones."""
    shown = bare(base)
    if not wanted.version:
        raise InputError(
            f"{shown} has more than one Python",
            hint="--python 3.11   # for example",
            slug="python-ambiguous",
        )
    command = [find_uv(environ), "--no-config", "python", "list", "--only-downloads"]
    command += ["--all-platforms", "--all-versions", "--output-format", "json", wanted.version]
    try:
        done = subprocess.run(
            command, env={**environ, "UV_PYTHON_INSTALL_MIRROR": shown}, capture_output=True,
            text=True, timeout=LIST_TIMEOUT, stdin=subprocess.DEVNULL, check=True,
        )  # fmt: skip
        known = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as e:
        raise NotHere("uv cannot list its Pythons", why=reason_of(e), slug="uv-failed") from None
    for one in known:
        kind = (one["implementation"], one["os"], one["libc"], one["variant"], one["arch"])
        url = str(one["url"] or "")
        if kind == ("cpython", "linux", "gnu", "default", wanted.arch) and url.startswith(shown):
            return base + url.removeprefix(shown)
    raise InputError(
        f"uv offers no CPython {wanted.version} for {wanted.arch}", slug="python-does-not-fit"
    )


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
