"""data pull --unpack: the content of archives as a folder, which is complete or does not exist."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import importlib
import io
import posixpath
import re
import shutil
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ipexctl.base.remote_file import Content, RemoteFile
from ipexctl.base.sizes import format_bytes
from ipexctl.common.files import remove_path, sync_disk
from ipexctl.data.rules.pulled_tree import archive_suffix, is_plain
from ipexctl.errors import InputError, reason_of
from ipexctl.packages.file_fetch import CHUNK, PART, ROOM

BLOCK = 4096  # bytes that even an empty file takes
FEW_ENTRIES = 10_000  # files and folders that any archive may have
HEADERS = 256 * 1024  # bytes of all headers of one member
LONG_NUMBER = re.compile(rb"\d{100}")  # tarfile takes seconds for numbers of 10,000 digits
REPOSITORY = {"head", "objects", "refs"}  # a folder that has these is one for git
BYTES_EACH = 100  # bytes of the archives for each further one: empty ones take a few
ELSEWHERE = "unpack it elsewhere, then: ipexctl data push FOLDER"
COMPRESSIONS = {"gz": "gzip", "tgz": "gzip", "bz2": "bz2", "xz": "lzma"}  # modules of Python


class _TarStream(io.BufferedReader):
    """The file that tarfile reads, which would read headers of any size into memory."""

    last = b""
    left: int | None = None  # bytes that headers may still have, while they are read

    def read(self, size: int | None = -1) -> bytes:
        if size is None or not 0 <= size <= CHUNK:
            raise ValueError(f"a header of {size} bytes is not read")
        self.last = super().read(size)
        if self.left is not None:
            self.left -= len(self.last)
            if self.left < 0 or LONG_NUMBER.search(self.last):
                raise ValueError("a header as long as no archive needs")
        return self.last

    def next_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo | None:
        self.left = HEADERS
        member = archive.next()
        self.left = None
        archive.pax_headers = {}  # those for all later members would stay in memory
        return member


class _TooMany(Exception):
    """The archives have more entries than are allowed."""


class _Room:
    """What may still be unpacked into a folder, from archives of `size` bytes: bytes, and entries,
    of which even a small archive can have millions."""

    def __init__(self, folder: Path, size: int) -> None:
        self.size, self.bytes = size, shutil.disk_usage(folder).free * 19 // 20
        self.most = FEW_ENTRIES + size // BYTES_EACH
        self.files, self.folders = 0, {""}  # so far
        self.git: dict[str, set[str]] = {}  # by folder: names that git looks for

    def take(self, path: str, mode: int, size: int) -> None:
        """Count an entry. Raises OSError or _TooMany if there is no room for it, and ValueError if
        it makes its folder a repository."""
        self.refuse_repository(path)
        before = self.files + len(self.folders)
        folder = path if stat.S_ISDIR(mode) else posixpath.dirname(path)
        self.files += not stat.S_ISDIR(mode) or folder in self.folders  # one that is repeated, too
        while folder not in self.folders:
            self.folders.add(folder)
            folder = posixpath.dirname(folder)
        entries = self.files + len(self.folders)
        if entries > self.most:
            raise _TooMany(f"more than {self.most:,} files and folders")
        self.bytes -= size + (entries - before) * BLOCK
        if self.bytes < 0:
            full = f"its {format_bytes(size)} do not fit on this machine's disk"
            raise OSError(errno.ENOSPC, full)

    def refuse_repository(self, path: str) -> None:
        """Raise ValueError if a folder would become a repository without .git: git obeys its
        settings, too."""
        *parents, name = path.split("/")
        for depth, part in enumerate([*parents, name]):
            if part.casefold() in REPOSITORY:
                found = self.git.setdefault("/".join(parents[:depth]).casefold(), set())
                found.add(part.casefold())
                if found == REPOSITORY:
                    raise ValueError("its folder would be a git repository, whose settings count")


def unpack_files(
    fetched: Path, files: Sequence[RemoteFile], contents: Mapping[str, Content]
) -> Path:
    """Return a folder with the files, archives unpacked in their place. It stays beside the folder
    `fetched`, and is used again for the same contents. Raises InputError."""
    text = "\0".join(f"{file.path} {contents[file.local].sha256}" for file in files)
    folder = fetched.with_name(f"unpacked-{hashlib.sha256(text.encode()).hexdigest()[:16]}")
    work = Path(f"{folder}{PART}")
    at, file = "", files[0]
    with (fetched / file.local).open("rb+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another pull may be unpacking it
        if folder.exists():
            return folder
        try:
            remove_path(work)  # a killed process left it
            work.mkdir()
            room = _Room(work, sum(content.size for content in contents.values()))
            for file in files:
                at, parent = file.path, posixpath.dirname(file.path)
                for at, mode, size, opener in _list_members(fetched / file.local, file.path):
                    path = posixpath.normpath(posixpath.join(parent, _member_path(at, mode, size)))
                    room.take("" if path == "." else path, mode, size)
                    _write_member(work / path, mode, opener)
            sync_disk(work)
            work.rename(folder)
        except _TooMany as e:
            raise InputError(
                f"cannot unpack {file.path}",
                why=f"there are {e}, which is unusual for {format_bytes(room.size)}",
                hint=ELSEWHERE,
                slug="archive-too-many",
            ) from None
        except Exception as e:  # each format has its own
            is_full = isinstance(e, OSError) and e.errno == errno.ENOSPC
            raise InputError(
                f"cannot unpack {file.path}",
                why=f"{at[:200]!r}: {reason_of(e)}",
                hint=ROOM if is_full else ELSEWHERE,
                slug="no-space-here" if is_full else "archive-invalid",
            ) from None
        finally:
            remove_path(work)
    return folder


def _member_path(name: str, mode: int, size: int) -> str:
    """Return the path of an archive's member. Raises ValueError if it is not to be unpacked."""
    path = name.removeprefix("./").rstrip("/")
    if not is_plain(path) and not (path in (".", "") and name and stat.S_ISDIR(mode)):
        raise ValueError("it may not be outside the folder, in .git, or have such a name")
    if size < 0 or not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise ValueError("only files and folders are unpacked, no links, devices or sparse files")
    return path


def _write_member(path: Path, mode: int, opener: Callable[[], Any]) -> None:
    (path if stat.S_ISDIR(mode) else path.parent).mkdir(parents=True, exist_ok=True)
    if stat.S_ISREG(mode):
        with opener() as source, path.open("xb") as out:
            shutil.copyfileobj(source, out, CHUNK)
        path.chmod(0o700 if mode & 0o100 else 0o600)


def _list_members(path: Path, name: str) -> Iterator[tuple[str, int, int, Callable[[], Any]]]:
    """Yield name, mode, size and opener of an archive's members, or of a file that is not one."""
    suffix = archive_suffix(name).lower()
    if not suffix:
        size = path.stat().st_size
        yield posixpath.basename(name), stat.S_IFREG, size, partial(path.open, "rb")
    elif suffix == ".zip":
        with zipfile.ZipFile(path) as zipped:
            for info in zipped.infolist():
                mode = info.external_attr >> 16
                if not stat.S_IFMT(mode):  # it was not made on Unix
                    mode |= stat.S_IFDIR if info.is_dir() else stat.S_IFREG
                yield info.filename, mode, info.file_size, partial(zipped.open, info)
    else:
        module = importlib.import_module(COMPRESSIONS.get(suffix.rpartition(".")[2], "io"))
        with _TarStream(module.open(path, "rb")) as stream:
            stream.left = HEADERS  # it reads the first member's at once
            archive: Any = tarfile.TarFile(fileobj=stream)
            while member := stream.next_member(archive):
                is_file = member.isreg() and not member.issparse()
                kind = stat.S_IFREG if is_file else stat.S_IFDIR * member.isdir()
                opener = partial(archive.extractfile, member)
                yield member.name, kind | stat.S_IMODE(member.mode), member.size, opener
                archive.members.clear()  # a million of them would stay in memory
            if stream.last != bytes(tarfile.BLOCKSIZE):
                raise ValueError("the archive ends too early")
            stream.read(CHUNK)  # to its end, where compressed data has its checksum
