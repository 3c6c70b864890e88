"""Find uses of the discontinued stack in Python, with edits by position."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace

from ipexctl.migrate.code.launcher_command import Settings, Tables, ipexctl_command, line_of
from ipexctl.migrate.code.migrate_finding import Command, Edit, Finding, Lines, Reading, found
from ipexctl.migrate.code.rules import Rule
from ipexctl.user_code.frameworks import framework_class, is_trainer_arguments
from ipexctl.user_code.python_file import Called, PythonFile, text_of
from ipexctl.user_code.typed_word import as_typed

_UNKNOWN = re.compile(r"[?{}]")
_NEAR = 1000  # characters searched before a place
_WORD = re.compile(r"""(?P<quote>["'])(?P<text>[\w.-]*)(?P=quote)""")


def read_python(text: str, tables: Tables) -> Reading:
    try:
        reader = _Reader(text, tables)
        findings = sorted(reader.findings(), key=lambda f: (f.line, f.rule.id))
    except SyntaxError as e:
        version = ".".join(map(str, sys.version_info[:2]))
        why = f"line {e.lineno or 1}: Python {version} of this machine cannot read it: {e.msg}"
        return Reading(unread=why)
    except (ValueError, RecursionError, MemoryError) as e:
        return Reading(unread=f"it cannot be parsed: {e}")
    return Reading(tuple(dict.fromkeys(findings)), tuple(reader.commands()))


class _Reader:
    def __init__(self, text: str, tables: Tables) -> None:
        self.text, self.tables, self.rules = text, tables, tables.rules
        self.file = PythonFile(text)
        self.lines = Lines(text)
        nodes = self.file.nodes
        self.used = {n.id for n in nodes if isinstance(n, ast.Name)}
        self.of_calls = [
            (call.node, one)
            for call in self.file.calls
            for one in (*self._strings(call), *self._keywords(call))
        ]
        replaced = {
            one.edit.start
            for node, one in self.of_calls
            if one.edit and not self.file.guarded(node)
        }
        texts = (n for n in nodes if isinstance(n, ast.Constant) and text_of(n))
        self.texts = {text_of(n) for n in texts if self._start(n) not in replaced}
        self.xpu = any("xpu" in text for text in self.texts) or any(
            isinstance(n, ast.Attribute) and n.attr == "xpu" for n in nodes
        )

    def findings(self) -> Iterator[Finding]:
        for node, one in (*self._of_names(), *self.of_calls, *self._states(), *self._variables()):
            yield replace(one, edit=None) if self.file.guarded(node) else one

    def commands(self) -> Iterator[Command]:
        """Launcher lines that the file starts, as far as its text has their words."""
        for call, words in self.file.commands():
            line = line_of(as_typed(words), self.tables)
            if line and line.launcher != "python" and not any(_UNKNOWN.search(w) for w in words):
                made = ipexctl_command(line, line.args, Settings(), self.tables)
                yield replace(made, line=call.line)

    def _of_names(self) -> Iterator[tuple[ast.AST, Finding]]:
        for node in self.file.nodes:
            if isinstance(node, ast.Import | ast.ImportFrom):
                yield from ((node, one) for one in self._import(node))
            elif isinstance(node, ast.Attribute | ast.Name):
                yield from ((node, one) for one in self._name(node))

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
        body = getattr(self.file.parents[node], "body", [])
        if body == [node] and not isinstance(self.file.parents[node], ast.Module):
            return Edit(start, end, "pass")
        return Edit(first, last)

    def _name(self, node: ast.Attribute | ast.Name) -> Iterator[Finding]:
        parent = self.file.parents.get(node)
        if isinstance(parent, ast.Attribute) or not isinstance(node.ctx, ast.Load):
            return
        name = self.file.dotted(node)
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
        if "torch" not in self.file.aliases or "\n" in opened[0]:
            return None
        return Edit(start, opened.end(), rule.to + more)

    # --- calls -----------------------------------------------------------------------------------

    def _strings(self, call: Called) -> Iterator[Finding]:
        for rule in self.rules.of("string"):
            if call.name not in rule.calls or not _takes_a_backend(call):
                continue
            given = [value for name, value in call.keywords.items() if name in rule.names]
            if call.name == "init_process_group":
                given += call.node.args[:1]
            for value in map(self.file.value_of, given):
                if text_of(value) == rule.value:
                    edit = self._other_text(value, rule) if rule.edit else None
                    yield found(rule, rule.value, value.lineno, edit)

    def _keywords(self, call: Called) -> Iterator[Finding]:
        trainer = is_trainer_arguments(framework_class(self.file.bases, call.target))
        for keyword in call.node.keywords:
            name = keyword.arg or ""
            if trainer:
                yield from self._trainer_argument(keyword, call.keywords)
            elif name and (rule := self.rules.find("keyword", name)) and call.target in rule.calls:
                yield found(rule, name, keyword.lineno)

    def _trainer_argument(
        self, keyword: ast.keyword, given: Mapping[str, ast.expr]
    ) -> Iterator[Finding]:
        value = keyword.value.value if isinstance(keyword.value, ast.Constant) else None
        rule = self.rules.argument(keyword.arg or "", value)
        if not rule:
            return
        written = f'{keyword.arg}="{rule.value}"' if rule.value else keyword.arg or ""
        edit = None if rule.to in given else self._keyword_edit(keyword, rule)
        use = rule.keyword or rule.use
        if use.endswith("=True"):
            use = use.removesuffix("True") + ast.unparse(keyword.value)
        yield replace(found(rule, written, keyword.lineno, edit), use=use)

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

    def _states(self) -> Iterator[tuple[ast.AST, Finding]]:
        """Calls that save or load the state of an optimizer of ipex.optimize."""
        optimizers = {
            ast.unparse(target.elts[1])
            for _, target, value in self.file.assignments()
            if isinstance(value, ast.Call)
            and self.file.dotted(value.func).endswith("_for_pytorch.optimize")
            and isinstance(target, ast.Tuple | ast.List)
            and len(target.elts) == 2
        }
        for call in self.file.calls if optimizers else ():
            rule = self.rules.find("state", call.name)
            if rule and isinstance(call.node.func, ast.Attribute):
                owner = ast.unparse(call.node.func.value)
                if owner in optimizers:
                    yield call.node, found(rule, f"{owner}.{call.name}", call.line)

    def _variables(self) -> Iterator[tuple[ast.AST, Finding]]:
        for one in self.file.variables():
            if rule := self.rules.find("variable", one.name, text_of(one.value)):
                yield one.node, found(rule, one.name, one.node.lineno)

    # --- places ----------------------------------------------------------------------------------

    def _start(self, node: ast.AST) -> int:
        return self.lines.offset(getattr(node, "lineno", 1), getattr(node, "col_offset", 0))

    def _end(self, node: ast.AST) -> int:
        line, column = getattr(node, "end_lineno", 1), getattr(node, "end_col_offset", 0)
        return self.lines.offset(line, column)


def _takes_a_backend(call: Called) -> bool:
    """`compile` is torch's; an option of a parser is one that names a backend."""
    if call.name in ("add_argument", "option"):
        return any("backend" in text_of(word) for word in call.node.args)
    return call.name != "compile" or call.target == "torch.compile"


def _filled(rule: Rule, call: ast.Call) -> Iterator[str]:
    """The rule's lines filled in from the call, without those that need a value it lacks."""
    given = {k.arg: ast.unparse(k.value) for k in call.keywords if k.arg}
    model = ast.unparse(call.args[0]) if call.args else given.get("model", "model")
    for line in rule.lines:
        if "{dtype}" not in line or given.get("dtype", "torch.float32") != "torch.float32":
            yield line.format(model=model, dtype=given.get("dtype", ""))
