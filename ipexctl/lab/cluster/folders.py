"""The folders of labs; nothing but a lab's own files is ever removed."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from ipexctl.errors import InputError
from ipexctl.lab.cluster.lab_spec import check_name, is_name
from ipexctl.local.user_dirs import state_dir

MARK = "spec.json"  # a lab has it for all of its life
STATE = "state.json"  # while it is up


def state_root() -> Path:
    return state_dir() / "labs"


def lab_folder(name: str, root: Path | None = None) -> Path:
    """Return the folder of the lab of that name; InputError for an invalid name."""
    check_name(name)
    return (root or state_root()) / name


def labs_in(root: Path) -> list[str]:
    """Return the names of all labs in the folder, including dead ones."""
    paths = sorted(root.iterdir()) if root.is_dir() else []
    return [path.name for path in paths if is_name(path.name) and is_lab(path)]


def is_lab(folder: Path) -> bool:
    return not folder.is_symlink() and (folder / MARK).is_file()


def clear_lab_folder(folder: Path) -> None:
    """Remove what a dead lab left: only files, the kernel has removed everything else."""
    if not is_lab(folder):
        return
    with suppress(OSError):
        os.unlink(folder / STATE)  # first: by it others see a lab that is up
    for entry in [*os.scandir(folder)]:
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path, ignore_errors=True)
        elif entry.name != MARK:
            with suppress(OSError):
                os.unlink(entry.path)
    if os.listdir(folder) == [MARK]:  # else the mark stays, for the next try
        os.unlink(folder / MARK)
        os.rmdir(folder)


def make_lab_folder(folder: Path, spec: str) -> None:
    """Make the folder of a new lab in place of a dead lab's or an empty one."""
    clear_lab_folder(folder)
    with suppress(OSError):
        folder.rmdir()
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        raise InputError(
            f"{folder} exists, but no lab created it",
            hint="give another --name",
            slug="lab-folder-taken",
        ) from None
    (folder / MARK).write_text(spec)
