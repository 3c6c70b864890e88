"""The page of the site with every error that the source raises, read from the source.

Words in capitals stand for values. An error whose words come whole from a host or another program
is counted and not listed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ipexctl import errors

START = """\
# Errors

Every error that ipexctl raises, with what it suggests. Written from the source.

An error has up to three parts: what failed, why, and what to type next. Its slug is its name for
programs: with `--json`, a command that fails prints `{"errors": [{"slug": ...}]}` on stdout. Words
in capitals stand for values, `...` for text that differs each time. On a terminal an error looks
like the example of its section; a host's error is the line of that host in the report, and the
other hosts go on. How a run ends once ranks have started: [run](run-results.md#exit-codes).

| exit code | errors | when |
|---|---|---|
"""
WHEN = {
    "IpexctlError": "something else failed",
    "InputError": "an option, a file or a hostfile cannot be used",
    "NotHere": "this machine lacks a right, a program or a file",
    "NothingFits": "no row of the version table fits the hosts",
    "Unreachable": "a host cannot be reached or logged in to",
    "HostKeyUnknown": "the key of a host was never accepted",
    "HostKeyChanged": "the key of a host has changed",
    "HostFailed": "a host answered, and then failed",
    "RunFailed": "`run` did not start, or lost a host",
}
_AREAS = (  # the first that fits
    ("cli/", "Options"),
    ("inventory/", "Hosts and hostfiles"),
    ("local/hostfile_reader", "Hosts and hostfiles"),
    ("machines/target", "Hosts and hostfiles"),
    ("hosts/trust", "SSH"),
    ("hosts/", "Hosts and hostfiles"),
    ("machines/ssh/", "SSH"),
    ("machines/openssh", "SSH"),
    ("machines/", "Hosts at work"),
    ("blobs/", "Hosts at work"),
    ("stack/", "Stacks and packages"),
    ("packages/", "Stacks and packages"),
    ("install/", "install"),
    ("remote/install/", "install"),
    ("env/", "env"),
    ("data/", "data"),
    ("remote/data/", "data"),
    ("project/", "Project files"),
    ("remote/project/", "Project files"),
    ("run/", "run"),
    ("user_code/launchers/", "run"),
    ("remote/run", "run"),
    ("doctor/", "doctor"),
    ("remote/facts/", "doctor"),
    ("play/", "play"),
    ("remote/play/", "play"),
    ("bench/", "bench"),
    ("lab/", "lab"),
    ("", "Settings, files and others"),
)
_SAMPLES = {
    "HOST": "node02", "HOSTS": "node[01-04]", "PATH": "hosts.txt", "FOLDER": "/home/ann/project",
    "PORT": "22", "N": "4", "NAME": "node02", "USER": "ann", "ADDRESS": "10.0.0.2",
    "REASON": "No space left on device",
    "WHERE": "10.0.0.2 port 22", "KEY_TYPE": "ssh-ed25519", "FINGERPRINT": "SHA256:Zk3...",
    "FILE": "torch-2.13.0.whl", "SHA256": "9f86d081...",
    "NEW": "ipexctl init node1 node2   # writes a hostfile here",
}  # fmt: skip
_WORDS = {
    "e": "...",
    "error": "...",
    "said": "...",
    "near": "",
    "each": "...",
    "strerror": "REASON",
    "blob": "FILE",
}
_LOGINS = {"ssh_debug_command": "ssh -v HOST true", "copy_id": "ssh-copy-id HOST"}
_ANY = re.compile(r"(?<![\w-])[A-Z][A-Z0-9_]{2,}(?![\w=-])")
Functions = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Entry:
    kind: str
    code: str
    area: str
    what: str
    why: str = ""
    hint: str = ""
    slug: str = ""


@dataclass
class Source:
    """One module: its constants, and what its local names are made of."""

    tree: ast.Module
    numbers: Mapping[str, int]
    names: dict[str, ast.expr] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.names = dict(_assigned(self.tree.body))

    def calls(self) -> Iterator[tuple[ast.Call, dict[str, ast.expr]]]:
        """With the local names of the function around it."""
        for node in ast.walk(self.tree):
            if isinstance(node, Functions):
                local = {**self.names, **dict(_assigned(list(ast.walk(node))))}
                local |= dict.fromkeys((a.arg for a in node.args.args), ast.Constant(None))
                yield from ((n, local) for n in _own(node) if isinstance(n, ast.Call))


def catalogue(package: Path) -> tuple[list[Entry], int]:
    """Entries in the order of the page, and how many places only pass words on."""
    trees = {p: ast.parse(p.read_text("utf-8")) for p in sorted(package.rglob("*.py"))}
    numbers = {n: v for tree in trees.values() for n, v in _numbers(tree)}
    kinds = {name: name for name in WHEN} | {"Bad": "InputError", "Failure": "HostFailed"}
    kinds |= {c: kinds[base] for tree in trees.values() for c, base in _classes(tree, kinds)}
    found: dict[Entry, None] = {}
    passed = 0
    for path, tree in trees.items():
        if path == package / "errors.py":
            continue
        place = path.relative_to(package).as_posix()
        area = next(title for start, title in _AREAS if place.startswith(start))
        for call, local in Source(tree, numbers).calls():
            name = call.func.id if isinstance(call.func, ast.Name) else ""
            if name not in kinds or not call.args and not call.keywords:
                continue
            entry = _entry(name, kinds[name], area, call, local, numbers)
            if re.search(r"[a-z]{2}", entry.what.replace("FILE:LINE", "")):
                found[entry] = None
            else:
                passed += 1
    order = list(WHEN)
    titles = [title for _, title in _AREAS]
    return sorted(
        found, key=lambda e: (order.index(e.kind), e.code, titles.index(e.area), e.what)
    ), passed


def page(found: list[Entry], passed: int) -> str:
    lines = [START]
    for kind, when in WHEN.items():
        codes = ", ".join(sorted({e.code for e in found if e.kind == kind}))
        if codes:
            lines.append(f"| {codes} | [{kind}](#{kind.lower()}) | {when} |\n")
    lines.append(
        f"\n{len(found)} errors. "
        f"{passed} further places pass on what a host, an index or a program said.\n"
    )
    for kind, when in WHEN.items():
        own = [e for e in found if e.kind == kind]
        if own:
            lines += _section(kind, when, own)
    return "".join(lines)


def _section(kind: str, when: str, own: list[Entry]) -> Iterator[str]:
    codes = sorted({e.code for e in own})
    many = "Exit code" if len(codes) == 1 else "Exit codes"
    yield f"\n## {kind}\n\n{many} {', '.join(codes)}: {when}.\n\n"
    yield f"```text\n{_example(own)}```\n"
    for code in codes:
        for area in dict.fromkeys(e.area for e in own if e.code == code):
            more = f" (exit code {code})" if len(codes) > 1 else ""
            yield f"\n### {area}{more}\n\n| slug | what | why | try |\n|---|---|---|---|\n"
            for e in own:
                if (e.area, e.code) == (area, code):
                    cells = (_cell(part) for part in (e.slug, e.what, e.why, e.hint))
                    yield f"| {' | '.join(cells)} |\n"


def _cell(text: str) -> str:
    lines = (
        " ".join(line.replace("|", "\\|").replace("`", "'").split()) for line in text.splitlines()
    )
    return "<br>".join(f"`{line}`" for line in lines if line)


def _example(own: list[Entry]) -> str:
    """As the command line prints it: the first error with all its parts."""

    def lacks(entry: Entry) -> int:
        text = f"{entry.what} {entry.why} {entry.hint}"
        unknown = [word for word in _ANY.findall(text) if word not in _SAMPLES]
        parts = (entry.what, entry.why, entry.hint)
        return 3 * sum(not part for part in parts) + len(unknown) + 3 * text.count("...")

    best = min(own, key=lacks)
    text = f"ipexctl: {best.what}\n"
    for label, part in (("why", best.why), ("try", best.hint)):
        for i, line in enumerate(part.splitlines()):
            text += f"  {label + ':' if i == 0 else '':5}{line}\n"
    return _ANY.sub(lambda m: _SAMPLES.get(m[0], m[0]), text)


# --- reading one place ---------------------------------------------------------------------------


def _entry(
    name: str, kind: str, area: str, call: ast.Call,
    local: Mapping[str, ast.expr], numbers: Mapping[str, int],
) -> Entry:  # fmt: skip
    given = {k.arg: k.value for k in call.keywords if k.arg}
    parts = dict(zip(("what", "why", "hint", "slug"), call.args, strict=False)) | given
    what, why, hint = (
        words(parts[p], local).strip() if p in parts else "" for p in ("what", "why", "hint")
    )
    what = {"Bad": "FILE:LINE:COLUMN: ", "Failure": "HOST: "}.get(name, "") + what
    code = str(getattr(errors, kind).exit_code) if kind != "RunFailed" else "120"
    if "exit_code" in given:
        code = _number(given["exit_code"], numbers) or "120-125"
    slug = words(parts["slug"], local) if "slug" in parts else getattr(errors, kind).slug
    return Entry(kind, code, area, what, why, hint, slug)


def words(node: ast.AST, local: Mapping[str, ast.expr], depth: int = 0) -> str:
    """The text of an expression, with a word in capitals for each value."""
    if depth > 6:
        return "..."
    match node:
        case ast.Constant(value=None):
            return ""
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(words(v, local, depth) for v in values)
        case ast.FormattedValue(value=value):
            return _inside(value, local, depth)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return words(left, local, depth) + words(right, local, depth)
        case ast.BinOp(left=left, op=ast.Mod(), right=right):
            filled = iter(right.elts if isinstance(right, ast.Tuple) else [right])
            text = words(left, local, depth)
            return re.sub(
                r"%[-0-9.]*[a-z]", lambda m: _inside(next(filled, left), local, depth), text
            )
        case ast.IfExp(body=body, orelse=orelse):
            return words(body, local, depth + 1) or words(orelse, local, depth + 1)
        case ast.BoolOp(values=values):
            return next(filter(None, (words(v, local, depth + 1) for v in values)), "")
        case ast.Name(id=name) if isinstance(local.get(name), ast.AST) and not _blank(local[name]):
            return words(local[name], {**local, name: ast.Constant(None)}, depth + 1)
        case ast.Call(func=ast.Attribute(attr="format", value=ast.Constant(value=str(text)))):
            return re.sub(r"\{\w*\}", "...", text)
        case ast.Call() if login := _login(node, local, depth):
            return login
    return _value(node)


def _inside(node: ast.expr, local: Mapping[str, ast.expr], depth: int) -> str:
    """A value inside of a text: only what is text itself is spelled out."""
    if isinstance(node, ast.IfExp | ast.Constant | ast.JoinedStr):
        return words(node, local, depth + 1)
    if isinstance(node, ast.Call) and (login := _login(node, local, depth)):
        return login
    return _value(node)


def _login(call: ast.Call, local: Mapping[str, ast.expr], depth: int) -> str:
    match call.func:
        case ast.Attribute(value=ast.Name(id="login_command"), attr=name):
            command = [words(a, local, depth + 1) for a in call.args[1:2]]
            return _LOGINS.get(name) or " ".join(["ssh", "HOST", *command])
    return ""


def _value(node: ast.AST) -> str:
    match node:
        case ast.Attribute(attr="name", value=ast.Name(id=owner)) if owner in ("host", "answer"):
            return "HOST"
        case ast.Attribute(attr="name", value=ast.Attribute(attr="host" | "answer" | "given")):
            return "HOST"
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return _WORDS.get(name, name.strip("_").upper())
        case ast.Subscript(value=value):
            return _value(value)
        case ast.Call(func=ast.Name(id="fold")):
            return "HOSTS"
        case ast.Call(func=ast.Name(id="reason_of")):
            return "REASON"
        case ast.Call(func=ast.Name(id="did_you_mean")):
            return " (did you mean NAME?)"
        case ast.Call(func=ast.Name(id="len")) | ast.BinOp():
            return "N"
        case ast.Call(func=ast.Attribute(attr="cwd")):
            return "FOLDER"
        case ast.Call(args=[ast.Name() | ast.Attribute() as first, *_]):
            return _value(first)
    return "..."


def _blank(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _assigned(nodes: list[ast.AST] | list[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    """Names that are set to a text."""
    for node in nodes:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target, value = node.targets[0], node.value
            texts = ast.Constant | ast.JoinedStr | ast.IfExp | ast.BinOp
            if isinstance(target, ast.Name) and isinstance(value, texts) and _is_text(value):
                yield target.id, value


def _is_text(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=value):
            return isinstance(value, str)
        case ast.IfExp(body=body, orelse=orelse):
            return _is_text(body) or _is_text(orelse)
        case ast.BinOp(left=left):
            return _is_text(left)
    return isinstance(node, ast.JoinedStr)


def _own(function: Functions) -> Iterator[ast.AST]:
    """The nodes of a function without those of functions in it."""
    todo: list[ast.AST] = list(function.body)
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, Functions):
            todo += ast.iter_child_nodes(node)


def _numbers(tree: ast.Module) -> Iterator[tuple[str, int]]:
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=int(value))):
                yield name, value


def _number(node: ast.expr, numbers: Mapping[str, int]) -> str:
    match node:
        case ast.Constant(value=int(value)):
            return str(value)
        case ast.Name(id=name) | ast.Attribute(attr=name) if name in numbers:
            return str(numbers[name])
    return ""


def _classes(tree: ast.Module, kinds: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Further classes of the tree, under the one they are made of."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name, bases=[ast.Name(id=base), *_]) if name not in kinds:
                if base in WHEN:
                    yield name, base
