"""The folders of a project with the user's packages, as `pip install -e .` would use them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ipexctl.base import toml
from ipexctl.local import bounded_read
from ipexctl.local.ownership import foreign_owner

MARKERS = ("pyproject.toml", "setup.py", "setup.cfg")
_FOLDERS = (
    "tool setuptools package-dir",
    "tool setuptools packages find where",
    "tool poetry packages",
    "tool pdm build package-dir",
    "tool uv build-backend module-root",
)


def marked_project(folder: Path) -> Path | None:
    """Return the nearest folder above that has a file of a Python project, and is the user's."""
    for place in (folder, *folder.parents):
        if place in (Path.home(), Path("/")):
            return None
        if any((place / name).is_file() for name in MARKERS):
            return None if foreign_owner(place) else place
    return None


def import_roots(project: Path) -> tuple[str, ...]:
    """Return the folders below it, "." for itself; () if it is not a Python project.

    The project's own folder counts only if it contains the package of the project's name: else any
    folder in it could hide an installed package of its name.
    """
    if not any((project / name).is_file() for name in MARKERS):
        return ()
    pyproject = _read_pyproject(project)
    declared = [
        name for name in dict.fromkeys(_build_backend_roots(pyproject)) if _is_inside(project, name)
    ]
    src = ["src"] if not declared and _has_modules(project / "src") else []
    roots = declared or src or ["."] * _is_flat(project, pyproject)
    return tuple(roots)


def module_path(project: Path, place: str) -> str:
    """Return the file or folder of a module below the project, "" if it has none. `place`: its path
    without a suffix."""
    if place.startswith(("..", "/")):
        return ""
    ends = (end for end in (".py", "/__init__.py") if (project / f"{place}{end}").is_file())
    if end := next(ends, ""):
        return place + end
    return place if next((project / place).glob("*.py"), None) else ""


def _build_backend_roots(pyproject: dict[str, Any]) -> Iterator[str]:
    """Yield the folders named in the tables of the usual build backends."""
    for path in _FOLDERS:
        yield from _texts_at_path(pyproject, path)
    for package in _texts_at_path(pyproject, "tool hatch build targets wheel packages"):
        yield package.rpartition("/")[0] or "."


def _texts_at_path(value: Any, path: str) -> Iterator[str]:
    """Yield the texts at that path of keys: one, a list, or tables that contain one."""
    for name in path.split():
        value = value.get(name) if isinstance(value, dict) else None
    for item in value if isinstance(value, list) else [value]:
        text = item.get("from", item.get("")) if isinstance(item, dict) else item
        if isinstance(text, str):
            yield text.rstrip("/")


def _is_flat(project: Path, pyproject: dict[str, Any]) -> bool:
    name = next(_texts_at_path(pyproject, "project name"), "") or project.name
    module = re.sub(r"[-.]+", "_", name).lower()
    return (project / module / "__init__.py").is_file() or (project / f"{module}.py").is_file()


def _has_modules(folder: Path) -> bool:
    try:
        return any(entry.is_dir() or entry.suffix == ".py" for entry in folder.iterdir())
    except OSError:
        return False


def _is_inside(project: Path, name: str) -> bool:
    """Decide if the path is a plain folder of the project that PYTHONPATH can contain."""
    place = (project / name).resolve()
    is_below = place == project.resolve() or project.resolve() in place.parents
    return bool(name) and ":" not in name and is_below and place.is_dir()


def _read_pyproject(project: Path) -> dict[str, Any]:
    try:
        return toml.loads(bounded_read.read_file(project / "pyproject.toml").decode("utf-8-sig"))
    except (OSError, ValueError):
        return {}  # an installer reports what is wrong with it
