#!/usr/bin/env python3
"""Compare the test suites of two trees by the faults they notice.

    .venv/bin/python tools/mutants.py BEFORE AFTER [MINUTES]

Picks mutants (small faults) at random in functions that are the same in both trees, puts each into
BEFORE and into AFTER, and runs the tests that call the function there: if one fails, the mutant is
killed. Lab and soak tests are left out, and tests that build environments. Both trees are changed
meanwhile: use worktrees after `make setup`. Needs root, for a PID namespace around each mutant.
"""

from __future__ import annotations

import ast
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

SEED, COUNT = 20261121, 100
BUDGET = 15.0  # seconds of tests for one mutant in one tree, the fastest tests first
LEFT_OUT = {"lab", "soak", "shop", "builder", "world", "here"}  # markers, fixtures
ISOLATED = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
SWAPS = {ast.Lt: ast.LtE, ast.Gt: ast.GtE, ast.Eq: ast.NotEq, ast.Is: ast.IsNot, ast.In: ast.NotIn}
SWAPS |= {new: old for old, new in SWAPS.items()}


class Place(NamedTuple):
    path: Path
    name: str
    first: Any  # statement of the function
    node: Any

    def __str__(self) -> str:
        line = self.path.read_text("utf-8").splitlines()[self.node.lineno - 1].strip()
        return f"{self.path}:{self.node.lineno} {self.name}: `{line}`: {ast.unparse(self.node)}"

    def text(self, new: str) -> str:
        """The module with something else for the node."""
        lines = self.path.read_bytes().splitlines(keepends=True)
        start = sum(map(len, lines[: self.node.lineno - 1])) + self.node.col_offset
        end = sum(map(len, lines[: self.node.end_lineno - 1])) + self.node.end_col_offset
        return (b"".join(lines)[:start] + new.encode() + b"".join(lines)[end:]).decode()


Mutant = tuple[list[Place], str]  # in BEFORE and in AFTER, and what stands there instead


def nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Without f-strings, whose parts have no exact position, and without annotations."""
    yield node
    for field, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            hidden = isinstance(child, ast.JoinedStr) or field in ("annotation", "returns")
            if isinstance(child, ast.AST) and not hidden and field != "decorator_list":
                yield from nodes(child)


def functions(tree: Path) -> dict[tuple[str, str], list[list[Place]]]:
    """Their nodes, by name and body. A docstring does not count, nor what an import is called."""
    found = defaultdict(list)
    for path in sorted((tree / "ipexctl").rglob("*.py")):
        lines, module = path.read_text("utf-8").splitlines(), ast.parse(path.read_bytes())
        imports = [n for n in ast.walk(module) if isinstance(n, (ast.Import, ast.ImportFrom))]
        imported = {alias.asname or alias.name for node in imports for alias in node.names}
        owners: list[Any] = [module, *(n for n in module.body if isinstance(n, ast.ClassDef))]
        for prefix, node in ((getattr(o, "name", ""), node) for o in owners for node in o.body):
            if not isinstance(node, ast.FunctionDef):
                continue
            body = node.body[bool(ast.get_docstring(node)) :]
            if body and lines[body[0].lineno - 1][: body[0].col_offset].isspace():
                copy = ast.parse(ast.unparse(ast.Module(body, [])))
                for used in (n for n in ast.walk(copy) if isinstance(n, ast.Name)):
                    used.id = "imported" if used.id in imported else used.id
                args = [arg.arg for arg in ast.walk(node.args) if isinstance(arg, ast.arg)]
                name = f"{prefix}.{node.name}".lstrip(".")
                places = [Place(path, name, body[0], n) for n in nodes(ast.Module(body, []))]
                found[name, "\n".join([*args, *map(ast.dump, copy.body)])].append(places)
    return found


def faults(node: Any, is_condition: bool) -> list[str]:
    """What could stand in place of a node."""
    match node:
        case ast.Compare(left, [op, *ops], right) if type(op) in SWAPS:
            return [f"({ast.unparse(ast.Compare(left, [SWAPS[type(op)](), *ops], right))})"]
        case ast.BoolOp(op, values):
            other = ast.Or() if isinstance(op, ast.And) else ast.And()
            return [f"({ast.unparse(ast.BoolOp(other, values))})"]
        case ast.Constant(bool(value)):
            return [repr(not value)]
        case ast.Constant(int(value) | float(value)):
            return [repr(value + 1)]
        case ast.UnaryOp(ast.Not(), operand):
            return [f"({ast.unparse(operand)})"]
        case ast.Return(ast.AST() as value) if ast.unparse(value) != "None":
            return ["return None", f"return not ({ast.unparse(value)})"]
        case ast.Raise() | ast.AugAssign() | ast.Expr(ast.Call()):
            return ["pass"]
        case ast.Name() | ast.Attribute() | ast.Call() if is_condition:
            return [f"(not {ast.unparse(node)})"]
    return []


def choose(trees: list[Path]) -> list[Mutant]:
    """At most one in a line; of each part of the product by its share of all lines."""
    before, after = map(functions, trees)
    by_line: dict[tuple[str, str, int], list[Mutant]] = defaultdict(list)
    for key in sorted(after.keys() & before.keys()):
        if len(before[key]) == len(after[key]) == 1:
            found = [place.node for place in after[key][0]]
            tests = {id(n.test) for n in found if isinstance(n, (ast.If, ast.While, ast.IfExp))}
            for old, place in zip(before[key][0], after[key][0], strict=True):
                for new in faults(place.node, id(place.node) in tests):
                    part = place.path.relative_to(trees[1]).parts[1]
                    by_line[part, str(place.path), place.node.lineno].append(([old, place], new))
    files = [path.relative_to(trees[1]) for path in (trees[1] / "ipexctl").rglob("*.py")]
    sizes = Counter(path.parts[1] for path in files for _ in (trees[1] / path).open("rb"))
    pick = random.Random(SEED)
    ranked: list[tuple[float, Mutant]] = []
    for part in sorted(sizes):
        lines = sorted(line for line in by_line if line[0] == part)
        pick.shuffle(lines)
        share = max(sizes[part], sizes.total() / 30)  # some of a small part, too
        ranked += [((n + 0.5) / share, pick.choice(by_line[line])) for n, line in enumerate(lines)]
    return [mutant for _, mutant in sorted(ranked, key=lambda pair: pair[0])[:COUNT]]


class Plugin:
    """In pytest: sets the order of the tests; notes their time, outcome and functions called."""

    def __init__(self, marks: Path, words: list[str]) -> None:
        self.marks, self.order = marks, {word: n for n, word in enumerate(words)}
        self.called: dict[str, set[str]] = defaultdict(set)  # by test, or by file
        self.tests: dict[str, Any] = defaultdict(lambda: {"failed": False, "seconds": 0.0})

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        names = {
            item: {*item.fixturenames, *(m.name for m in item.iter_markers())} for item in items
        }
        items[:] = [item for item in items if not LEFT_OUT & names[item]]
        items.sort(key=lambda item: self.order.get(item.nodeid, 0))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """What fixtures call counts for all tests of the file."""
        test, file = report.nodeid, report.nodeid.partition("::")[0]
        self.tests[test]["failed"] |= report.failed
        self.tests[test]["seconds"] += report.duration
        self.called[test if report.when == "call" else file] |= set(self.marks.read_text().split())
        os.truncate(self.marks, 0)

    def pytest_sessionfinish(self) -> None:
        for name, test in self.tests.items():
            test["calls"] = sorted(self.called[name] | self.called[name.partition("::")[0]])
        self.marks.with_name("answer").write_text(json.dumps(self.tests))


def tested(tree: Path, texts: dict[Path, str], words: list[str]) -> tuple[int, dict[str, Any]]:
    """Run pytest in a tree where some files have other texts meanwhile; MARKS in them is a file."""
    originals = {path: path.read_bytes() for path in texts}
    with tempfile.TemporaryDirectory(prefix="m") as name:
        folder = Path(name)
        (folder / "marks").touch()
        command = [*ISOLATED, str(tree / ".venv/bin/python"), __file__, "--pytest", name, *words]
        env = {**os.environ, "TMPDIR": name, "PYTHONDONTWRITEBYTECODE": "1"}
        limit = 8 * BUDGET if words else None
        try:
            for path, text in texts.items():
                path.write_text(text.replace("MARKS", f"{name}/marks"), "utf-8")
            done = subprocess.run(command, cwd=tree, env=env, capture_output=True, timeout=limit)
            return done.returncode, json.loads((folder / "answer").read_text())
        except (subprocess.TimeoutExpired, FileNotFoundError):
            return -1, {}
        finally:
            for path, original in originals.items():
                path.write_bytes(original)


def judge(tree: Path, mutants: list[tuple[Place, str]], until: float) -> list[str]:
    """For each mutant, in order: the test that killed it, or nothing."""
    marked: dict[Path, list[str]] = {}
    for n, (place, _) in sorted(enumerate(mutants), key=lambda pair: -pair[1][0].first.lineno):
        lines = marked.setdefault(place.path, place.path.read_text("utf-8").split("\n"))
        mark = f'__import__("io").open("MARKS", "a").write("{n}\\n")'
        lines.insert(place.first.lineno - 1, " " * place.first.col_offset + mark)
    known = tested(tree, {path: "\n".join(lines) for path, lines in marked.items()}, [])[1]
    order = sorted((t for t in known if not known[t]["failed"]), key=lambda t: known[t]["seconds"])
    killers: list[str] = []
    for n, (place, new) in enumerate(mutants):
        if time.monotonic() > until:
            break
        left, chosen = BUDGET, []
        for test in (test for test in order if str(n) in known[test]["calls"]):
            left -= known[test]["seconds"]
            chosen += [test] if left > 0 else []
        code, ran = (
            tested(tree, {place.path: place.text(new)}, ["-x", *chosen]) if chosen else (0, {})
        )
        failed = [test for test in ran if ran[test]["failed"]]
        killers.append([*failed, "a time limit, or an import"][0] if code else "")
    return killers


def main(trees: list[Path], minutes: float) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("mutants: stopped"))  # files are restored
    for tree in trees:
        status = ["git", "-C", str(tree), "status", "--porcelain", "ipexctl"]
        if subprocess.run(status, check=True, capture_output=True).stdout:
            sys.exit(f"mutants: {tree} has changes; run `git restore .` there")
    mutants, until = choose(trees), time.monotonic() + 60 * minutes
    sides = [[(places[side], new) for places, new in mutants] for side in (0, 1)]
    with ThreadPoolExecutor(2) as pool:
        both = list(pool.map(judge, trees, sides, [until, until]))
    count = min(map(len, both))
    for tree, killers in zip(trees, both, strict=True):
        print(f"{tree}: {sum(map(bool, killers[:count]))} of {count} mutants killed")
    for (places, new), *killers in zip(mutants, *both, strict=False):
        if not all(killers):
            print(f"{places[1]} -> {new}\n    before: {killers[0]}\n    after: {killers[1]}")


if __name__ == "__main__":
    if sys.argv[1] == "--pytest":
        words = ["-q", "-p", "no:cacheprovider", "--timeout=120", *sys.argv[3:]]
        sys.exit(pytest.main(words, plugins=[Plugin(Path(sys.argv[2], "marks"), words)]))
    main([Path(word).resolve() for word in sys.argv[1:3]], float((*sys.argv[3:], "600")[0]))
