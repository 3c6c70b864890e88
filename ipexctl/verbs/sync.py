"""The user's folder as a snapshot of this run on every host."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ipexctl.core import sync as core
from ipexctl.core.model import Blob
from ipexctl.core.sync import File
from ipexctl.errors import InputError
from ipexctl.hosts import store
from ipexctl.hosts.agent import Agent

IGNORE_FILES = (".gitignore", ".ipexctlignore")


@dataclass(frozen=True)
class Snapshot:
    """What goes to the hosts: the manifest, and where each blob's bytes are here."""

    folder: Path
    files: tuple[tuple[File, Blob | None], ...]
    notes: tuple[str, ...]

    @property
    def bytes(self) -> int:
        return sum(f.size for f, _ in self.files)


def take(folder: Path) -> Snapshot:
    """Reads the script's folder. Refuses folders nobody means to send."""
    folder = folder.resolve()
    _refuse(folder)
    notes: list[str] = []
    files = sorted(_walk(folder, _ignore(folder), notes), key=lambda f: f.path)
    core.check_size(files, str(folder))
    pairs = tuple((f, None if f.link else _blob(folder, f)) for f in files)
    return Snapshot(folder, pairs, tuple(notes))


def send(agent: Agent, root: str, run_id: str, snapshot: Snapshot) -> tuple[str, int]:
    """Makes the snapshot on the host. Returns its folder there and the bytes that travelled."""
    paths = {b.sha256: snapshot.folder / f.path for f, b in snapshot.files if b}
    blobs = [b for _, b in snapshot.files if b]
    sent = store.ensure(agent, root, blobs, lambda b: paths[b.sha256])
    files = [
        {"path": f.path, "link": f.link}
        if b is None
        else {"path": f.path, "sha256": b.sha256, "mode": f.mode}
        for f, b in snapshot.files
    ]
    asked = {"root": root, "run_id": run_id, "files": files}
    return str(agent.call("runs.snapshot", asked, timeout=120).done["work"]), sent.bytes


def _refuse(folder: Path) -> None:
    for bad, why in ((Path.home(), "your home folder"), (Path("/"), "the root of the file system")):
        if folder == bad:
            raise InputError(
                f"the script is in {folder}: {why} is not sent to other machines",
                hint="move the script into a folder of its own",
            )
    if (folder / ".ssh").exists():
        raise InputError(
            f"{folder} holds a .ssh folder and is not sent to other machines",
            hint="move the script into a folder of its own",
        )


def _ignore(folder: Path) -> core.Ignore:
    texts = []
    for name in IGNORE_FILES:
        try:
            texts.append((folder / name).read_text("utf-8", "replace"))
        except OSError:
            continue
    return core.Ignore(texts)


def _walk(folder: Path, ignore: core.Ignore, notes: list[str]) -> Iterator[File]:
    count = 0
    for top, folders, names in os.walk(folder):
        base = Path(top).relative_to(folder)
        links = [d for d in folders if (Path(top) / d).is_symlink()]
        folders[:] = sorted(
            d for d in folders if d not in links and not ignore(_posix(base / d), folder=True)
        )
        for name in sorted(names + links):
            path = _posix(base / name)
            if ignore(path):
                continue
            file = _file(Path(top) / name, path, notes)
            if file:
                yield file
                count += 1
            if count > core.MAX_FILES * 4:
                return  # check_size refuses it; no need to read a whole disk first


def _posix(path: Path) -> str:
    return path.as_posix().removeprefix("./")


def _file(full: Path, path: str, notes: list[str]) -> File | None:
    if full.is_symlink():
        target = str(full.readlink())
        if core.link_stays(path, target):
            return File(path, 0, link=target)
        notes.append(f"{path}: not sent, it links to {target}, outside of the folder")
        return None
    if not full.is_file():
        notes.append(f"{path}: not sent, it is not a plain file")
        return None
    stat = full.stat()
    return File(path, stat.st_size, stat.st_mode & 0o777)


def _blob(folder: Path, file: File) -> Blob:
    try:
        data = (folder / file.path).read_bytes()
    except OSError as e:
        raise InputError(
            f"cannot read {folder / file.path}",
            why=str(e),
            hint="put it into .ipexctlignore if the run does not need it",
        ) from None
    if len(data) != file.size:
        raise InputError(f"{folder / file.path} changed while it was read", hint="run again")
    return Blob(file.path, hashlib.sha256(data).hexdigest(), file.size)
