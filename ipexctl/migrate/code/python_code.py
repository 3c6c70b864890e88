"""The text of a Python file -> what of the rules is in it, with edits by position."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import replace

from ipexctl.migrate.code.launcher_command import Settings, Tables, ipexctl_command, line_of
from ipexctl.migrate.code.migrate_finding import Command, Edit, Finding, Lines, Reading, found
from ipexctl.migrate.code.rules import Rule
from ipexctl.user_code.call_arguments import command_words, text_of
from ipexctl.user_code.dotted_names import dotted, imported_names
from ipexctl.user_code.frameworks import framework_class, is_trainer_arguments
from ipexctl.user_code.source_reader import STARTS_A_PROCESS, assigned_once
from ipexctl.user_code.typed_word import as_typed

_WRITES = ("os.environ.setdefault", "os.putenv")
_VERSION_WORDS = ("version", "hasattr", "signature", "fields(")
_UNKNOWN = re.compile(r"[?{}]")
_NEAR = 1000  # letters that are looked at around a place
_WORD = re.compile(r"""(?P<quote>["'])(?P<text>[\w.-]*)(?P=quote)""")


def read_python(text: str, tables: Tables) -> Reading:
    try:
        tree = ast.parse(text)
        reader = _Reader(tree, text, tables)
        findings = sorted(reader.findings(), key=lambda f: (f.line, f.rule.id))
    except SyntaxError as e:
        version = ".".join(map(str, sys.version_info[:2]))
        why = f"line {e.lineno or 1}: Python {version} of this machine cannot read it: {e.msg}"
        return Reading(unread=why)
    except (ValueError, RecursionError, MemoryError) as e:
        return Reading(unread=f"it cannot be parsed: {e}")
    return Reading(tuple(dict.fromkeys(findings)), tuple(reader.commands()))


class _Reader:
    def __init__(self, tree: ast.Module, text: str, tables: Tables) -> None:
        self.tree, self.text, self.tables, self.rules = tree, text, tables, tables.rules
        self.lines = Lines(text)
        self.names = imported_names(tree)
        self.fixed = assigned_once(tree)
        self.parents = {c: p for p in ast.walk(tree) for c in ast.iter_child_nodes(p)}
        self.bases = [
            (node.name, dotted(base, self.names))
            for node in ast.walk(tree)
            if isinstance(node, ast.ClassDef)
            for base in node.bases
        ]
        replaced = {f.edit.start for f in self._of_calls() if f.edit}
        texts = (n for n in ast.walk(tree) if isinstance(n, ast.Constant) and text_of(n))
        self.texts = {text_of(n) for n in texts if self._start(n) not in replaced}
        self.xpu = any("xpu" in text for text in self.texts) or any(
            isinstance(n, ast.Attribute) and n.attr == "xpu" for n in ast.walk(tree)
        )
        self.used = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}

    def findings(self) -> Iterator[Finding]:
        optimizers = self._optimizers()
        for node in ast.walk(self.tree):
            for one in self._of(node, optimizers):
                yield replace(one, edit=None) if self._guarded(node) else one

    def commands(self) -> Iterator[Command]:
        """Launcher lines that the file starts, as far as its text has their words."""
        for node in ast.walk(self.tree):
            started = isinstance(node, ast.Call) and dotted(node.func, self.names)
            if not isinstance(node, ast.Call) or started not in STARTS_A_PROCESS:
                continue
            words = command_words(node)
            line = line_of(as_typed(words), self.tables)
            if line and line.launcher != "python" and not any(_UNKNOWN.search(w) for w in words):
                made = ipexctl_command(line, line.args, Settings(), self.tables)
                yield replace(made, line=node.lineno)

    def _of_calls(self) -> Iterator[Finding]:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call):
                target = dotted(node.func, self.names)
                found_here = [*self._strings(node, target), *self._keywords(node, target)]
                yield from [] if found_here and self._guarded(node) else found_here

    def _of(self, node: ast.AST, optimizers: frozenset[str]) -> Iterator[Finding]:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from self._import(node)
        elif isinstance(node, ast.Attribute | ast.Name):
            yield from self._name(node)
        elif isinstance(node, ast.Call):
            target = dotted(node.func, self.names)
            yield from self._strings(node, target)
            yield from self._keywords(node, target)
            yield from self._state(node, optimizers)
            if target in _WRITES and node.args:
                yield from self._variable(node, text_of(node.args[0]), node.args[1:])
        elif isinstance(node, ast.Assign):
            for place in node.targets:
                if isinstance(place, ast.Subscript) and self._is_environment(place.value):
                    yield from self._variable(node, text_of(place.slice), [node.value])

    # --- imports and names -----------------------------------------------------------------------

    def _import(self, node: ast.Import | ast.ImportFrom) -> Iterator[Finding]:
        for alias in node.names:
            module = node.module or "" if isinstance(node, ast.ImportFrom) else alias.name
            if isinstance(node, ast.ImportFrom) and node.level:
                continue
            top = module.partition(".")[0]
            whole = f"{module}.{alias.name}" if isinstance(node, ast.ImportFrom) else module
            rule = self.rules.find("import", top) or self.rules.find("import", whole)
            if not rule:
                continue
            name = top if top in rule.names else whole
            bound = alias.asname or alias.name.partition(".")[0]
            edit = self._import_removed(node) if rule.edit and self._unused(bound) else None
            yield found(rule, name, node.lineno, edit)
            if name == top:
                return  # one finding for each statement

    def _unused(self, bound: str) -> bool:
        """Does nothing in the file need what the import brings?"""
        asked = self.texts & {bound, "ccl", "ipex"}
        return bound not in self.used and not asked and not self.xpu

    def _import_removed(self, node: ast.Import | ast.ImportFrom) -> Edit | None:
        if len(node.names) > 1 and isinstance(node, ast.Import):
            return None
        start, end = self._start(node), self._end(node)
        first, last = self.lines.starts[node.lineno - 1], self.lines.end(node.end_lineno or 1)
        before, after = self.text[first:start], self.text[end:last]
        if before.strip() or (after.strip() and not after.lstrip().startswith("#")):
            return None
        body = getattr(self.parents[node], "body", [])
        if body == [node] and not isinstance(self.parents[node], ast.Module):
            return Edit(start, end, "pass")
        return Edit(first, last)

    def _name(self, node: ast.Attribute | ast.Name) -> Iterator[Finding]:
        parent = self.parents.get(node)
        if isinstance(parent, ast.Attribute) or not isinstance(node.ctx, ast.Load):
            return
        name = dotted(node, self.names)
        rule = self.rules.find("name", name)
        if not rule:
            return
        call = parent if isinstance(parent, ast.Call) and parent.func is node else None
        written = name.replace("intel_extension_for_pytorch", "ipex")
        edit = self._renamed_call(call, rule) if call and rule.edit else None
        one = found(rule, written, node.lineno, edit)
        yield replace(one, lines=tuple(_filled(rule, call))) if call else one

    def _renamed_call(self, call: ast.Call, rule: Rule) -> Edit | None:
        """The new name takes its own first argument, so others go by keyword."""
        if call.args:
            return None
        start, end = self._start(call.func), self._end(call.func)
        opened = re.compile(r"\s*\(\s*").match(self.text, end)
        if not opened or not isinstance(call.func, ast.Attribute | ast.Name):
            return None
        more = ", " if call.keywords else ""
        # an imported `autocast` would leave torch itself without an import
        if "torch" not in self.names or "\n" in opened[0]:
            return None
        return Edit(start, opened.end(), rule.to + more)

    # --- calls -----------------------------------------------------------------------------------

    def _strings(self, call: ast.Call, target: str) -> Iterator[Finding]:
        last = call.func.attr if isinstance(call.func, ast.Attribute) else target
        for rule in self.rules.of("string"):
            if last.rpartition(".")[2] not in rule.calls or not self._fits(call, target, last):
                continue
            given = [k.value for k in call.keywords if k.arg in rule.names]
            if last.rpartition(".")[2] == "init_process_group":
                given += call.args[:1]
            for value in given:
                if isinstance(value, ast.Name):
                    value = self.fixed.get(value.id, value)
                if text_of(value) == rule.value:
                    edit = self._other_text(value, rule) if rule.edit else None
                    yield found(rule, rule.value, value.lineno, edit)

    def _fits(self, call: ast.Call, target: str, last: str) -> bool:
        """`compile` is torch's; an option of a parser is one that names a backend."""
        if last in ("add_argument", "option"):
            return any("backend" in text_of(word) for word in call.args)
        return last != "compile" or target == "torch.compile"

    def _keywords(self, call: ast.Call, target: str) -> Iterator[Finding]:
        given = {k.arg: k for k in call.keywords if k.arg}
        trainer = is_trainer_arguments(framework_class(self.bases, target))
        for name, keyword in given.items():
            rule = self.rules.find("keyword", name) if not trainer else None
            if rule and target in rule.calls:
                yield found(rule, name, keyword.lineno)
            if not trainer:
                continue
            value = keyword.value.value if isinstance(keyword.value, ast.Constant) else None
            rule = self.rules.argument(name, value)
            if not rule:
                continue
            written = f'{name}="{rule.value}"' if rule.value else name
            edit = None if rule.to in given else self._keyword_edit(keyword, rule)
            one = found(rule, written, keyword.lineno, edit)
            use = rule.keyword or rule.use
            if use.endswith("=True"):
                use = use.removesuffix("True") + ast.unparse(keyword.value)
            yield replace(one, use=use)

    def _keyword_edit(self, keyword: ast.keyword, rule: Rule) -> Edit | None:
        start, end = self._start(keyword), self._end(keyword)
        if rule.edit == "value":
            return self._other_text(keyword.value, rule)
        if rule.edit == "rename":
            return Edit(start, start + len(keyword.arg or ""), rule.to)
        return self._removed(start, end) if rule.edit == "remove" else None

    def _removed(self, start: int, end: int) -> Edit | None:
        """One argument, with its comma, and with its line if that has nothing else."""
        after = re.compile(r"\s*,[ \t]*").match(self.text, end)
        if not after:
            before = self.text[max(0, start - _NEAR) : start]
            comma = before.rstrip()
            return Edit(start - len(before) + len(comma) - comma.endswith(","), end)
        line = self.lines.line_of(start)
        first, last = self.lines.starts[line - 1], self.lines.end(line)
        if not self.text[first:start].strip() and not self.text[after.end() : last].strip():
            return Edit(first, max(last, after.end()))
        return Edit(start, after.end()) if "\n" not in after[0] else None

    def _other_text(self, node: ast.expr, rule: Rule) -> Edit | None:
        start, end = self._start(node), self._end(node)
        plain = _WORD.fullmatch(self.text[start:end])
        if not plain or plain["text"] != rule.value:
            return None
        return Edit(start, end, f"{plain['quote']}{rule.to}{plain['quote']}")

    # --- optimizers and variables ----------------------------------------------------------------

    def _optimizers(self) -> frozenset[str]:
        """Names that ipex.optimize gives an optimizer."""
        return frozenset(
            ast.unparse(target.elts[1])
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
            and dotted(node.value.func, self.names).endswith("_for_pytorch.optimize")
            for target in node.targets
            if isinstance(target, ast.Tuple | ast.List) and len(target.elts) == 2
        )  # fmt: skip

    def _state(self, call: ast.Call, optimizers: frozenset[str]) -> Iterator[Finding]:
        if not isinstance(call.func, ast.Attribute):
            return
        rule, owner = self.rules.find("state", call.func.attr), ast.unparse(call.func.value)
        if rule and owner in optimizers:
            yield found(rule, f"{owner}.{call.func.attr}", call.lineno)

    def _is_environment(self, node: ast.expr) -> bool:
        return dotted(node, self.names) == "os.environ"

    def _variable(self, node: ast.AST, name: str, values: list[ast.expr]) -> Iterator[Finding]:
        rule = self.rules.find("variable", name, text_of(values[0]) if values else "")
        if rule:
            yield found(rule, name, getattr(node, "lineno", 1))

    # --- places ----------------------------------------------------------------------------------

    def _guarded(self, node: ast.AST) -> bool:
        """Behind a look at a version, or where a failure is caught: the file has planned for it."""
        while (parent := self.parents.get(node)) is not None:
            if isinstance(parent, ast.Try) and parent.handlers:
                return True
            if isinstance(parent, ast.If) and node is not parent.test:
                test = ast.unparse(parent.test)
                if any(word in test for word in _VERSION_WORDS):
                    return True
            node = parent
        return False

    def _start(self, node: ast.AST) -> int:
        return self.lines.offset(getattr(node, "lineno", 1), getattr(node, "col_offset", 0))

    def _end(self, node: ast.AST) -> int:
        line, column = getattr(node, "end_lineno", 1), getattr(node, "end_col_offset", 0)
        return self.lines.offset(line, column)


def _filled(rule: Rule, call: ast.Call) -> Iterator[str]:
    """The rule's lines with what the call says; not those for which it says nothing."""
    given = {k.arg: ast.unparse(k.value) for k in call.keywords if k.arg}
    model = ast.unparse(call.args[0]) if call.args else given.get("model", "model")
    for line in rule.lines:
        if "{dtype}" not in line or given.get("dtype", "torch.float32") != "torch.float32":
            yield line.format(model=model, dtype=given.get("dtype", ""))
