"""Send a host modules of remote/ and common/: only those an operation needs, each once. PySyncObj
is sent too if one of them uses it.

They go as source, which any Python from 3.6 on compiles on import. A host whose Python last had our
bytecode format gets bytecode: compiling takes its CPU 0.1 to 0.3 s per command.
"""

from __future__ import annotations

import ast
import marshal
import re
import sys
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache, wraps
from importlib.util import MAGIC_NUMBER, find_spec
from pathlib import Path
from threading import RLock
from typing import ParamSpec, TypeVar

from ipexctl.common.files import write_atomic
from ipexctl.inventory.inventory import Host
from ipexctl.local.memory import Memory
from ipexctl.local.ownership import untrusted_above
from ipexctl.local.user_dirs import cache_dir, make_private

_PACKAGE = "ipexctl.remote"
_SHARED = "common"  # here its modules are named `common.files` and so on
_FOLDERS = tuple(Path(__file__).parents[1] / name for name in ("remote", _SHARED))
_LIBRARY = "pysyncobj"
BYTECODES = Memory("agents/bytecode", 4096, in_cache=True)  # by host
OUR_BYTECODE = MAGIC_NUMBER.hex()
_WIRE = 2  # the version of marshal's format: every Python 3 reads it
# Finds imports; `ast` parses only those statements: parsing all of a module takes 30 ms more.
_IMPORT = re.compile(
    r"^[ \t]*((?:from|import) ipexctl\.(?:remote|common)\b[^(\n]*(?:\([^)]*\))?)", re.MULTILINE
)
# What a module imports for mypy alone: hosts do not need it.
_FOR_TYPES = re.compile(r"^if MYPY:\n(?:[ \t].*\n|\n)+", re.MULTILINE)
_USES_LIBRARY = re.compile(rf"^from {_LIBRARY}\b", re.MULTILINE)

_P = ParamSpec("_P")
_T = TypeVar("_T")
_lock = RLock()


def _cache_once(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Cache like `cache`; concurrent callers (threads of many hosts) wait for the first one."""
    cached = cache(function)

    @wraps(function)
    def locked(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        with _lock:
            return cached(*args, **kwargs)  # type: ignore[arg-type]

    locked.cache_clear = cached.cache_clear  # type: ignore[attr-defined]
    return locked


@_cache_once
def module_sources() -> dict[str, str]:
    """Return the source of every module by its name below remote/: `main`, `install.blobs`; with
    the prefix `common/` for those of common/."""
    return {
        _short_module_name(_module_name(path)): path.read_text("utf-8") for path in _module_files()
    }


def _module_files() -> list[Path]:
    paths = (path for folder in _FOLDERS for path in sorted(folder.rglob("*.py")))
    return [path for path in paths if path.name != "__init__.py"]


def _module_name(path: Path) -> str:
    return ".".join(path.relative_to(_FOLDERS[0].parents[1]).with_suffix("").parts)


def _short_module_name(full: str) -> str:
    return full.removeprefix(f"{_PACKAGE}.").removeprefix("ipexctl.")


@_cache_once
def library_sources() -> dict[str, str]:
    """Return the source of each module of PySyncObj, by its full name."""
    paths = _library_folder().glob("*.py")
    sources = {f"{_LIBRARY}.{path.stem}": path.read_text("utf-8") for path in paths}
    return {name: text for name, text in sources.items() if not name.endswith("__")}


def _library_folder() -> Path:
    """Find the library without importing it."""
    spec = find_spec(_LIBRARY)
    assert spec and spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0])


@_cache_once
def module_imports(name: str) -> frozenset[str]:
    """Return the modules of remote/ that a module imports, at its start or in a function, and all
    of PySyncObj if it uses that. Imports for types alone do not count."""
    sources = module_sources()
    if name not in sources:
        return frozenset()
    imported: set[str] = set()
    if _USES_LIBRARY.search(sources[name]):
        imported |= library_sources().keys()
    for statement in _IMPORT.findall(_FOR_TYPES.sub("", sources[name])):
        for node in ast.parse(statement).body:
            aliases = [alias.name for alias in node.names] if hasattr(node, "names") else []
            if isinstance(node, ast.ImportFrom):
                aliases = [f"{node.module}.{alias}" for alias in aliases] + [node.module or ""]
            imported.update(map(_short_module_name, aliases))
    return frozenset(
        module for module in imported if module in sources or module.startswith(f"{_LIBRARY}.")
    )


@_cache_once
def boot_modules() -> frozenset[str]:
    """Return the modules that every agent starts with."""
    return _with_imports("boot")


@_cache_once
def modules_for_op(op: str) -> frozenset[str]:
    """Return the further modules that an operation such as `facts.probe.facts` may use."""
    return _with_imports(op.rpartition(".")[0]) - boot_modules()


def _with_imports(name: str) -> frozenset[str]:
    modules: set[str] = set()
    todo = {name} & module_sources().keys()
    while todo:
        name = todo.pop()
        modules.add(name)
        todo |= module_imports(name) - modules
    return frozenset(modules)


@_cache_once
def pack_modules(names: frozenset[str], *, bytecode: bool = False) -> bytes:
    """Pack modules for remote/main.py and the boot line: full name -> source or marshalled code."""
    code = compiled_modules() if bytecode else {}
    chosen = {
        _full_module_name(name): code.get(name) or _source_text(name) for name in sorted(names)
    }
    return zlib.compress(marshal.dumps(chosen, _WIRE), 1 if bytecode else 6)


def _full_module_name(name: str) -> str:
    if name.startswith(f"{_LIBRARY}."):
        return name
    return f"ipexctl.{name}" if name.startswith(f"{_SHARED}.") else f"{_PACKAGE}.{name}"


def _source_text(name: str) -> str:
    return library_sources()[name] if name.startswith(f"{_LIBRARY}.") else module_sources()[name]


def boot_payload(marker: str, names: frozenset[str], *, bytecode: bool = False) -> bytes:
    """Return the boot line and the modules it reads: those every agent starts with, and `names`. A
    Python with another bytecode format reports that and ends."""
    body = pack_modules(boot_modules() | names, bytecode=bytecode)
    name = f"{_PACKAGE}.boot"
    check = (
        f"sys.modules['_frozen_importlib_external'].MAGIC_NUMBER!={MAGIC_NUMBER!r} and "
        f"(os.write(1,b'\\n{marker}-old\\n'),os._exit(0));"
    )
    code = f"compile(s['{name}'],'{name.replace('.', '/')}.py','exec')"
    if bytecode:
        code = f"marshal.loads(s['{name}'])"
    line = (
        f"s=sys.stdin.buffer.read({len(body)});{check if bytecode else ''}"
        "import marshal;s=marshal.loads(zlib.decompress(s));"
        f"n={{'__name__':'{name}'}};"
        f"exec({code},n);"
        f"n['start'](s,b'\\n{marker}-py\\n')\n"
    )
    return line.encode("ascii") + body


@_cache_once
def compiled_modules() -> dict[str, bytes]:
    """Return every module as compiled by this Python, marshalled; cached in the user's cache
    folder. {} if it cannot be cached: the hosts would have to wait for the compiler."""
    with suppress(OSError, RuntimeError):
        path = cache_dir() / "agents" / f"{sys.implementation.cache_tag}.marshal"
        if untrusted_above(path):
            return {}
        stamp = _sources_stamp()
        with suppress(OSError, ValueError, EOFError, TypeError):
            cached_stamp, cached = marshal.loads(path.read_bytes())
            if cached_stamp == stamp:
                return dict(cached)
        compiled = {
            name: _marshalled_code(name, text)
            for name, text in (module_sources() | library_sources()).items()
        }
        make_private(path.parent)
        write_atomic(path, marshal.dumps((stamp, compiled)))
        return compiled
    return {}


def _marshalled_code(name: str, text: str) -> bytes:
    file = _full_module_name(name).replace(".", "/") + ".py"
    return marshal.dumps(compile(text, file, "exec", dont_inherit=True, optimize=0))


def _sources_stamp() -> list[object]:
    """Return the cache key of compiled code: Python, and time and size of each file."""
    paths = [*_module_files(), *sorted(_library_folder().glob("*.py"))]
    stats = [(str(path), path.stat()) for path in paths]
    return [MAGIC_NUMBER, *([path, stat.st_mtime_ns, stat.st_size] for path, stat in stats)]


# --- the bytecode format of each host's Python when it was last asked ----------------------------


def load_bytecodes() -> dict[str, str]:
    return {key: value for key, value in BYTECODES.load().items() if isinstance(value, str)}


def store_bytecodes(bytecodes: Mapping[str, str]) -> None:
    """Add to the stored values."""
    stored = load_bytecodes()
    if any(stored.get(key) != value for key, value in bytecodes.items()):
        BYTECODES.add(bytecodes)


def python_key(host: Host, python: str = "") -> str:
    """Return a key for how the Python of a host is reached."""
    place = "here" if host.local else f"{host.user or ''}@{host.address or host.name}:{host.port}"
    return f"{place} {python or host.python}".strip()
