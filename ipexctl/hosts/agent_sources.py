"""What of remote/ goes to a host: only the modules that an operation needs, each once."""

from __future__ import annotations

import ast
import json
import re
import zlib
from functools import cache
from importlib.resources import files

_PACKAGE = "ipexctl.remote"
# Where an import is. What it imports, `ast` says; for it to read whole modules takes 30 ms more.
_IMPORT = re.compile(rf"^[ \t]*((?:from|import) {_PACKAGE}\b[^(\n]*(?:\([^)]*\))?)", re.MULTILINE)


@cache
def texts() -> dict[str, str]:
    """The source of every module, by its name below remote/: `main`, `install.blobs`."""
    found = {}
    todo = [("", files("ipexctl").joinpath("remote"))]
    while todo:
        prefix, folder = todo.pop()
        for path in folder.iterdir():
            if path.is_dir():
                todo.append((f"{prefix}{path.name}.", path))
            elif path.name.endswith(".py") and path.name != "__init__.py":
                found[prefix + path.name[:-3]] = path.read_text("utf-8")
    return found


@cache
def imports(name: str) -> frozenset[str]:
    """The modules of remote/ that a module imports, at its start or in a function."""
    found: set[str] = set()
    for statement in _IMPORT.findall(texts()[name]):
        for node in ast.parse(statement).body:
            aliases = [alias.name for alias in node.names] if hasattr(node, "names") else []
            if isinstance(node, ast.ImportFrom):
                aliases = [f"{node.module}.{alias}" for alias in aliases] + [node.module or ""]
            found.update(alias.removeprefix(f"{_PACKAGE}.") for alias in aliases)
    return frozenset(found & texts().keys())


@cache
def boot_modules() -> frozenset[str]:
    """What every agent starts with."""
    return _with_imports("boot")


@cache
def needed(op: str) -> frozenset[str]:
    """The further modules that an operation like `facts.probe.facts` can come to use."""
    return _with_imports(op.rpartition(".")[0]) - boot_modules()


def _with_imports(name: str) -> frozenset[str]:
    found: set[str] = set()
    todo = {name} & texts().keys()
    while todo:
        name = todo.pop()
        found.add(name)
        todo |= imports(name) - found
    return frozenset(found)


@cache
def packed(names: frozenset[str]) -> bytes:
    """As remote/main.py and the boot line read them."""
    chosen = {f"{_PACKAGE}.{name}": texts()[name] for name in sorted(names)}
    return zlib.compress(json.dumps(chosen).encode("ascii"), 6)


def boot_payload(marker: str, names: frozenset[str]) -> bytes:
    """The boot line and the sources it asks for: those every agent starts with, and `names`."""
    body = packed(boot_modules() | names)
    name = f"{_PACKAGE}.boot"
    line = (
        f"s=json.loads(zlib.decompress(sys.stdin.buffer.read({len(body)})).decode());"
        f"n={{'__name__':'{name}'}};"
        f"exec(compile(s['{name}'],'{name.replace('.', '/')}.py','exec'),n);"
        f"n['start'](s,b'\\n{marker}-py\\n')\n"
    )
    return line.encode("ascii") + body
