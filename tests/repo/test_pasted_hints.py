"""Every line that ipexctl suggests can be pasted: bash reads it, our own parser takes it, and words
for the reader stand behind #."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ipexctl.base.shell_line import first_way, shell_line
from ipexctl.doctor.checks import all_checks
from ipexctl.explain.known_failures import known_failures
from tests.pastable import why_not_pastable

PACKAGE = Path(__file__).parents[2] / "ipexctl"
_VALUES = {"hint", "command"}  # names of arguments that are lines to paste
_CAPITALS = re.compile(r"(?<![\w$/.\\-])[A-Z][A-Z_]{2,}(?![\w=])")
_VARIABLES = re.compile(r"unset [A-Z_ ]+|--(?:secret-)?env \S+|'[^']*'|\w*CCL_")


def _texts(node: ast.expr) -> Iterator[str]:
    """Yield the texts that an expression may have, X for what only the run knows."""
    if isinstance(node, ast.Constant):
        yield node.value if isinstance(node.value, str) else ""
    elif isinstance(node, ast.JoinedStr):
        parts = (p.value if isinstance(p, ast.Constant) else "X" for p in node.values)
        yield "".join(map(str, parts))
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        for left in _texts(node.left):
            yield from (left + right for right in _texts(node.right))
    elif isinstance(node, ast.IfExp):
        yield from (*_texts(node.body), *_texts(node.orelse))
    elif isinstance(node, ast.BoolOp):
        for value in node.values:
            yield from _texts(value)
    else:
        yield "X"


def hints() -> Iterator[tuple[str, str]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            for keyword in node.keywords:
                if keyword.arg == "hint":
                    for text in _texts(keyword.value):
                        for line in text.splitlines():
                            yield f"{path.relative_to(PACKAGE)}:{keyword.value.lineno}", line


def test_every_hint_of_an_error_can_be_pasted() -> None:
    lines = [(place, shell_line(line)) for place, line in hints()]
    assert len(lines) > 300
    wrong = [(place, line, why) for place, line in lines if (why := why_not_pastable(line))]
    assert wrong == []


def test_the_first_way_of_every_known_failure_can_be_pasted() -> None:
    lines = [(cause.slug, first_way(cause.fix)) for cause in known_failures()]
    assert [(slug, line, why) for slug, line in lines if (why := why_not_pastable(line))] == []
    assert len(lines) > 300


def test_every_fix_of_a_check_can_be_pasted() -> None:
    lines = [(check.id, line) for check in all_checks() for line in str(check.fix).splitlines()]
    wrong = [(i, line, why) for i, line in lines if (why := why_not_pastable(shell_line(line)))]
    assert wrong == []


@pytest.mark.parametrize(
    ("line", "is_command"),
    [
        ("ssh -G HOST   # prints the line", False),
        ("ipexctl run -n RANKS SCRIPT", False),
        ("python -m py_compile SCRIPT.py", False),
        ("ipexctl run --env SSL_CERT_FILE=FILE train.py", False),
        ("ipexctl run ...   # sets it", False),
        ("cd DIR && ipexctl ps", False),
        ("ipexctl run --env NAME=x --env HOST_NAME train.py   # or FILE", True),
        ("echo $PATH ${HOST}", True),
        ("ipexctl run --notify COMMAND train.py", True),
        ("cat out/FILE.txt a...b", True),
    ],
)
def test_a_command_with_a_word_for_the_reader_to_replace_stands_behind_a_hash(
    line: str, is_command: bool
) -> None:
    assert shell_line(line) == (line if is_command else f"# {line}")
    assert first_way(line).startswith("#") is not is_command


def test_no_line_to_paste_has_a_word_in_capitals_that_is_no_variable() -> None:
    lines = [(place, shell_line(line)) for place, line in hints()]
    lines += [(cause.slug, first_way(cause.fix)) for cause in known_failures()]
    lines += [(c.id, shell_line(line)) for c in all_checks() for line in str(c.fix).splitlines()]
    commands = [(place, line.partition(" # ")[0]) for place, line in lines if line[:1] != "#"]
    found = [
        (place, line) for place, line in commands if _CAPITALS.search(_VARIABLES.sub("", line))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("line", "is_pastable"),
    [
        ("ipexctl run -n 2 train.py", True),
        ("ipexctl run --nn 2 train.py", False),
        ("ipexctl instal", False),
        ("ipexctl install, then run it again", False),
        ("ipexctl ps   # other runs", True),
        ("cd 'a folder' && ipexctl install -f hosts", True),
        ("ls 'unbalanced", False),
        ("# words (for the reader", True),
        ("pip install uv; or conda", False),
    ],
)
def test_a_line_that_cannot_be_pasted_is_found(line: str, is_pastable: bool) -> None:
    assert (why_not_pastable(line) == "") is is_pastable
