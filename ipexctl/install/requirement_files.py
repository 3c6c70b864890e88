"""`-r FILE`: the user's requirements files, read."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ipexctl.base.quoting import quote_for_pasting
from ipexctl.env.choice.env_choice import EnvChoice
from ipexctl.errors import InputError, reason_of
from ipexctl.install.install_options import InstallOptions
from ipexctl.install.stack.lock_file import Lock
from ipexctl.install.stack.requirements import NOTHING, Extra, not_allowed, read
from ipexctl.local import bounded_read
from ipexctl.local.environment import environment
from ipexctl.local.project_lock import LOCK_FILE, lock_here, project_top, read_lock
from ipexctl.machines.suggested_commands import install_command
from ipexctl.machines.target import Target
from ipexctl.packages.indexes import Indexes, absolute


def needed(files: Sequence[Path], old: Lock | None) -> Extra:
    """What the files ask for; without any, what the lock in the folder was made for."""
    if files:
        return read([str(file) for file in files], _text, environment())
    return Extra(old.requirements, old.constraints) if old else NOTHING


def names(asked: InstallOptions, old: Lock | None) -> tuple[str, ...]:
    """Of the files, from the lock's folder. What lies outside of the project means nothing to the
    next one that reads the lock."""
    if not asked.needs:
        return old.requirement_files if old else ()
    folder = asked.folder.absolute()
    top = project_top(folder)
    paths = [Path(os.path.normpath(file.absolute())) for file in asked.needs]
    return tuple(os.path.relpath(path, folder) for path in paths if top in path.parents)


def changed_since(asked: InstallOptions, lock: Lock | None) -> tuple[str, ...]:
    """A note if the files of the lock ask for something else by now, and are not given with -r."""
    if not lock or asked.needs or _as_locked(lock, asked.folder):
        return ()
    shown = [os.path.relpath(asked.folder / name) for name in lock.requirement_files]
    return (
        f"{' or '.join(shown)} has changed since ipexctl.lock was written; the locked requirements "
        f"are kept. To use the new ones, add {_options(shown)}",
    )


def dropped(asked: InstallOptions, old: Lock | None, extra: Extra) -> tuple[str, ...]:
    """A note if other files than those of the lock are given, and packages go with the old ones."""
    before = old.requirement_files if old else ()
    if not old or not asked.needs or (before and set(before) <= set(names(asked, old))):
        return ()
    gone = sorted(_packages(old.requirements) - _packages(extra.requirements))
    if not gone:
        return ()
    there = [asked.folder / name for name in before if os.path.isfile(asked.folder / name)]
    shown = list(map(os.path.relpath, there))
    keep = f"; to keep them, add {_options(shown)}" if shown else ""
    lock = os.path.relpath(asked.folder / LOCK_FILE)
    given = _options([str(file) for file in asked.needs])
    return (
        f"{given} replaces the requirements in {lock}, which no longer includes "
        f"{', '.join(gone)}{keep}",
    )


def _packages(requirements: Sequence[str]) -> set[str]:
    return {canonicalize_name(Requirement(text).name) for text in requirements}


def changed_note(target: Target, choice: EnvChoice | None, root: str) -> str:
    """The same for commands that use the lock as it is, "" for no note."""
    if not choice or not choice.newer:
        return ""
    folder, lock = Path(choice.lock).parent, read_lock(Path(choice.lock))
    if not lock or _as_locked(lock, folder):
        return ""
    shown = [os.path.relpath(folder / name) for name in choice.newer]
    there = shown if lock_here() == Path(choice.lock) else choice.newer
    install = f"{install_command(target, choice, root)} {_options(there)}"
    return f"{' or '.join(shown)} has changed since {choice.shown} was written: {install}"


def _as_locked(lock: Lock, folder: Path) -> bool:
    """Do the files of the lock ask for what they asked for? Also where one is not here."""
    files = [folder / name for name in lock.requirement_files]
    if not files or not all(map(os.path.isfile, files)):
        return True
    try:
        return same_requirements(lock, needed(files, None))
    except InputError:
        return False  # -r says what is wrong with it


def _options(names: Sequence[str]) -> str:
    return quote_for_pasting(tuple(word for name in names for word in ("-r", name)))


def same_requirements(lock: Lock, extra: Extra) -> bool:
    return (lock.requirements, lock.constraints) == (extra.requirements, extra.constraints)


def with_indexes(indexes: Indexes, extra: Extra) -> Indexes:
    """As pip does: what a requirements file names goes before what is configured."""
    return replace(
        indexes,
        index_url=indexes.index_url or extra.index_url,
        extra=(*indexes.extra, *extra.extra),
        find_links=(*indexes.find_links, *map(absolute, extra.find_links)),
    )


def check_hashes(lock: Lock, extra: Extra) -> None:
    locked: Mapping[str, str] = {p.name: p.sha256 for p in lock.packages}
    if name := not_allowed(extra, locked):
        raise InputError(
            f"the wheel of {name} has none of the hashes that your requirements file allows",
            why=f"{lock.version(name)} has sha256 {locked[name]}",
            hint="look where it comes from; or regenerate the file",
            slug="hash-not-allowed",
        )


def _text(name: str, asker: str) -> tuple[str, str]:
    path = Path(asker).parent / name if asker else Path(name)
    try:
        return bounded_read.read_file(path).decode("utf-8-sig"), str(path)
    except FileNotFoundError:
        raise InputError(
            f"no such requirements file: {path}{_asked(asker)}",
            why="-r takes a file that lists packages",
            hint="echo PACKAGE >> requirements.txt; ipexctl install -r requirements.txt",
            slug="requirements-missing",
        ) from None
    except (OSError, UnicodeDecodeError) as e:
        raise InputError(
            f"cannot read {path}{_asked(asker)}", why=reason_of(e), slug="requirements-unreadable"
        ) from None


def _asked(asker: str) -> str:
    return f", which {asker} names" if asker else ""
