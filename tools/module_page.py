"""The rooms of ipexctl/ in ARCHITECTURE.md, and the page of the site with all modules.

Both are written from docstrings: a package's first line, and a module's first paragraph.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "ipexctl"
BELOW = (
    "project", "packages", "blobs", "pages", "cli", "machines", "terminal", "local", "stack",
    "user_code", "facts", "inventory", "base",
)  # fmt: skip
ON_HOSTS = ("common", "in_ranks", "remote")
UNNAMED = ("command", "help")  # folders with the options of a command, and what it prints
START = """\
# Modules

Every module of `ipexctl/` with the start of its docstring, by room.
[ARCHITECTURE](../ARCHITECTURE.md) has the rooms alone, and how they work together.
"""


def with_rooms(text: str) -> str:
    """Return ARCHITECTURE.md with the rooms as they are."""
    every = [package.name for package in _packages(PACKAGE)]
    commands = [name for name in every if name not in BELOW + ON_HOSTS]
    for kind, names in (("commands", commands), ("below", BELOW), ("hosts", ON_HOSTS)):
        begin, end = f"<!-- {kind}: made by tools/gen_docs.py -->", f"<!-- end of {kind} -->"
        before, found, rest = text.partition(begin)
        _, found_end, after = rest.partition(end)
        if not found or not found_end:
            raise ValueError(f"the page lacks {begin!r} or {end!r}")
        rooms = "\n".join(line for name in names for line in _room(PACKAGE / name, 0))
        text = f"{before}{begin}\n\n{rooms}\n\n{end}{after}"
    return text


def _packages(folder: Path) -> list[Path]:
    return sorted(path.parent for path in folder.glob("*/__init__.py"))


def _room(folder: Path, depth: int) -> Iterator[str]:
    name = "  " * depth + f"{folder.name}/"
    yield f"    {name:<16} {_docstring(folder / '__init__.py').splitlines()[0].rstrip('.')}"
    for package in _packages(folder):
        if package.name not in UNNAMED:
            yield from _room(package, depth + 1)


def _docstring(path: Path) -> str:
    """Return that of the module, or of the only class that it is about."""
    tree = ast.parse(path.read_text("utf-8"))
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    texts = [ast.get_docstring(tree), *map(ast.get_docstring, classes)]
    if not any(texts):
        raise ValueError(f"{path} lacks a docstring")
    return next(text for text in texts if text)


def page() -> str:
    return START + "".join(_section(folder) for folder in (PACKAGE, *_all_packages(PACKAGE)))


def _all_packages(folder: Path) -> Iterator[Path]:
    for package in _packages(folder):
        yield package
        yield from _all_packages(package)


def _section(folder: Path) -> str:
    title = f"{folder.relative_to(PACKAGE.parent)}/"
    modules = sorted(path for path in folder.glob("*.py") if path.name != "__init__.py")
    lines = [f"- `{path.name}`: {_first_paragraph(path)}" for path in modules]
    return "\n".join(
        ["", f"## {title}", "", _first_paragraph(folder / "__init__.py"), "", *lines, ""]
    )


def _first_paragraph(path: Path) -> str:
    text = " ".join(_docstring(path).split("\n\n")[0].split())
    return text.replace("<", "&lt;").replace("*", "\\*")


if __name__ == "__main__":
    print(page())
