"""What the text of a script has of a call's arguments: constants, and the words of a command."""

from __future__ import annotations

import ast
import shlex

from ipexctl.user_code.source import Value


def text_of(node: ast.expr | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def constant_of(node: ast.expr) -> Value:
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, bool | int | str) else None


def command_words(node: ast.Call) -> list[str]:
    """The words of the command that is started, as far as the text has them."""
    given = next((k.value for k in node.keywords if k.arg in ("args", "cmd")), None)
    first = node.args[0] if node.args else given
    if isinstance(first, ast.Call) and ast.unparse(first.func).endswith("split") and first.args:
        first = first.args[0]
    if isinstance(first, ast.Call) and isinstance(first.func, ast.Attribute):
        return _words(literal_of(first.func.value))  # "...".split(), "...".format()
    if isinstance(first, ast.List | ast.Tuple):
        return [literal_of(part) or _interpreter(part) for part in first.elts]
    return _words(literal_of(first))


def _interpreter(node: ast.expr) -> str:
    return "python" if ast.unparse(node) == "sys.executable" else "?"


def literal_of(node: ast.expr | None) -> str:
    """A text as it is written, with ? for what is put in."""
    if isinstance(node, ast.JoinedStr):
        return "".join(
            text_of(part) if isinstance(part, ast.Constant) else _filled(part)
            for part in node.values
        )
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mod):
        return literal_of(node.left) + (
            literal_of(node.right) if isinstance(node.op, ast.Add) else ""
        )
    return text_of(node)


def _filled(part: ast.expr) -> str:
    inside = part.value if isinstance(part, ast.FormattedValue) else part
    return _interpreter(inside)


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()
