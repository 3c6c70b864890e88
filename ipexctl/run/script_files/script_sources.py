"""Read the script of a run and the project's modules that it imports, where they are sent from.

Links, generated files and files of other folders are ignored: only files that are sent are read.
"""

from __future__ import annotations

import posixpath
import warnings
from collections.abc import Container, Iterable, Iterator, Sequence
from pathlib import Path

from ipexctl.local import bounded_read
from ipexctl.quick_dataclass import dataclass
from ipexctl.user_code.source import Import, PythonSource
from ipexctl.user_code.source_reader import read_source

MAX_FILES, MAX_BYTES = 40, 512 << 10


def read_sources(
    folder: Path, cwd: str, argv: Sequence[str], files: Container[str] | None = None
) -> list[PythonSource]:
    """Read the sources. `argv`: what the interpreter gets. `cwd`: of the ranks, below `folder`."""
    files = Regular(folder) if files is None else files
    if argv[0] == "-m":
        top, path = cwd, _module_file(cwd, argv[1], files)
    else:
        path = posixpath.normpath(posixpath.join(cwd, argv[0]))
        top = posixpath.dirname(path)
    waiting, sources = [path] if path in files else [], dict[str, PythonSource]()
    while waiting and len(sources) < MAX_FILES:
        path = waiting.pop(0)
        if path in sources or (content := _read_source(folder / path)) is None:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about the user's code
            sources[path] = read_source(path, content, main=not sources)
        for imported in sources[path].imports:
            places = module_places(imported, path, (top,)) if imported.sure else ()
            names = (f"{place}{end}" for place in places for end in (".py", "/__init__.py"))
            waiting += [name for name in names if name in files and name not in sources]
    return list(sources.values())


@dataclass(frozen=True)
class Regular:
    """The regular files of a folder by their names, without links."""

    folder: Path

    def __contains__(self, path: object) -> bool:
        full = self.folder / str(path)
        return full.is_file() and not full.is_symlink()


def _module_file(top: str, module: str, files: Container[str]) -> str:
    path = posixpath.join(top, module.replace(".", "/"))
    return next((name for name in (f"{path}.py", f"{path}/__main__.py") if name in files), "")


def module_places(imported: Import, path: str, tops: Iterable[str]) -> Iterator[str]:
    """Yield places, without suffix, where the import in the file `path` may find project modules.

    `tops`: the folders that Python searches."""
    if imported.level:
        tops = (posixpath.join(posixpath.dirname(path), *[".."] * (imported.level - 1)),)
    parts = imported.module.split(".") if imported.module else []
    names = [parts[:i] for i in range(1, len(parts) + 1)] + [[*parts, n] for n in imported.names]
    for top in tops:
        for words in names:
            yield posixpath.normpath(posixpath.join(top, *words))


def _read_source(path: Path) -> bytes | None:
    try:
        return bounded_read.read_file(path, MAX_BYTES)
    except OSError:
        return None
