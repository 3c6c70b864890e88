"""Who may import whom: the rules of ARCHITECTURE.md, kept by reading the sources."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "ipexctl"

# What core may import: nothing here opens a file or a socket, or knows the time or the environment.
CORE_MAY = frozenset(
    """
    __future__ ast base64 binascii bisect collections contextlib dataclasses difflib enum fnmatch
    fractions functools hashlib heapq hmac io ipaddress itertools json math operator posixpath re
    shlex string struct sys textwrap types typing unicodedata zlib
    packaging pathspec tomli tomllib yaml
    """.split()  # noqa: SIM905 - a list of words stays readable
)
CORE_STACK_MAY = frozenset({"importlib.resources"})  # its version table lies beside it
ONLY_IN = {
    "fabric": ("ipexctl.hosts.ssh",),
    "paramiko": ("ipexctl.hosts.ssh",),
    "invoke": ("ipexctl.hosts.ssh",),
    "typer": ("ipexctl.cli",),
    "click": ("ipexctl.cli",),
    "rich": ("ipexctl.ui",),
}
# Below the verbs: machines, packages and files know no command.
BELOW = ("ipexctl.hosts", "ipexctl.packages", "ipexctl.local", "ipexctl.lab")
ABOVE = ("ipexctl.verbs", "ipexctl.ui")
# Slow to import, so `ipexctl --help` must not get to any of them.
HEAVY = ("cryptography", "fabric", "paramiko", "rich", "yaml")


@dataclass(frozen=True)
class Import:
    importer: str
    target: str
    line: int
    at_start: bool  # happens when the module is loaded, not when a function runs

    def is_of(self, name: str) -> bool:
        return self.target == name or self.target.startswith(name + ".")


# --- the rules -----------------------------------------------------------------------------------


def violations(sources: dict[str, str]) -> list[str]:
    """Every broken rule of a package, given as module name -> source text."""
    imports = [i for module, text in sources.items() for i in imports_of(module, text, sources)]
    broken = [
        f"{i.importer}:{i.line} imports {i.target}: {why}" for i in imports for why in _why(i)
    ]
    broken += [b for module, text in sources.items() for b in _impure(module, text)]
    broken += [f"a cycle: {' -> '.join(cycle)}" for cycle in _cycles(imports, sources)]
    return broken + _heavy_at_start(imports)


def imports_of(module: str, text: str, known: dict[str, str]) -> Iterator[Import]:
    for node, at_start in _statements(ast.parse(text), at_start=True):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(module, alias.name, node.lineno, at_start)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(module, node)
            for alias in node.names:
                whole = f"{base}.{alias.name}"
                yield Import(module, whole if whole in known else base, node.lineno, at_start)


def _why(i: Import) -> Iterator[str]:
    if _inside(i.importer, "ipexctl.core") and not _core_may(i):
        yield "core is pure"
    for name, places in ONLY_IN.items():
        if i.is_of(name) and not any(_inside(i.importer, place) for place in places):
            yield f"{name} belongs in {' and '.join(places)}"
    if any(_inside(i.importer, part) for part in BELOW) and any(map(i.is_of, ABOVE)):
        yield "verbs stand on it"
    if _inside(i.importer, "ipexctl.remote") and not _remote_may(i):
        yield "remote runs on hosts that have only Python itself"
    if i.is_of("ipexctl.remote") and not _inside(i.importer, "ipexctl.remote"):
        yield "remote is shipped as source, never imported"
    outside = i.importer != "ipexctl.__main__" and not _inside(i.importer, "ipexctl.cli")
    if i.is_of("ipexctl.cli") and outside:
        yield "cli is the outer edge"


def _impure(module: str, text: str) -> Iterator[str]:
    """What core could do without an import: open, print, and sys for more than its version."""
    if not _inside(module, "ipexctl.core"):
        return
    for node, _ in _statements(ast.parse(text), at_start=True):
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Name) and called.id in ("open", "print", "input"):
            yield f"{module}:{called.lineno} calls {called.id}(): core is pure"
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            used = f"{node.value.id}.{node.attr}"
            if used.startswith("sys.") and used != "sys.version_info":
                yield f"{module}:{node.lineno} uses {used}: core is pure"


def _core_may(i: Import) -> bool:
    if i.is_of("ipexctl.core") or i.target in ("ipexctl.errors", "ipexctl.quick_dataclass"):
        return True
    if i.importer == "ipexctl.core.stack.selection" and i.target in CORE_STACK_MAY:
        return True
    return i.target.partition(".")[0] in CORE_MAY


def _remote_may(i: Import) -> bool:
    return i.is_of("ipexctl.remote") or i.target.partition(".")[0] in sys.stdlib_module_names


def _cycles(imports: list[Import], sources: dict[str, str]) -> Iterator[list[str]]:
    edges: dict[str, set[str]] = {module: set() for module in sources}
    for i in imports:
        if i.target in sources and i.target != i.importer:
            edges[i.importer].add(i.target)
    done: set[str] = set()
    for module in edges:
        cycle = _cycle_from(module, edges, [], done)
        if cycle:
            yield cycle


def _cycle_from(
    module: str, edges: dict[str, set[str]], path: list[str], done: set[str]
) -> list[str]:
    if module in path:
        return [*path[path.index(module) :], module]
    if module in done:
        return []
    found: list[str] = []
    for target in sorted(edges[module]):
        found = found or _cycle_from(target, edges, [*path, module], done)
    done.add(module)
    return found


def _heavy_at_start(imports: list[Import]) -> list[str]:
    """What loading ipexctl.cli drags in, followed through our own modules."""
    todo, seen, broken = ["ipexctl.cli"], {"ipexctl.cli"}, []
    while todo:
        module = todo.pop()
        for i in imports:
            if i.importer != module or not i.at_start:
                continue
            if any(i.is_of(name) for name in HEAVY):
                broken.append(f"{module}:{i.line} imports {i.target}: --help would load it")
            if i.target not in seen:
                seen.add(i.target)
                todo.append(i.target)
    return broken


def _statements(node: ast.AST, *, at_start: bool) -> Iterator[tuple[ast.AST, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            continue
        yield child, at_start
        later = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        yield from _statements(child, at_start=at_start and not later)


def _absolute(module: str, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    parent = module.split(".")[: -node.level]
    return ".".join([*parent, node.module] if node.module else parent)


def _inside(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def _sources() -> dict[str, str]:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = path.read_text("utf-8")
    return found


# --- the package keeps them ----------------------------------------------------------------------


def test_the_package_keeps_every_import_rule() -> None:
    sources = _sources()
    assert {"ipexctl.cli", "ipexctl.core.model", "ipexctl.remote.main"} <= sources.keys()
    assert violations(sources) == []


def test_loading_the_command_line_loads_nothing_slow() -> None:
    ours = set(HEAVY) - {"rich"}  # typer itself may load rich, which version does is its own affair
    code = f"import sys, ipexctl.cli; print(*sorted(sys.modules.keys() & {ours!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


# --- and a broken rule is found ------------------------------------------------------------------

PLANTED = [
    pytest.param(
        {"ipexctl.core.a": "import sys\nif sys.version_info > (3, 11):\n    x = sys.argv\n"},
        ["ipexctl.core.a:3 uses sys.argv: core is pure"],
        id="core with the command line's arguments",
    ),
    pytest.param(
        {"ipexctl.core.a": "def f(path):\n    return open(path)\n"},
        ["ipexctl.core.a:2 calls open(): core is pure"],
        id="core with a file",
    ),
    pytest.param(
        {"ipexctl.core.a": "import re\n\ndef f():\n    import socket\n"},
        ["ipexctl.core.a:4 imports socket: core is pure"],
        id="core with a socket, even inside a function",
    ),
    pytest.param(
        {"ipexctl.core.a": "from ..hosts import fleet", "ipexctl.hosts.fleet": ""},
        ["ipexctl.core.a:1 imports ipexctl.hosts.fleet: core is pure"],
        id="core with hosts, by a relative import",
    ),
    pytest.param(
        {"ipexctl.packages.a": "from ipexctl.verbs import run", "ipexctl.verbs.run": ""},
        ["ipexctl.packages.a:1 imports ipexctl.verbs.run: verbs stand on it"],
        id="packages with a verb",
    ),
    pytest.param(
        {"ipexctl.core.a": "from importlib.resources import files"},
        ["ipexctl.core.a:1 imports importlib.resources: core is pure"],
        id="core reading a file of the package",
    ),
    pytest.param(
        {"ipexctl.core.stack.selection": "from importlib.resources import files"},
        [],
        id="but the version table may be read",
    ),
    pytest.param(
        {"ipexctl.verbs.a": "def f():\n    from paramiko.client import SSHClient\n"},
        ["ipexctl.verbs.a:2 imports paramiko.client: paramiko belongs in ipexctl.hosts.ssh"],
        id="paramiko outside ssh",
    ),
    pytest.param(
        {"ipexctl.hosts.ssh": "import paramiko", "ipexctl.ui.a": "from rich.table import Table"},
        [],
        id="each library at home",
    ),
    pytest.param(
        {"ipexctl.verbs.a": "import typer"},
        ["ipexctl.verbs.a:1 imports typer: typer belongs in ipexctl.cli"],
        id="typer outside the command line",
    ),
    pytest.param(
        {"ipexctl.remote.a": "import os, yaml"},
        ["ipexctl.remote.a:1 imports yaml: remote runs on hosts that have only Python itself"],
        id="remote with a library",
    ),
    pytest.param(
        {"ipexctl.remote.a": "from ipexctl.errors import InputError"},
        [
            "ipexctl.remote.a:1 imports ipexctl.errors: "
            "remote runs on hosts that have only Python itself"
        ],
        id="remote with what stays here",
    ),
    pytest.param(
        {"ipexctl.remote.a": "import os\nfrom ipexctl.remote import b", "ipexctl.remote.b": ""},
        [],
        id="remote with another module of remote",
    ),
    pytest.param(
        {"ipexctl.verbs.a": "from ipexctl.remote import main", "ipexctl.remote.main": ""},
        [
            "ipexctl.verbs.a:1 imports ipexctl.remote.main: "
            "remote is shipped as source, never imported"
        ],
        id="remote imported",
    ),
    pytest.param(
        {
            "ipexctl.verbs.a": "import ipexctl.verbs.b",
            "ipexctl.verbs.b": "def f():\n    from ipexctl.verbs.a import x\n",
        },
        ["a cycle: ipexctl.verbs.a -> ipexctl.verbs.b -> ipexctl.verbs.a"],
        id="a cycle, even a late one",
    ),
    pytest.param(
        {
            "ipexctl.verbs.a": "from typing import TYPE_CHECKING\n"
            "if TYPE_CHECKING:\n    import ipexctl.verbs.b\n",
            "ipexctl.verbs.b": "import ipexctl.verbs.a",
        },
        [],
        id="an import for the type checker alone is no cycle",
    ),
    pytest.param(
        {
            "ipexctl.cli": "import ipexctl.hosts.ssh",
            "ipexctl.hosts.ssh": "import fabric",
        },
        ["ipexctl.hosts.ssh:1 imports fabric: --help would load it"],
        id="a slow library two steps away",
    ),
    pytest.param(
        {
            "ipexctl.cli": "def f():\n    import ipexctl.hosts.ssh\n",
            "ipexctl.hosts.ssh": "import fabric",
        },
        [],
        id="the same, loaded when it is used",
    ),
]


@pytest.mark.parametrize(("sources", "expected"), PLANTED)
def test_a_planted_violation_is_found(sources: dict[str, str], expected: list[str]) -> None:
    assert violations(sources) == expected
