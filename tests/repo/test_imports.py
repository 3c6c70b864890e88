"""Who may import whom: the rules of ARCHITECTURE.md, kept by reading the sources."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "ipexctl"

# Nothing in these opens a file or a socket, or knows the time or the environment.
PURE = tuple(
    f"ipexctl.{name}"
    for name in """
    base bench.allreduce_options bench.allreduce_result
    facts inventory data.rules doctor.checks doctor.report explain.causes
    local.run_options machines.openssh migrate.code play.text project.files
    pages.page_shell stack user_code
    common.addresses common.attempt_record common.checkpoint_names common.checkpoint_reports
    common.control_questions common.copy_messages common.described_ends common.env_answers
    common.exchange_report common.folder_answers common.hub_orders common.install_answers
    common.journal_records
    common.keeper_messages common.message common.rank_looks common.rank_paces
    common.removal_answers
    common.restart_plan common.result_answers common.root_paths
    common.run_about
    common.run_answers common.run_events common.run_inputs common.run_orders
    common.secret_names common.shown_plans common.sizes
    common.speed_answers common.supervisor_messages common.supervisor_state
    common.watch_orders common.wrapper_messages
    remote.hub.host_paths remote.hub.judge remote.hub.mpi_launch remote.hub.stall
    remote.restart.attempt_orders
    remote.restart.leader remote.restart.record remote.restart.restart_policy
    remote.checkpoints.checkpoint_rules remote.checkpoints.newest_checkpoint
    remote.checkpoints.publication
    report.comparison report.material report.sections report.report_document report.report_page
    run.outcome.listed_checkpoints run.hang run.network.network_choice run.outcome run.output
    run.pace run.plan run.preflight_rules run.script run.shares.host_shares
    tune.settings_edit tune.step_rate tune.tune_search tune.tune_space
    """.split()  # noqa: SIM905 - a list of words stays readable
)
PURE_MAY = frozenset(
    """
    __future__ argparse ast base64 binascii bisect collections contextlib dataclasses difflib enum
    fnmatch fractions functools hashlib heapq hmac html io ipaddress itertools json math operator
    posixpath re shlex statistics string struct sys textwrap types typing typing_extensions
    unicodedata zlib
    packaging pathspec tomli tomllib yaml
    """.split()  # noqa: SIM905 - a list of words stays readable
)
ONLY_IN = {
    "fabric": r"ipexctl\.machines\.ssh\b.*",
    "paramiko": r"ipexctl\.machines\.ssh\b.*",
    "invoke": r"ipexctl\.machines\.ssh\b.*",
    "typer": r"ipexctl\.cli\b.*|.*cli",
    "click": r"ipexctl\.cli\b.*|.*cli",
    "rich": r"ipexctl\.terminal\b.*|.*[._]command\b.*|.*_text",
}
# Every command stands on these; each imports only those before it, not even a type of another one.
# `cli` finds the commands in the sources of their cli.py.
BELOW = ("common", "errors", "quick_dataclass", "base", "inventory", "facts", "user_code", "stack")
BELOW += ("local", "terminal", "trace", "machines", "cli", "pages", "blobs", "packages", "project")
# Slow to import, so `ipexctl --help` must not get to any of them.
HEAVY = ("cryptography", "fabric", "paramiko", "rich", "yaml")


@dataclass(frozen=True)
class Import:
    importer: str
    target: str
    line: int
    when: str = "start"  # "start": the module is loaded; "later": a function runs; "types": never

    def is_of(self, name: str) -> bool:
        return self.target == name or self.target.startswith(name + ".")


# --- the rules -----------------------------------------------------------------------------------


def violations(sources: dict[str, str]) -> list[str]:
    """Every broken rule of a package, given as module name -> source text."""
    every = [i for module, text in sources.items() for i in imports_of(module, text, sources)]
    broken = [f"{i.importer}:{i.line} imports {i.target}: {why}" for i in every for why in _up(i)]
    broken += [f"rooms in a circle: {' -> '.join(cycle)}" for cycle in _circles(every)]
    imports = [i for i in every if i.when != "types"]
    broken += [
        f"{i.importer}:{i.line} imports {i.target}: {why}" for i in imports for why in _why(i)
    ]
    broken += [b for module, text in sources.items() for b in _impure(module, text)]
    modules = _module_edges(imports, sources)
    broken += [f"a cycle: {' -> '.join(cycle)}" for cycle in _cycles(modules)]
    broken += [f"folders in a circle: {' -> '.join(c)}" for c in _folder_circles(imports, sources)]
    return broken + _heavy_at_start(imports)


def imports_of(module: str, text: str, known: dict[str, str]) -> Iterator[Import]:
    for node, when in _statements(ast.parse(text)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(module, alias.name, node.lineno, when)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(module, node)
            for alias in node.names:
                whole = f"{base}.{alias.name}"
                yield Import(module, whole if whole in known else base, node.lineno, when)


def _why(i: Import) -> Iterator[str]:
    if _is_pure(i.importer) and not _pure_may(i):
        yield f"{_room(i.importer)} is pure"
    for name, places in ONLY_IN.items():
        if i.is_of(name) and not re.fullmatch(places, i.importer):
            yield f"{name} belongs in {places}"
    if _on_hosts(i.importer) and not _remote_may(i):
        yield "remote runs on hosts that have only Python itself"
    if i.is_of("ipexctl.remote") and not _inside(i.importer, "ipexctl.remote"):
        yield "remote is shipped as source, never imported"
    outside = i.importer.rpartition(".")[0] != i.target.rpartition(".")[0]
    if outside and re.fullmatch(r"ipexctl\..+[._]cli", i.target):
        yield "a command's options are loaded by name"


def _up(i: Import) -> Iterator[str]:
    room, target = _room(i.importer), _room(i.target)
    ours = i.is_of("ipexctl") and target
    if ours and room in BELOW and target not in BELOW[: BELOW.index(room) + 1]:
        yield f"{room} is below {target}"


def _circles(imports: list[Import]) -> Iterator[list[str]]:
    edges: dict[str, set[str]] = {_room(i.importer): set() for i in imports}
    for i in imports:
        pair = _room(i.importer), _room(i.target)
        if i.is_of("ipexctl") and pair[0] != pair[1] and pair[1] in edges:
            edges[pair[0]].add(pair[1])
    return _cycles(edges)


def _impure(module: str, text: str) -> Iterator[str]:
    """What pure code could do without an import: open, print, and sys for more than its version."""
    if not _is_pure(module):
        return
    for node, _ in _statements(ast.parse(text)):
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Name) and called.id in ("open", "print", "input"):
            yield f"{module}:{called.lineno} calls {called.id}(): {_room(module)} is pure"
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            used = f"{node.value.id}.{node.attr}"
            if used.startswith("sys.") and used != "sys.version_info":
                yield f"{module}:{node.lineno} uses {used}: {_room(module)} is pure"


def _room(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def _is_pure(module: str) -> bool:
    return any(_inside(module, name) for name in PURE)


def _pure_may(i: Import) -> bool:
    if _is_pure(i.target) or i.target in ("ipexctl.errors", "ipexctl.quick_dataclass"):
        return True
    return i.target.partition(".")[0] in PURE_MAY or i.target == "urllib.parse"


def _on_hosts(module: str) -> bool:
    return _inside(module, "ipexctl.remote") or _inside(module, "ipexctl.common")


def _remote_may(i: Import) -> bool:
    shipped = i.importer == "ipexctl.remote.restart.voters" and _inside(i.target, "pysyncobj")
    ours = _on_hosts(i.target) or i.target.partition(".")[0] in sys.stdlib_module_names
    return ours or shipped or i.target == "typing_extensions"  # behind MYPY, for mypy alone


def _module_edges(imports: list[Import], sources: dict[str, str]) -> dict[str, set[str]]:
    edges: dict[str, set[str]] = {module: set() for module in sources}
    for i in imports:
        if i.target in sources and i.target != i.importer:
            edges[i.importer].add(i.target)
    return edges


def _cycles(edges: dict[str, set[str]]) -> Iterator[list[str]]:
    done: set[str] = set()
    for module in edges:
        cycle = _cycle_from(module, edges, [], done)
        if cycle:
            yield cycle


def _folder_circles(imports: list[Import], sources: dict[str, str]) -> Iterator[list[str]]:
    """Circles of folders. The files of ipexctl/ itself count as one folder each."""
    edges: dict[str, set[str]] = {_folder(module, sources): set() for module in sources}
    for i in imports:
        pair = _folder(i.importer, sources), _folder(i.target, sources)
        if i.target in sources and pair[0] != pair[1]:
            edges[pair[0]].add(pair[1])
    return _cycles(edges)


def _folder(module: str, sources: dict[str, str]) -> str:
    is_package = any(_inside(name, module) and name != module for name in sources)
    folder = module if is_package else module.rpartition(".")[0]
    return module if folder == "ipexctl" else folder


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
    """What loading the command line and the options of each command drags in, followed through our
    own modules. With a module, Python loads the packages that it is in."""
    starts = {i.importer for i in imports if re.fullmatch(r"ipexctl\b.*[._]cli", i.importer)}
    todo, seen, broken = [*starts], set[str](), []
    while todo:
        module = todo.pop()
        if module in seen:
            continue
        seen.add(module)
        todo.append(module.rpartition(".")[0])
        for i in imports:
            if i.importer != module or i.when != "start":
                continue
            if any(i.is_of(name) for name in HEAVY):
                broken.append(f"{module}:{i.line} imports {i.target}: --help would load it")
            todo.append(i.target)
    return broken


def _statements(node: ast.AST, when: str = "start") -> Iterator[tuple[ast.AST, str]]:
    for child in ast.iter_child_nodes(node):
        yield child, when
        within = when
        if isinstance(child, ast.If) and ast.unparse(child.test) in _FOR_TYPES:
            within = "types"
        elif when == "start" and isinstance(child, _LATER):
            within = "later"
        yield from _statements(child, within)


_FOR_TYPES = ("TYPE_CHECKING", "MYPY")
_LATER = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


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
    assert {"ipexctl.cli", "ipexctl.remote.main", *PURE} <= sources.keys()
    assert violations(sources) == []


def test_loading_the_command_line_loads_nothing_slow() -> None:
    ours = set(HEAVY) - {"rich"}  # typer itself may load rich, which version does is its own affair
    code = f"import sys, ipexctl.cli; print(*sorted(sys.modules.keys() & {ours!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


# --- and a broken rule is found ------------------------------------------------------------------


def types_of(module: str) -> str:
    """Return a source that imports the module for its types alone."""
    return f"from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import {module}\n"


# Modules of a package, and what is wrong with them.
BROKEN = {
    "ipexctl.facts.argv": (
        "import sys\nif sys.version_info > (3, 11):\n    x = sys.argv\n",
        ":3 uses sys.argv: facts is pure",
    ),
    "ipexctl.facts.file": (
        "def f(path):\n    return open(path)\n",
        ":2 calls open(): facts is pure",
    ),
    "ipexctl.facts.socket": (
        "import re\n\ndef f():\n    import socket\n",
        ":4 imports socket: facts is pure",
    ),
    "ipexctl.facts.relative": (
        "from ..common import files",
        ":1 imports ipexctl.common.files: facts is pure",
    ),
    "ipexctl.packages.command": (
        "from ipexctl.run import ours",
        ":1 imports ipexctl.run.ours: packages is below run",
    ),
    "ipexctl.stack.type": (
        types_of("ipexctl.run.ours"),
        ":3 imports ipexctl.run.ours: stack is below run",
    ),
    "ipexctl.blobs.late": (
        "def f():\n    from ipexctl.project import sent\n",
        ":2 imports ipexctl.project.sent: blobs is below project",
    ),
    "ipexctl.run.library": (
        "def f():\n    from paramiko.client import SSHClient\n",
        ":2 imports paramiko.client: paramiko belongs in " + ONLY_IN["paramiko"],
    ),
    "ipexctl.remote.library": (
        "import os, yaml",
        ":1 imports yaml: remote runs on hosts that have only Python itself",
    ),
    "ipexctl.remote.errors": (
        "from ipexctl.errors import InputError",
        ":1 imports ipexctl.errors: remote runs on hosts that have only Python itself",
    ),
    "ipexctl.run.remote": (
        "from ipexctl.remote import good",
        ":1 imports ipexctl.remote.good: remote is shipped as source, never imported",
    ),
    "ipexctl.run.options": (
        "from ipexctl.env.cli import env",
        ":1 imports ipexctl.env.cli: a command's options are loaded by name",
    ),
    "ipexctl.machines.ssh": (  # two steps from the command line
        "import fabric",
        ":1 imports fabric: --help would load it",
    ),
    "ipexctl.run.command": (  # the package of a command's options
        "import rich",
        ":1 imports rich: --help would load it",
    ),
}
GOOD = {
    "ipexctl.cli": "import ipexctl.machines.ssh\ndef f():\n    import ipexctl.terminal.a\n",
    "ipexctl.common.files": "",
    "ipexctl.doctor_command.fix": "import ipexctl.play.step",
    "ipexctl.env.cli": "",
    "ipexctl.machines.fleet": "",
    "ipexctl.machines.ssh.paramiko": "import paramiko",
    "ipexctl.play.step": "import ipexctl.doctor.check",
    "ipexctl.project.sent": "import ipexctl.machines.fleet",
    "ipexctl.remote.good": "import os\nfrom ipexctl.remote import other",
    "ipexctl.remote.other": "",
    "ipexctl.run.command.cli": "import sys",
    "ipexctl.run.ours": "",
    "ipexctl.terminal.a": "from rich.table import Table",
}


def test_every_broken_rule_is_found_and_nothing_else() -> None:
    broken = {module: text for module, (text, _) in BROKEN.items()}
    expected = [f"{module}{why}" for module, (_, why) in BROKEN.items()]
    assert sorted(violations(GOOD | broken)) == sorted(expected)


def test_cycles_and_circles_of_folders_are_found() -> None:
    late = "def f():\n    from ipexctl.run.a import x\n"
    cycle = {"ipexctl.run.a": "import ipexctl.run.b", "ipexctl.run.b": late}
    assert violations(cycle) == ["a cycle: ipexctl.run.a -> ipexctl.run.b -> ipexctl.run.a"]
    cycle["ipexctl.run.a"] = types_of("ipexctl.run.b")
    assert violations(cycle) == []
    cycle["ipexctl.run.a"] = "MYPY = False\nif MYPY:\n    import ipexctl.run.b\n"
    assert violations(cycle) == []
    folders = {"ipexctl.run.jobs.a": "import ipexctl.run.watch.b", "ipexctl.run.watch.b": ""}
    folders |= {"ipexctl.run.watch.c": "import ipexctl.run.jobs.d", "ipexctl.run.jobs.d": ""}
    circle = "folders in a circle: ipexctl.run.jobs -> ipexctl.run.watch -> ipexctl.run.jobs"
    assert violations(folders) == [circle]
    folders["ipexctl.run.watch.c"] = "def f():\n    import ipexctl.run.shares.e\n"
    folders["ipexctl.run.shares.e"] = ""
    assert violations(folders) == []
    folders |= {"ipexctl.run.shares.f": "import ipexctl.run.jobs.d"}
    assert violations(folders) == [circle.replace("watch ->", "watch -> ipexctl.run.shares ->")]


def test_rooms_that_import_each_other_in_a_circle_are_found() -> None:
    rooms = {"ipexctl.run.a": "import ipexctl.data.b", "ipexctl.data.b": ""}
    rooms |= {"ipexctl.data.c": "def f():\n    import ipexctl.env.d\n", "ipexctl.env.d": ""}
    assert violations(rooms) == []
    rooms |= {"ipexctl.env.e": types_of("ipexctl.run.f"), "ipexctl.run.f": ""}
    assert violations(rooms) == ["rooms in a circle: run -> data -> env -> run"]


def test_architecture_lists_the_rooms_below_in_their_order() -> None:
    text = (PACKAGE.parent / "ARCHITECTURE.md").read_text("utf-8")
    listed = text.partition("Below them")[2].partition("On the hosts")[0]
    rooms = re.findall(r"^    (\w+)/", listed, re.MULTILINE)
    assert rooms == [room for room in BELOW[::-1] if (PACKAGE / room).is_dir() and room != "common"]
