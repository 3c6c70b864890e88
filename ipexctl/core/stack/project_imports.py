"""What a project's code imports -> which rows of the version table are meant."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping

from ipexctl.core.stack.version_table import Request

IPEX = frozenset({"intel_extension_for_pytorch"})
BINDINGS = frozenset({"oneccl_bindings_for_pytorch", "torch_ccl"})  # of the newer and older era
TORCH = frozenset({"torch", "accelerate", "transformers", "lightning", "pytorch_lightning"})
_LINE = re.compile(r"^[ \t]*(?:import|from)[ \t]+([A-Za-z_]\w*)", re.MULTILINE)


def modules(source: str) -> frozenset[str]:
    """The top-level modules that it imports anywhere, also where it only tries to."""
    try:
        return frozenset(_imported(ast.walk(ast.parse(source))))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset(_LINE.findall(source))  # Python 2, or newer than ours


def _imported(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def implied_request(code: Mapping[str, frozenset[str]]) -> Request:
    """`code`: file -> its modules. The bindings say more than IPEX, and IPEX more than torch."""
    if found := _who(code, BINDINGS):
        names = tuple(sorted({name for _, name in found}))
        return Request(stack="ipex", imports=names, because=_because(found))
    if found := _who(code, IPEX):
        return Request(stack="ipex", because=_because(found))
    if found := _who(code, TORCH):
        text = f"{_because(found)}, and nothing here imports IPEX or oneCCL"
        return Request(stack="stock", because=text)
    # IPEX has ended, with known security issues: nobody gets it who did not ask for it
    return Request(stack="stock", because="no code here imports IPEX or oneCCL")


def _who(code: Mapping[str, frozenset[str]], names: frozenset[str]) -> list[tuple[str, str]]:
    return [(file, name) for file, found in code.items() for name in sorted(found & names)]


def _because(found: list[tuple[str, str]]) -> str:
    file, name = found[0]
    more = len({f for f, _ in found}) - 1
    printable = "".join(c if c.isprintable() else "?" for c in file)
    return f"{printable} imports {name}" + (f" (and {more} more)" if more else "")
