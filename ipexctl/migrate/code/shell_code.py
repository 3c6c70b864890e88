"""Find uses of the discontinued stack in shell text, and convert its launcher lines."""

from __future__ import annotations

import bisect
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from ipexctl.migrate.code.launcher_command import LauncherLine, Tables, ipexctl_command, line_of
from ipexctl.quick_dataclass import dataclass
from ipexctl.user_code.frameworks import framework_class, is_trainer_arguments
from ipexctl.user_code.migration_rules import (
    LauncherRewrite,
    MigrationFinding,
    Reading,
    Rule,
    Rules,
    make_finding,
)
from ipexctl.user_code.shell_words import ShellWord, split_commands
from ipexctl.user_code.source import PythonSource

_NAME = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_REQUIREMENT = re.compile(r"[A-Za-z0-9][\w.-]*")
_SWITCHES = frozenset({"true", "false", "yes", "no", "1", "0", "t", "f", "y", "n"})


@dataclass
class ShellReader:
    """`source`: returns the script that a line names. `always`: a plain python line becomes a
    command, too."""

    tables: Tables
    source: Callable[[str], PythonSource | None] = lambda path: None
    always: bool = False

    @property
    def rules(self) -> Rules:
        return self.tables.rules

    def read(self, text: str) -> Reading:
        starts = [end.end() for end in re.finditer(r"\r\n|\r|\n", text)]
        return self.of(list(split_commands(text)), lambda at: bisect.bisect_right(starts, at) + 1)

    def of(self, parts: Sequence[Sequence[ShellWord]], place: Callable[[int], int]) -> Reading:
        """Read commands. `parts`: in order. `place`: converts an offset to a line."""
        findings, made = list[MigrationFinding](), list[LauncherRewrite]()
        exported = dict[str, ShellWord]()
        for words in parts:
            line = line_of(words, self.tables)
            findings += (replace(f, line=place(f.line)) for f in self._command(words, line))
            _remember_exports(words, exported)
            command = self._converted(line, exported) if isinstance(line, LauncherLine) else line
            if command:
                made.append(replace(command, line=place(words[0].start)))
        findings.sort(key=lambda one: one.line)
        return Reading(tuple(dict.fromkeys(findings)), tuple(made))

    # --- findings; their `line` is an offset here ------------------------------------------------

    def _command(
        self, words: Sequence[ShellWord], line: LauncherLine | LauncherRewrite | None
    ) -> Iterator[MigrationFinding]:
        first = words[0]
        if first in ("export", "declare", "setenv") or all(_NAME.match(w.raw) for w in words):
            yield from self._assignments(words)
        elif first in ("source", ".") and len(words) > 1:
            if rule := self.rules.find("command", words[1]):
                yield make_finding(rule, words[1].raw, words[0].start)
        elif "install" in words[:5]:  # pip, uv pip, python -m pip, conda
            yield from self._packages(words)
        if isinstance(line, LauncherLine):
            yield from self._variables(line)
            yield from self._launch(line.words[: line.read.start])
            yield from self._arguments(line)
        elif line:
            yield from self._launch(words)

    def _assignments(self, words: Sequence[ShellWord]) -> Iterator[MigrationFinding]:
        for word in filter(lambda word: _NAME.match(word.raw), words):
            name, _, value = word.partition("=")
            rule = self.rules.find("variable", name, value)
            if not rule and ("$(" in value or "`" in value):
                rule = self.rules.find("command", value)
            if rule:
                yield make_finding(rule, name, word.start)

    def _variables(self, line: LauncherLine) -> Iterator[MigrationFinding]:
        words = line.words[: line.read.start]
        for item in dict.fromkeys(item for one in line.read.requests for item in one.env):
            name, _, value = item.partition("=")
            rule = self.rules.find("variable", name, value)
            at = next((word.start for word in words if name in word), None) if rule else None
            if rule and at is not None:
                yield make_finding(rule, name, at)

    def _launch(self, words: Sequence[ShellWord]) -> Iterator[MigrationFinding]:
        for word in words:
            name = word.partition("=")[0]
            if rule := self.rules.find("option", name):
                yield make_finding(rule, name, word.start)
            elif rule := self.rules.find("command", posixpath.basename(word)):
                yield make_finding(rule, word, word.start)

    def _packages(self, words: Sequence[ShellWord]) -> Iterator[MigrationFinding]:
        for word in words:
            if one := find_package(self.rules, word):
                yield replace(one, line=word.start)

    # --- arguments of transformers' Trainer ------------------------------------------------------

    def _arguments(self, line: LauncherLine) -> Iterator[MigrationFinding]:
        for rule, at, _ in self._obsolete(line):
            name = line.args[at].partition("=")[0]
            written = f"{name} {rule.value}" if rule.value else name
            yield make_finding(rule, written, line.args[at].start)

    def _obsolete(self, line: LauncherLine) -> Iterator[tuple[Rule, int, int]]:
        """Yield the script's obsolete arguments: the rule, which one, and how many words it has."""
        own = self._own_options(line)
        for at, word in enumerate(line.args):
            name, sign, value = word.partition("=")
            name = name[2:].replace("-", "_")
            if not word.startswith("--") or name in own:
                continue
            after = line.args[at + 1] if at + 1 < len(line.args) else ""
            takes = not sign and bool(after) and not after.startswith("-")
            value = value if sign else after if takes else "true"
            rule = self.rules.argument(name, value)
            if rule and (self._is_trainers(line, word) or rule.id != "no-cuda"):
                yield rule, at, 2 if takes else 1

    def _own_options(self, line: LauncherLine) -> frozenset[str]:
        source = self._source(line)
        return source.options if source else frozenset()

    def _source(self, line: LauncherLine) -> PythonSource | None:
        return None if line.read.module else self.source(line.script)

    def _is_trainers(self, line: LauncherLine, word: str) -> bool:
        """Decide if TrainingArguments reads it, by the script, or else by the other arguments."""
        source = self._source(line)
        if source and not source.error:
            return any(
                is_trainer_arguments(framework_class(source.bases, name))
                for parser in source.parsers
                for name in parser.classes
            )
        others = (w.partition("=")[0][2:] for w in line.args if not w.startswith(word))
        return any(other in self.rules.trainer_arguments for other in others)

    # --- commands --------------------------------------------------------------------------------

    def _converted(
        self, line: LauncherLine, exported: Mapping[str, ShellWord]
    ) -> LauncherRewrite | None:
        changed = list(self._obsolete(line))
        if line.launcher == "python" and not changed and not self.always:
            return None
        return ipexctl_command(line, _arguments_today(line, changed), exported, self.tables)


def _remember_exports(words: Sequence[ShellWord], exported: dict[str, ShellWord]) -> None:
    for word in words[1:]:
        if words[0] == "export":
            exported[word.partition("=")[0]] = word
        elif words[0] == "unset":
            exported.pop(word, None)


def find_package(rules: Rules, text: str) -> MigrationFinding | None:
    """Return the finding for a requirement: name==version"""
    name = _REQUIREMENT.match(text)
    normal = re.sub(r"[-_.]+", "-", name[0]).lower() if name else ""
    rule = rules.find("package", normal)
    return make_finding(rule, name[0], 0) if rule and name else None


def _arguments_today(line: LauncherLine, changed: Sequence[tuple[Rule, int, int]]) -> list[str]:
    words = list[str]()
    rules = {at: (rule, count) for rule, at, count in changed}
    given, skip = set(line.args), 0
    for at, word in enumerate(line.args):
        if skip:
            skip -= 1
            continue
        if at not in rules:
            words.append(word)
            continue
        rule, count = rules[at]
        new = rule.use.split() if rule.use.startswith("--") else []
        if len(new) == 1:  # the value of the switch stays
            words += [] if new[0] in given else [new[0]]
            continue
        words += new
        skip = count - 1 if new or line.args[at + count - 1].lower() in _SWITCHES else 0
    return words
