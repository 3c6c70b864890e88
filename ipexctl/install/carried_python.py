"""A CPython that is copied to the hosts: a folder made by `uv python install` and named with
--python-from, then kept in the lock and as one blob in the local store."""

from __future__ import annotations

import gzip
import re
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from ipexctl.blobs.blob_store import Store, default_store
from ipexctl.errors import InputError
from ipexctl.facts.facts import Facts
from ipexctl.install.install_plan import Work
from ipexctl.packages.indexes import expand_user
from ipexctl.packages.resolver import Resolved
from ipexctl.stack.lock_file import Lock, LockedPackage
from ipexctl.stack.version_table import is_version

CHUNK = 1 << 20
_NAME = re.compile(r"cpython-(\d+\.\d+\.\d+)-linux-(x86_64|aarch64)-gnu")
_HINT = "--python-from $(uv python dir)/cpython-...   # after: uv python install 3.11"


def python_to_carry(work: Work, facts: Sequence[Facts], old: Lock | None) -> LockedPackage | None:
    """Return the requested build, else that of the lock. None: the hosts' own are used."""
    where, version = work.asked.python_from, work.asked.python
    if where:
        if "/" in version:
            raise InputError(
                f"--python {version} is a Python of the hosts, --python-from brings another",
                hint="--python 3.11   # the version that --python-from must have",
                slug="options-conflict",
            )
        work.step("", "looking for a Python to carry")
        return find_build(where, facts[0].cpu.arch, version, default_store())
    locked = old.cpython if old else None
    suits = locked and (not version or is_version(locked.version, version))
    return locked if suits else None


def in_lock(resolved: Resolved, package: LockedPackage | None) -> Resolved:
    return replace(resolved, lock=replace(resolved.lock, cpython=package))


def check_here(lock: Lock) -> None:
    """Check that the store has the CPython of the lock: no index has it."""
    if lock.cpython and not default_store().whole(lock.cpython.blob):
        raise InputError(
            f"ipexctl.lock has {lock.cpython.file}, which is not on this machine",
            why=f"it was named with --python-from; its sha256 is {lock.cpython.sha256}",
            hint="--python-from FOLDER   # that one again; or --python 3.11, of the hosts",
            slug="python-folder-missing",
        )


def find_build(where: str, arch: str, requested: str, store: Store) -> LockedPackage:
    """Put the archive of the folder into the store and return it. `requested`: the version given to
    --python, "" for any. Raises InputError or NotHere."""
    folder = expand_user(where).resolve()  # uv links cpython-3.11-... to the one with all numbers
    match = _NAME.fullmatch(folder.name)
    if not match or not (folder / "bin" / "python3").exists():
        raise InputError(
            f"{folder} is not a folder that `uv python install` made",
            why="it is called cpython-VERSION-linux-ARCH-gnu and contains bin/python3",
            hint=_HINT,
            slug="python-folder-invalid",
        )
    version = match[1]
    if match[2] != arch or (requested and not is_version(version, requested)):
        expected = f"{requested} " * bool(requested) + f"for {arch}"
        raise InputError(
            f"{where} is CPython {version} for {match[2]}, not {expected}",
            hint=_HINT,
            slug="python-does-not-fit",
        )
    blob = store.add(folder.name, _pack_folder(folder))
    file = f"cpython-{version}-{arch}.tar.gz"
    return LockedPackage("cpython", version, file, blob.sha256, blob.size)


def _pack_folder(folder: Path) -> Iterator[bytes]:
    """Pack the folder; the same tree gives the same bytes: no dates, no owners, sorted names."""
    with tempfile.TemporaryFile() as out:
        with (
            gzip.GzipFile("", "wb", 6, out, mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive,
        ):
            archive.add(folder, "python", filter=partial(_plain_member, folder))
        out.seek(0)
        while chunk := out.read(CHUNK):
            yield chunk


def _plain_member(folder: Path, info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Return the normalized entry, or None to leave it out."""
    supported = info.isreg() or info.isdir() or info.issym() or info.islnk()
    if info.name.endswith("/__pycache__") or not supported:
        return None
    if info.islnk():  # a hard link: stored as a second copy, so that neither needs the other
        info.type, info.linkname = tarfile.REGTYPE, ""
        info.size = (folder / info.name.partition("/")[2]).stat().st_size
    info.uid = info.gid = info.mtime = 0
    info.uname = info.gname = ""
    info.mode = 0o755 if info.mode & 0o100 else 0o644
    return info
