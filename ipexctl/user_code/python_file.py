"""A Python file, parsed once: its names with their modules, its calls, and what certainly runs.

Everything that ipexctl needs to know about a user's Python comes from a PythonFile.
"""

from __future__ import annotations

import ast
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping

from ipexctl.quick_dataclass import dataclass

STARTS_A_PROCESS = frozenset(
    {f"subprocess.{n}" for n in ("run", "call", "check_call", "check_output", "Popen")}
    | {f"subprocess.{n}" for n in ("getoutput", "getstatusoutput")}
    | {f"os.{n}" for n in ("system", "popen", "execvp", "execv", "execlp", "execl")}
)
_ENDS = frozenset({"sys.exit", "os._exit", "os.abort", "exit", "quit"})
_CATCHES_NOTHING = frozenset({"KeyboardInterrupt", "SystemExit", "GeneratorExit"})
_VERSION_WORDS = ("version", "hasattr", "signature", "fields(")
_IS_MAIN = frozenset({"__name__ == '__main__'", "'__main__' == __name__"})
# expressions inside these may be skipped even if the statement runs
_MAYBE = (
    ast.IfExp,
    ast.BoolOp,
    ast.Lambda,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
    ast.ExceptHandler,
    ast.match_case,
)
_TRIES = (ast.Try, getattr(ast, "TryStar", ast.Try))  # except* is new in Python 3.11
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Called:
    """A call. `target`: dotted, as imported; "" if it is not a name. `name`: its last part."""

    node: ast.Call
    target: str
    name: str
    keywords: Mapping[str, ast.expr]

    @property
    def line(self) -> int:
        return self.node.lineno

    @property
    def first_argument(self) -> ast.expr | None:
        return self.node.args[0] if self.node.args else None


@dataclass(frozen=True)
class SetVariable:
    """os.environ["NAME"] = value."""

    node: ast.stmt | ast.Call
    name: str
    value: ast.expr | None


class PythonFile:
    """A file; `main`: it is the script, so its `__name__` is "__main__"."""

    def __init__(self, content: str | bytes, *, main: bool = True) -> None:
        """Parse the file. Raises SyntaxError, ValueError, RecursionError or MemoryError."""
        self.tree = ast.parse(content)
        self.main = main
        self.nodes = list(ast.walk(self.tree))
        self.parents = {child: node for node in self.nodes for child in ast.iter_child_nodes(node)}
        self.aliases = self._find_aliases()
        self.assigned_once = self._assigned_once()
        self.functions = {s.name: s for s in self.tree.body if isinstance(s, _FUNCTIONS)}
        self.calls = sorted(self._find_calls(), key=lambda call: call.line)
        self.bases = [
            (node.name, self.dotted_name(base))
            for node in self.nodes
            if isinstance(node, ast.ClassDef)
            for base in node.bases
        ]
        self._tests = {n: ast.unparse(n.test) for n in self.nodes if isinstance(n, ast.If)}
        self._version_tests = {
            node for node, test in self._tests.items() if any(w in test for w in _VERSION_WORDS)
        }
        self._after_ends = set(self._statements_after_ends())
        self._running = self._running_functions()

    # --- names -----------------------------------------------------------------------------------

    def _find_aliases(self) -> dict[str, str]:
        """Return name in the file -> dotted name of what was imported: np -> numpy."""
        aliases = {}
        for node in self.nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    module = alias.name if alias.asname else alias.name.partition(".")[0]
                    aliases[alias.asname or module] = module
            elif isinstance(node, ast.ImportFrom) and not node.level:
                for alias in node.names:
                    aliases[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        return aliases

    def _assigned_once(self) -> dict[str, ast.expr]:
        """Return the names that the file assigns in one place only, and their values."""
        stored = Counter(
            node.id
            for node in self.nodes
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
        )
        stored.update(node.arg for node in self.nodes if isinstance(node, ast.arg))
        return {
            target.id: node.value
            for node in self.nodes
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name) and stored[target.id] == 1
        }

    def dotted_name(self, node: ast.expr) -> str:
        """Return the name with its module: numpy.linalg for np.linalg; "" if it is not a name."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        return ".".join([self.aliases.get(node.id, node.id), *reversed(parts)])

    def value_of(self, node: ast.expr) -> ast.expr:
        """Return the value of a name that the file assigns once, else the node itself."""
        return self.assigned_once.get(node.id, node) if isinstance(node, ast.Name) else node

    # --- calls, commands, environment variables --------------------------------------------------

    def _find_calls(self) -> Iterator[Called]:
        for node in self.nodes:
            if isinstance(node, ast.Call):
                target = self.dotted_name(node.func)
                last = node.func.attr if isinstance(node.func, ast.Attribute) else target
                keywords = {k.arg: k.value for k in node.keywords if k.arg}
                yield Called(node, target, last.rpartition(".")[2], keywords)

    def find_assignments(self) -> Iterator[tuple[ast.stmt, ast.expr, ast.expr | None]]:
        """Yield (statement, target, value) of each target."""
        for node in self.nodes:
            if isinstance(node, ast.Assign):
                yield from ((node, target, node.value) for target in node.targets)
            elif isinstance(node, ast.AugAssign | ast.AnnAssign):
                yield node, node.target, node.value

    def class_parts(self) -> Iterator[ast.stmt]:
        """Yield the statements of all class bodies."""
        for node in self.nodes:
            if isinstance(node, ast.ClassDef):
                yield from node.body

    def find_commands(self) -> Iterator[tuple[Called, list[str]]]:
        """Yield calls that start a program, and the words of its command line."""
        for call in self.calls:
            if call.target in STARTS_A_PROCESS:
                yield call, _command_words(call)

    def find_variables(self) -> Iterator[SetVariable]:
        """Yield the environment variables that the file sets."""
        for node, target, value in self.find_assignments():
            if isinstance(target, ast.Subscript) and self.dotted_name(target.value) == "os.environ":
                yield SetVariable(node, text_of(target.slice), value)
        for call in self.calls:
            if call.target == "os.environ.update":
                for name, value in [*_dict_items(call.first_argument), *call.keywords.items()]:
                    yield SetVariable(call.node, name, value)
            elif call.target in ("os.environ.setdefault", "os.putenv") and call.first_argument:
                value = call.node.args[1] if len(call.node.args) > 1 else None
                yield SetVariable(call.node, text_of(call.first_argument), value)

    # --- what certainly runs ---------------------------------------------------------------------

    def is_guarded(self, node: ast.AST) -> bool:
        """Decide if the file itself handles a failure: after a version check, or in a `try`."""
        for child, parent in self._walk_ancestors(node):
            if isinstance(parent, _TRIES):
                if child not in parent.finalbody and any(map(_catches_errors, parent.handlers)):
                    return True
            elif isinstance(parent, ast.With | ast.AsyncWith):
                items = (ast.dump(item.context_expr) for item in parent.items)
                if isinstance(child, ast.stmt) and any("suppress" in item for item in items):
                    return True
            elif parent in self._version_tests and child is not getattr(parent, "test", None):
                return True
        return False

    def is_always_run(self, node: ast.AST) -> bool:
        """Decide whether the node runs whenever the file does."""
        runs, function = self._runs_in(node)
        return runs and (function is None or function in self._running)

    def is_certain(self, node: ast.AST) -> bool:
        """Decide whether the node runs whenever the file does, and its failure is not caught."""
        return self.is_always_run(node) and not self.is_guarded(node)

    def _walk_ancestors(self, node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
        """Yield (child, parent), from the node up to the module."""
        while (parent := self.parents.get(node)) is not None:
            yield node, parent
            node = parent

    def _runs_in(self, node: ast.AST) -> tuple[bool, Function | None]:
        """Return whether a node runs whenever its function (None: the file) does, and which."""
        for child, parent in self._walk_ancestors(node):
            if child in self._after_ends or self._is_conditional(child, parent):
                return False, None
            if isinstance(parent, _FUNCTIONS) and isinstance(child, ast.stmt):
                return self.functions.get(parent.name) is parent, parent
        return True, None

    def _is_conditional(self, child: ast.AST, parent: ast.AST) -> bool:
        """Decide whether a condition determines if the parent runs its child."""
        if isinstance(parent, _LOOPS):
            return isinstance(child, ast.stmt)
        if not isinstance(parent, ast.If) or child is parent.test:
            return isinstance(parent, _MAYBE)
        if self._tests[parent] in _IS_MAIN:
            return self.main != (child in parent.body)
        return True

    def _statements_after_ends(self) -> Iterator[ast.stmt]:
        """Yield the statements after one that may end the function or the script."""
        ending = set(self._possible_ends())
        for node in self.nodes:
            for name in ("body", "orelse", "finalbody"):
                body = getattr(node, name, None)
                if isinstance(body, list):
                    first = next((i for i, part in enumerate(body) if part in ending), len(body))
                    yield from body[first + 1 :]

    def _possible_ends(self) -> Iterator[ast.AST]:
        """Yield what may end a function or the script, and the statements around it."""
        for node in self.nodes:
            call = isinstance(node, ast.Call) and self.dotted_name(node.func) in _ENDS
            if call or isinstance(node, ast.Return | ast.Raise):
                yield node
                for _, parent in self._walk_ancestors(node):
                    if isinstance(parent, (*_FUNCTIONS, ast.ClassDef, ast.Lambda)):
                        break
                    yield parent

    def _running_functions(self) -> set[Function]:
        """Return the file's functions that certainly run: called by the file or by one of them."""
        callees: dict[Function | None, list[Function]] = {}
        for call in self.calls:
            name = call.node.func.id if isinstance(call.node.func, ast.Name) else ""
            runs, function = self._runs_in(call.node) if name in self.functions else (False, None)
            if runs and not self.is_guarded(call.node):
                callees.setdefault(function, []).append(self.functions[name])
        running, waiting = set[Function](), callees.get(None, [])
        while waiting:
            function = waiting.pop()
            if function not in running:
                running.add(function)
                waiting += callees.get(function, [])
        return running


def _catches_errors(handler: ast.ExceptHandler) -> bool:
    """Decide whether the handler catches more than the end of the program."""
    if handler.type is None:
        return True
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(ast.unparse(kind) not in _CATCHES_NOTHING for kind in kinds)


# --- constants and texts -------------------------------------------------------------------------


def text_of(node: ast.expr | None) -> str:
    """Return a constant text; "" for anything else."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def literal_of(node: ast.expr | None) -> str:
    """Return a string as written, with ? for each inserted value."""
    if isinstance(node, ast.JoinedStr):
        return "".join(
            text_of(part) if isinstance(part, ast.Constant) else _fstring_part(part)
            for part in node.values
        )
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mod):
        return literal_of(node.left) + (
            literal_of(node.right) if isinstance(node.op, ast.Add) else ""
        )
    return text_of(node)


def _dict_items(node: ast.expr | None) -> list[tuple[str, ast.expr]]:
    """Return the items of a dict display."""
    if not isinstance(node, ast.Dict):
        return []
    return [(text_of(key), value) for key, value in zip(node.keys, node.values, strict=True)]


def _command_words(call: Called) -> list[str]:
    """Return the words of the command that is started, as far as the source has them."""
    first = call.first_argument or call.keywords.get("args") or call.keywords.get("cmd")
    if isinstance(first, ast.List | ast.Tuple):
        return [literal_of(part) or _interpreter_word(part) for part in first.elts]
    return _split_command(literal_of(first))


def _fstring_part(part: ast.expr) -> str:
    return _interpreter_word(part.value if isinstance(part, ast.FormattedValue) else part)


def _interpreter_word(node: ast.expr) -> str:
    return "python" if ast.unparse(node) == "sys.executable" else "?"


def _split_command(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()
