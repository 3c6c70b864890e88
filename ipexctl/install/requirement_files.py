"""Read the user's requirements files, `-r FILE`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ipexctl.base.located_errors import nearest_files
from ipexctl.base.quoting import quote_for_pasting
from ipexctl.errors import InputError, reason_of
from ipexctl.facts.env_choice import EnvChoice
from ipexctl.install.install_options import InstallOptions
from ipexctl.local import bounded_read
from ipexctl.local.environment import environment
from ipexctl.local.project_lock import LOCK_FILE, lock_here, project_top, read_lock
from ipexctl.machines.suggested_commands import install_command
from ipexctl.machines.target import Target
from ipexctl.packages.indexes import Indexes, absolute_place
from ipexctl.stack.lock_file import Lock
from ipexctl.stack.requirements import NOTHING, Extra, not_allowed, read_requirements

_PACKAGE = re.compile(r"[A-Za-z][\w-]*")


def extra_requirements(files: Sequence[Path], old: Lock | None) -> Extra:
    """Return what the files ask for; without any, what the lock in the folder was made for."""
    if files:
        return read_requirements([str(file) for file in files], _read_text, environment())
    return Extra(old.requirements, old.constraints) if old else NOTHING


def paths_for_lock(options: InstallOptions, old: Lock | None) -> tuple[str, ...]:
    """Return paths of the files relative to the lock's folder. Files outside of the project are
    left out: they mean nothing to the next user of the lock."""
    if not options.needs:
        return old.requirement_files if old else ()
    folder = options.folder.absolute()
    top = project_top(folder)
    paths = [Path(os.path.normpath(file.absolute())) for file in options.needs]
    return tuple(os.path.relpath(path, folder) for path in paths if top in path.parents)


def changed_since(options: InstallOptions, lock: Lock | None) -> tuple[str, ...]:
    """Return a note if the lock's files were changed since, and are not given with -r."""
    if not lock or options.needs or _as_locked(lock, options.folder):
        return ()
    paths = [os.path.relpath(options.folder / name) for name in lock.requirement_files]
    return (
        f"{' or '.join(paths)} has changed since ipexctl.lock was written; the locked requirements "
        f"are kept. To use the new ones, add {_requirement_options(paths)}",
    )


def dropped_packages_note(asked: InstallOptions, old: Lock | None, extra: Extra) -> tuple[str, ...]:
    """Return a note if files other than the lock's are given, which drops some packages."""
    locked = old.requirement_files if old else ()
    if not old or not asked.needs or (locked and set(locked) <= set(paths_for_lock(asked, old))):
        return ()
    dropped = sorted(_package_names(old.requirements) - _package_names(extra.requirements))
    if not dropped:
        return ()
    existing = [asked.folder / name for name in locked if os.path.isfile(asked.folder / name)]
    paths = list(map(os.path.relpath, existing))
    keep = f"; to keep them, add {_requirement_options(paths)}" if paths else ""
    lock = os.path.relpath(asked.folder / LOCK_FILE)
    flags = _requirement_options([str(file) for file in asked.needs])
    return (
        f"{flags} replaces the requirements in {lock}, which no longer includes "
        f"{', '.join(dropped)}{keep}",
    )


def _package_names(requirements: Sequence[str]) -> set[str]:
    return {canonicalize_name(Requirement(text).name) for text in requirements}


def changed_note(target: Target, choice: EnvChoice | None, root: str) -> str:
    """Return the note for commands that use the lock unchanged, or ""."""
    if not choice or not choice.newer:
        return ""
    folder, lock = Path(choice.lock).parent, read_lock(Path(choice.lock))
    if not lock or _as_locked(lock, folder):
        return ""
    paths = [os.path.relpath(folder / name) for name in choice.newer]
    files = paths if lock_here() == Path(choice.lock) else choice.newer
    install = f"{install_command(target, choice, root)} {_requirement_options(files)}"
    return f"{' or '.join(paths)} has changed since {choice.shown} was written: {install}"


def _as_locked(lock: Lock, folder: Path) -> bool:
    """Decide whether the lock's files ask for what they asked for; true if a file is missing."""
    files = [folder / name for name in lock.requirement_files]
    if not files or not all(map(os.path.isfile, files)):
        return True
    try:
        return same_requirements(lock, extra_requirements(files, None))
    except InputError:
        return False  # -r reports the error


def _requirement_options(names: Sequence[str]) -> str:
    return quote_for_pasting(tuple(word for name in names for word in ("-r", name)))


def same_requirements(lock: Lock, extra: Extra) -> bool:
    return (lock.requirements, lock.constraints) == (extra.requirements, extra.constraints)


def with_indexes(indexes: Indexes, extra: Extra) -> Indexes:
    """Let the indexes of a requirements file precede the configured ones, as pip does."""
    return replace(
        indexes,
        index_url=indexes.index_url or extra.index_url,
        extra=(*indexes.extra, *extra.extra),
        find_links=(*indexes.find_links, *map(absolute_place, extra.find_links)),
    )


def check_hashes(lock: Lock, extra: Extra) -> None:
    locked: Mapping[str, str] = {package.name: package.sha256 for package in lock.packages}
    if name := not_allowed(extra, locked):
        raise InputError(
            f"the wheel of {name} has none of the hashes that your requirements file allows",
            why=f"{lock.version(name)} has sha256 {locked[name]}",
            hint="look where it comes from; or regenerate the file",
            slug="hash-not-allowed",
        )


def _read_text(name: str, asker: str) -> tuple[str, str]:
    path = Path(asker).parent / name if asker else Path(name)
    try:
        return bounded_read.read_file(path).decode("utf-8-sig"), str(path)
    except FileNotFoundError:
        raise InputError(
            f"no such requirements file: {path}{_named_by(asker)}",
            why="-r takes a file that lists packages",
            hint="# packages: one on each line" if asker else _list_package(name),
            slug="requirements-missing",
        ).with_meant(name, "" if asker else _similar_file(path)) from None
    except (OSError, UnicodeDecodeError) as e:
        raise InputError(
            f"cannot read {path}{_named_by(asker)}",
            why=reason_of(e),
            slug="requirements-unreadable",
        ) from None


def _list_package(name: str) -> str:
    """Return the command for a name that is the one of a package, not of a file."""
    if not _PACKAGE.fullmatch(name):
        return "# packages: one on each line"
    return f"echo {name} >> requirements.txt; ipexctl install -r requirements.txt"


def _similar_file(path: Path) -> str:
    """Return the requirements file beside a missing one that was probably meant."""
    names = [file.name for file in path.parent.glob("*.txt")]
    usual = [name for name in names if name.startswith("requirements")]
    near = next(iter([*nearest_files(path.name, names), *usual]), "")
    return str(path.parent / near) if near else ""


def _named_by(asker: str) -> str:
    return f", which {asker} names" if asker else ""
