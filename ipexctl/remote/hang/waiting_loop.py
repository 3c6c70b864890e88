"""Find the line of user code that a thread is in, and whether the loop around it only waits."""

import ast
import os
import re
import tokenize

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Iterable, Iterator

    from ipexctl.common.rank_looks import StackFrame

LARGEST = 1 << 20  # bytes of a source file; larger ones are not read
TEXT = 160
LIBRARY = re.compile(r"/(?:site|dist)-packages/|/lib(?:64)?/python3\.\d+/|/python3\d+\.zip/|^<fr")
PAUSES = {"sleep", "wait", "sched_yield", "pause"}
TESTS = {
    "exists",
    "isfile",
    "isdir",
    "is_file",
    "is_dir",
    "is_set",
    "isSet",
    "empty",
    "poll",
    "full",
    "done",
    "locked",
    "qsize",
    "is_alive",
    "is_completed",
    "test",
    "check",
    "ready",
    "acquire",
    "get_nowait",
    "listdir",
    "glob",
    "stat",
    "getsize",
}
# other calls of waiting loops: look at the clock, print that they wait
BESIDES = {
    "time",
    "monotonic",
    "perf_counter",
    "len",
    "int",
    "float",
    "str",
    "min",
    "max",
    "any",
    "all",
    "print",
    "info",
    "debug",
    "warning",
    "flush",
    "format",
}
QUIET = PAUSES | TESTS | BESIDES
# calls that fail until another process is ready: a lock file, a server that is not up yet
ATTEMPTS = {"open", "mkdir", "makedirs", "link", "symlink", "rename", "connect", "lockf", "flock"}


def own_frame(frames: "Iterable[StackFrame]", site: "str | None") -> "StackFrame | None":
    """Return the innermost frame that is neither in a library nor in ipexctl."""
    for frame in frames:
        if not LIBRARY.search(frame.path) and not (site and frame.path.startswith(site + "/")):
            return frame
    return None


def source_of(path: str, folder: str) -> "list[str]":
    """Return the lines of a file; `folder`: the folder to which its path is relative."""
    path = os.path.join(folder, path)
    try:
        if os.path.getsize(path) > LARGEST or not os.path.isfile(path):
            return []
        with tokenize.open(path) as f:
            return f.read().split("\n")
    except (OSError, ValueError, SyntaxError):
        return []


def waits_in_loop(lines: "list[str]", line: int) -> bool:
    """Decide whether the line is in a `while` whose body only waits. False if this Python is too
    old to parse the source."""
    try:
        loop = find_innermost_loop(ast.parse("\n".join(lines)), line)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    if loop is None:
        return False
    if tries_again(loop.body[0], line):
        return True
    body = list(called_function_names(loop.body))
    if not all(is_quiet(statement) for statement in loop.body):
        return False
    if not PAUSES.isdisjoint(body):
        return True  # whatever the test calls: it is called between pauses
    test = list(called_function_names([loop.test]))
    only_passes = all(isinstance(part, (ast.Pass, ast.Continue)) for part in loop.body)
    return QUIET.issuperset(test) and (only_passes or not TESTS.isdisjoint(body + test))


def tries_again(statement: "ast.stmt", line: int) -> bool:
    """Decide whether the line is in a loop's first statement, a `try` repeated on failure."""
    if not isinstance(statement, ast.Try) or len(statement.body) != 1:
        return False
    handled = [part for handler in statement.handlers for part in handler.body]
    goes_on = all(isinstance(part, (ast.Pass, ast.Continue, ast.Expr)) for part in handled)
    names = set(called_function_names(statement.body))
    last_line = max(getattr(part, "lineno", 0) for part in ast.walk(statement))
    inside = statement.lineno <= line <= last_line
    return inside and goes_on and all(map(is_quiet, handled)) and bool(names) and names <= ATTEMPTS


def find_innermost_loop(tree: "ast.AST", line: int) -> "ast.While | None":
    """Return the `while` around the line, unless another loop or a function is in between."""
    kinds = (ast.While, ast.For, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [
        node
        for node in ast.walk(tree)
        if isinstance(node, kinds) and node.lineno <= line
        if line <= max(getattr(part, "lineno", 0) for part in ast.walk(node))
    ]
    innermost = max(nodes, key=lambda node: (node.lineno, node.col_offset), default=None)
    return innermost if isinstance(innermost, ast.While) else None


def is_quiet(statement: "ast.stmt") -> bool:
    """Return whether a statement only waits, tests, or prints: it computes nothing."""
    if isinstance(statement, (ast.Pass, ast.Continue, ast.Break, ast.Raise)):
        return True
    if isinstance(statement, (ast.Expr, ast.Assign, ast.AugAssign, ast.Return)):
        return QUIET.issuperset(called_function_names([statement]))
    if isinstance(statement, ast.If) and QUIET.issuperset(called_function_names([statement.test])):
        return all(map(is_quiet, statement.body + statement.orelse))
    if isinstance(statement, ast.Try):
        handled = [part for handler in statement.handlers for part in handler.body]
        statements = statement.body + statement.orelse + statement.finalbody
        return all(map(is_quiet, statements + handled))
    return False


def called_function_names(nodes: "Iterable[ast.AST]") -> "Iterator[str]":
    """Return the last names of the functions that are called, such as `sleep` of time.sleep()."""
    for node in nodes:
        for part in ast.walk(node):
            if isinstance(part, ast.Call):
                yield getattr(part.func, "attr", getattr(part.func, "id", ""))
