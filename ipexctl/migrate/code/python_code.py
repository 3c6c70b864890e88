"""Find uses of the discontinued stack in Python."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import replace

from ipexctl.migrate.code.launcher_command import LauncherLine, Tables, ipexctl_command, line_of
from ipexctl.user_code.frameworks import framework_class, is_trainer_arguments
from ipexctl.user_code.migration_rules import (
    LauncherRewrite,
    MigrationFinding,
    Reading,
    Rule,
    make_finding,
)
from ipexctl.user_code.python_file import Called, PythonFile, text_of
from ipexctl.user_code.shell_words import as_typed

_UNKNOWN = re.compile(r"[?{}]")


def read_python(text: str, tables: Tables) -> Reading:
    try:
        reader = _Reader(text, tables)
        findings = sorted(reader.find_uses(), key=lambda finding: (finding.line, finding.rule.id))
    except SyntaxError as e:
        version = ".".join(map(str, sys.version_info[:2]))
        why = f"line {e.lineno or 1}: Python {version} of this machine cannot read it: {e.msg}"
        return Reading(unread=why)
    except (ValueError, RecursionError, MemoryError) as e:
        return Reading(unread=f"it cannot be parsed: {e}")
    return Reading(tuple(dict.fromkeys(findings)), tuple(reader.find_launches()))


class _Reader:
    def __init__(self, text: str, tables: Tables) -> None:
        self.tables, self.rules = tables, tables.rules
        self.file = PythonFile(text)

    def find_uses(self) -> Iterator[MigrationFinding]:
        """Yield discontinued imports, names, strings, keywords and environment variables."""
        for node in self.file.nodes:
            if isinstance(node, ast.Import | ast.ImportFrom):
                yield from self._find_imports(node)
            elif isinstance(node, ast.Attribute | ast.Name):
                yield from self._find_names(node)
        for call in self.file.calls:
            yield from self._find_strings(call)
            yield from self._find_keywords(call)
        for variable in self.file.find_variables():
            if rule := self.rules.find("variable", variable.name, text_of(variable.value)):
                yield make_finding(rule, variable.name, variable.node.lineno)

    def find_launches(self) -> Iterator[LauncherRewrite]:
        """Yield launcher lines that the file starts, as far as the source has their words."""
        for call, words in self.file.find_commands():
            line = line_of(as_typed(words), self.tables)
            if (
                isinstance(line, LauncherLine)
                and line.launcher != "python"
                and not any(_UNKNOWN.search(word) for word in words)
            ):
                rewrite = ipexctl_command(line, line.args, {}, self.tables)
                yield replace(rewrite, line=call.line)

    # --- imports and names -----------------------------------------------------------------------

    def _find_imports(self, node: ast.Import | ast.ImportFrom) -> Iterator[MigrationFinding]:
        for alias in node.names:
            module = node.module or "" if isinstance(node, ast.ImportFrom) else alias.name
            if isinstance(node, ast.ImportFrom) and node.level:
                continue
            top = module.partition(".")[0]
            full_name = f"{module}.{alias.name}" if isinstance(node, ast.ImportFrom) else module
            rule = self.rules.find("import", top) or self.rules.find("import", full_name)
            if not rule:
                continue
            name = top if top in rule.names else full_name
            yield make_finding(rule, name, node.lineno)
            if name == top:
                return  # one finding for each statement

    def _find_names(self, node: ast.Attribute | ast.Name) -> Iterator[MigrationFinding]:
        parent = self.file.parents.get(node)
        if isinstance(parent, ast.Attribute) or not isinstance(node.ctx, ast.Load):
            return
        name = self.file.dotted_name(node)
        if rule := self.rules.find("name", name):
            finding = make_finding(
                rule, name.replace("intel_extension_for_pytorch", "ipex"), node.lineno
            )
            call = parent if isinstance(parent, ast.Call) and parent.func is node else None
            yield replace(finding, lines=tuple(_filled_lines(rule, call))) if call else finding

    # --- calls -----------------------------------------------------------------------------------

    def _find_strings(self, call: Called) -> Iterator[MigrationFinding]:
        for rule in self.rules.rules_of("string"):
            if call.name not in rule.calls or not _takes_a_backend(call):
                continue
            arguments = [value for name, value in call.keywords.items() if name in rule.names]
            if call.name == "init_process_group":
                arguments += call.node.args[:1]
            for value in map(self.file.value_of, arguments):
                if text_of(value) == rule.value:
                    yield make_finding(rule, rule.value, value.lineno)

    def _find_keywords(self, call: Called) -> Iterator[MigrationFinding]:
        trainer = is_trainer_arguments(framework_class(self.file.bases, call.target))
        for keyword in call.node.keywords:
            name = keyword.arg or ""
            if trainer:
                yield from self._trainer_argument(keyword)
            elif name and (rule := self.rules.find("keyword", name)) and call.target in rule.calls:
                yield make_finding(rule, name, keyword.lineno)

    def _trainer_argument(self, keyword: ast.keyword) -> Iterator[MigrationFinding]:
        value = keyword.value.value if isinstance(keyword.value, ast.Constant) else None
        rule = self.rules.find_argument(keyword.arg or "", value)
        if not rule:
            return
        argument = f'{keyword.arg}="{rule.value}"' if rule.value else keyword.arg or ""
        use = rule.keyword or rule.use
        if use.endswith("=True"):
            use = use.removesuffix("True") + ast.unparse(keyword.value)
        yield replace(make_finding(rule, argument, keyword.lineno), use=use)


def _takes_a_backend(call: Called) -> bool:
    """Exclude other functions: `compile` must be torch's, a parser's option must name a backend."""
    if call.name in ("add_argument", "option"):
        return any("backend" in text_of(word) for word in call.node.args)
    return call.name != "compile" or call.target == "torch.compile"


def _filled_lines(rule: Rule, call: ast.Call) -> Iterator[str]:
    """Yield the rule's lines filled in from the call, without those that need a missing value."""
    keywords = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords if keyword.arg}
    model = ast.unparse(call.args[0]) if call.args else keywords.get("model", "model")
    for line in rule.lines:
        if "{dtype}" not in line or keywords.get("dtype", "torch.float32") != "torch.float32":
            yield line.format(model=model, dtype=keywords.get("dtype", ""))
