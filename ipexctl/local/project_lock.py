"""The project around a folder: its ipexctl.lock, and so the environment of commands."""

from __future__ import annotations

import getpass
import hashlib
import os
import platform
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ipexctl.common.env_answers import ProjectEnv
from ipexctl.errors import InputError, NotHere, reason_of
from ipexctl.facts.env_choice import EnvChoice
from ipexctl.local import bounded_read
from ipexctl.local.import_roots import marked_project
from ipexctl.local.memory import Memory
from ipexctl.local.nearest_file import Note, ignore_note, nearest_file, project_file
from ipexctl.local.ownership import chmod_command, foreign_owner, untrusted_reason
from ipexctl.stack import lock_file
from ipexctl.stack.lock_file import Lock

LOCK_FILE = "ipexctl.lock"


def read_lock(path: Path) -> Lock | None:
    try:
        return lock_file.parse_lock(bounded_read.read_file(path).decode(), str(path))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as e:
        raise InputError(f"cannot read {path}", why=reason_of(e), slug="lock-unreadable") from None


def choice_here() -> EnvChoice:
    """Return the environment for commands that send no project."""
    return env_choice_of(Path.cwd())


def lock_here() -> Path | None:
    """Return the lock file that `install` reads here."""
    return nearest_lock(Path.cwd())


def lock_folder() -> Path:
    """Return the folder whose ipexctl.lock a command here reads and writes: that of `lock_here`,
    else this one. Raises InputError if its lock is not trusted, and so would be replaced."""
    cwd = Path.cwd()
    if lock := lock_here():
        return Path() if lock.parent == cwd else lock.parent
    path = cwd / LOCK_FILE
    if os.path.isfile(path):
        why = untrusted_reason(path)
        raise InputError(
            f"ipexctl.lock is not used: {why}",
            why="it decides which programs are installed on the hosts",
            hint=chmod_command(path, why) or "copy the project into a folder of your own",
            slug="lock-untrusted",
        )
    return Path()


def env_choice_of(start: Path) -> EnvChoice:
    """Choose by the lock of the project where ranks start, else of the current folder's, which also
    provides the hosts."""
    ignored: list[str] = []
    for folder in (start, Path.cwd()):
        path = nearest_lock(folder, ignored.append)
        if path and (lock := read_lock(path)):
            short = os.path.relpath(path)
            project, newer = project_of(path.parent), _if_newer(lock.requirement_files, path)
            chosen = EnvChoice(project, lock.key, str(path), shown=short, newer=newer)
            return _chosen_environment(chosen) or chosen
    why = next(iter(ignored), f"no {LOCK_FILE} in {start}")
    return EnvChoice(project_of(project_top(start)), without=why)


def _if_newer(files: tuple[str, ...], lock: Path) -> tuple[str, ...]:
    """Return `files` if one is newer than the lock: only then it is worth reading them."""
    try:
        written = lock.stat().st_mtime_ns
        times = [(lock.parent / name).stat().st_mtime_ns for name in files]
        return files if any(time > written for time in times) else ()
    except OSError:
        return ()


def nearest_lock(folder: Path, note: Note = ignore_note) -> Path | None:
    """Search up to the top of the project, and at least to the folder of its ipexctl.toml and to
    the current one: a command's hosts and its environment come from the same place."""
    settings, cwd = project_file(folder), Path.cwd()
    tops = [project_top(folder), *([settings.parent] if settings else [])]
    tops += [cwd] if cwd in folder.parents else []
    return nearest_file(LOCK_FILE, folder, min(tops, key=lambda top: len(top.parts)), note)


def git_root(folder: Path) -> Path | None:
    """Return the top of the Git work tree around a folder; .git is a file in a linked one."""
    return next((f for f in (folder, *folder.parents) if os.path.exists(f / ".git")), None)


def own_git_root(folder: Path) -> Path | None:
    """Return the top of the Git work tree, or None if another user owns it."""
    root = git_root(folder)
    foreign = root and (foreign_owner(root) or foreign_owner(root / ".git"))
    return None if foreign else root


def project_top(folder: Path) -> Path:
    """Return the user's project around a folder: Git work tree, Python project, or itself."""
    home = Path.home()
    root = own_git_root(folder)
    if root and (root == folder or root not in (home, *home.parents)):
        return root
    return marked_project(folder) or folder


def project_of(folder: Path) -> ProjectEnv:
    folder = folder.resolve()
    words = f"{_machine_id()}\0{_user_name()}\0{folder}"
    return ProjectEnv(
        hashlib.sha256(words.encode()).hexdigest()[:12], folder.name or "/", this_person()
    )


def this_person() -> str:
    """Who works here: what journals call `by`."""
    return f"{_user_name()}@{platform.node()}"


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _machine_id() -> str:
    with suppress(OSError):
        return Path("/etc/machine-id").read_text("ascii", "replace").strip()
    return platform.node()


# --- another environment than the lock's ---------------------------------------------------------


def choose_instead(choice: EnvChoice, key: str, command: str) -> None:
    """Let commands in this project use `key` until its lock changes or is installed."""
    if not choice.lock:
        return
    if key == choice.locked:
        by_lock_again(Path(choice.lock).parent)
        return
    chosen = _choice_memory(choice.project)
    try:
        chosen.save({"lock": choice.locked or choice.key, "key": key, "command": command})
    except OSError as e:
        message = f"cannot write {chosen.path}"
        raise NotHere(message, why=reason_of(e), slug="lock-not-written") from None


def by_lock_again(folder: Path) -> None:
    with suppress(FileNotFoundError):
        _choice_memory(project_of(folder)).path.unlink()


def _chosen_environment(choice: EnvChoice) -> EnvChoice | None:
    choice_made = _choice_memory(choice.project).load()
    key, command = (str(choice_made.get(name, "")) for name in ("key", "command"))
    if choice_made.get("lock") != choice.key or key in ("", choice.key):
        return None
    return replace(choice, key=key, instead=command, locked=choice.key)


def _choice_memory(project: ProjectEnv) -> Memory:
    return Memory(f"environments/{project.id}")
