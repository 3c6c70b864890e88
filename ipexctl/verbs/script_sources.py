"""The source of a script and of the project's own modules that it imports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from ipexctl.core.code import modules

MOST_FILES = 200
LARGEST = 1 << 20  # bytes of a file; longer ones are data


def script_sources(folder: Path, argv: Sequence[str]) -> dict[str, str]:
    """File name -> source, the script first. `argv` as the ranks get it, or `-m MODULE`."""
    first = _module(folder, argv[1]) if argv[0] == "-m" and len(argv) > 1 else [folder / argv[0]]
    found: dict[str, str] = {}
    seen: set[str] = set()
    todo = list(first)
    while todo and len(found) < MOST_FILES:
        path = todo.pop(0)
        if str(path) in found or (source := _read(path)) is None:
            continue
        found[str(path)] = source
        for name in sorted(modules(source) - seen):
            seen.add(name)
            for place in dict.fromkeys((first[0].parent, folder)):
                todo += _own(place, name)
    return found


def _module(folder: Path, name: str) -> list[Path]:
    path = folder.joinpath(*name.split("."))
    return [path.with_name(f"{path.name}.py"), path / "__main__.py"]


def _own(folder: Path, name: str) -> Iterator[Path]:
    """The files of a top-level module of the project."""
    yield folder / f"{name}.py"
    package = folder / name
    if (package / "__init__.py").is_file():
        with suppress(OSError):
            yield from sorted(package.rglob("*.py"))[:MOST_FILES]


def _read(path: Path) -> str | None:
    try:
        if not path.is_file() or path.stat().st_size > LARGEST:
            return None
        return path.read_bytes().decode("utf-8", "replace")
    except OSError:
        return None
