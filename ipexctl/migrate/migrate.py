"""migrate: convert files or a command line for the discontinued Intel stack to what works today."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ipexctl.base import quoting
from ipexctl.errors import InputError, reason_of
from ipexctl.local import bounded_read
from ipexctl.local.shipped_tables import accelerate_keys, known_launchers, migration_rules
from ipexctl.migrate.code import file_kinds
from ipexctl.migrate.code.launcher_command import Tables
from ipexctl.migrate.code.shell_code import ShellReader
from ipexctl.project.files.project_files import CACHES, ENVIRONMENT_SIGNS
from ipexctl.project.training_script import training_script
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.script_files.script_sources import read_sources
from ipexctl.user_code.migration_rules import LauncherRewrite, Reading
from ipexctl.user_code.shell_words import as_typed
from ipexctl.user_code.source import PythonSource


@dataclass(frozen=True)
class Migrated:
    """One file, or the command line (`path` is "")."""

    path: str
    reading: Reading


@dataclass(frozen=True)
class Migration:
    """`skipped`: path of each file that could not be read, with the reason."""

    files: tuple[Migrated, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()
    read: int = 0

    @property
    def exit_code(self) -> int:
        return int(any(file.reading.findings for file in self.files))


def migrate(words: Sequence[str]) -> Migration:
    """Search `words`: files and folders, or a command line. Raises InputError."""
    missing = next((word for word in words if not os.path.lexists(word)), "")
    if missing:
        return _of_command(words, missing)
    migrated, skipped, read = list[Migrated](), list[tuple[str, str]](), 0
    for path, named in _files_to_read(words):
        try:
            file = _of_file(path, named=named)
        except (OSError, ValueError) as e:
            skipped.append((str(path), reason_of(e)))
            continue
        if file:
            read += 1
            migrated += [file] if file.reading.findings or file.reading.commands else []
            skipped += [(file.path, file.reading.unread)] if file.reading.unread else []
    return Migration(tuple(migrated), tuple(skipped), read)


def migration_tables() -> Tables:
    return Tables(migration_rules(), known_launchers(), accelerate_keys())


# --- a command line ------------------------------------------------------------------------------


def _of_command(words: Sequence[str], missing: str) -> Migration:
    if words[0].endswith(".py") and os.path.exists(words[0]):
        words = ("python3", *words)
    line = words[0] if len(words) == 1 else ""
    shell = ShellReader(migration_tables(), _source_finder(Path()), always=True)
    reading = shell.read(line) if line else shell.read_commands([as_typed(words)], lambda offset: 1)
    if not reading.commands and not reading.findings:
        raise InputError(
            f"{missing}: no such file or folder",
            why="it is not a command that starts a Python script either",
            hint="ipexctl migrate train.py run.sh   # files and folders\n"
            "ipexctl migrate mpirun -n 2 python3 train.py   # a command line",
            slug="path-missing",
        )
    return Migration((Migrated("", reading),), read=1)


def _source_finder(folder: Path) -> Callable[[str], PythonSource | None]:
    """Return a function that finds scripts relative to the line's folder or to the current one."""

    def source(name: str) -> PythonSource | None:
        candidates = (folder / name, Path(name)) if name else ()
        path = next((p for p in candidates if p.is_file() and not p.is_symlink()), None)
        sources = read_sources(path.parent, "", (path.name,)) if path else []
        if not sources:
            return None
        options = frozenset[str]().union(*(script.options for script in sources))
        parsers = tuple(parser for script in sources for parser in script.parsers)
        return replace(sources[0], options=options, parsers=parsers)

    return source


# --- files ---------------------------------------------------------------------------------------


def _files_to_read(words: Sequence[str]) -> Iterator[tuple[Path, bool]]:
    """Yield each file, and whether it was named itself."""
    for word in words:
        path = Path(word)
        if path.is_dir() and not path.is_symlink():
            yield from ((file, False) for file in _files_below(path))
        else:
            yield path, True


def _files_below(folder: Path) -> Iterator[Path]:
    """Yield regular files, without those of caches, environments and hidden folders."""
    for root, folders, names in os.walk(folder):
        if any(sign in (*folders, *names) for sign in ENVIRONMENT_SIGNS):
            folders.clear()
            continue
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f not in CACHES)
        for name in sorted(names):
            path = Path(root, name)
            if not path.is_symlink() and path.is_file():
                yield path


def _of_file(path: Path, *, named: bool) -> Migrated | None:
    """Read one file; None for a kind that is not searched. Raises OSError or ValueError."""
    if path.is_symlink():
        raise ValueError("a symbolic link: name the file that it points to")
    kind = file_kinds.kind_of(path.name)
    if not kind and ("." not in path.name or named):
        first_line = bounded_read.read_prefix(path, 256).partition(b"\n")[0].decode("latin-1")
        kind = file_kinds.kind_of(path.name, first_line)
    if not kind and named:
        raise ValueError("not a kind of file that migrate reads")
    if not kind:
        return None
    data = bounded_read.read_file(path)
    text = _text_of(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the user's code
        config = (str(path), training_script(path.parent)) if kind == "yaml" else ()
        sources = _source_finder(path.parent)
        reading = file_kinds.read_file(kind, text, migration_tables(), sources, config)
    if named and kind == "python" and not reading.unread:
        run = LauncherRewrite(1, "python", quoting.quote_for_pasting(("ipexctl", "run", str(path))))
        reading = replace(reading, commands=(run, *reading.commands))
    return Migrated(str(path), reading)


def _text_of(data: bytes) -> str:
    """Decode as UTF-8, else byte for byte: the search is for ASCII."""
    if b"\0" in data:
        raise ValueError("not a text file")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")
