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
        starts = [line_break.end() for line_break in re.finditer(r"\r\n|\r|\n", text)]
        return self.read_commands(
            list(split_commands(text)), lambda at: bisect.bisect_right(starts, at) + 1
        )

    def read_commands(
        self, commands: Sequence[Sequence[ShellWord]], place: Callable[[int], int]
    ) -> Reading:
        """Read commands. `commands`: in order. `place`: converts an offset to a line."""
        findings, rewrites = list[MigrationFinding](), list[LauncherRewrite]()
        exported = dict[str, ShellWord]()
        for words in commands:
            line = line_of(words, self.tables)
            unplaced = self._find_in_command(words, line)
            findings += (replace(finding, line=place(finding.line)) for finding in unplaced)
            _remember_exports(words, exported)
            command = self._convert_line(line, exported) if isinstance(line, LauncherLine) else line
            if command:
                rewrites.append(replace(command, line=place(words[0].start)))
        findings.sort(key=lambda finding: finding.line)
        return Reading(tuple(dict.fromkeys(findings)), tuple(rewrites))

    # --- findings; their `line` is an offset here ------------------------------------------------

    def _find_in_command(
        self, words: Sequence[ShellWord], line: LauncherLine | LauncherRewrite | None
    ) -> Iterator[MigrationFinding]:
        """Yield the discontinued names in the words of one command."""
        first = words[0]
        if first in ("export", "declare", "setenv") or all(_NAME.match(word.raw) for word in words):
            yield from self._find_assignments(words)
        elif first in ("source", ".") and len(words) > 1:
            if rule := self.rules.find("command", words[1]):
                yield make_finding(rule, words[1].raw, words[0].start)
        elif "install" in words[:5]:  # pip, uv pip, python -m pip, conda
            yield from self._find_packages(words)
        if isinstance(line, LauncherLine):
            yield from self._find_variables(line)
            yield from self._find_options(line.words[: line.read.start])
            yield from self._find_arguments(line)
        elif line:
            yield from self._find_options(words)

    def _find_assignments(self, words: Sequence[ShellWord]) -> Iterator[MigrationFinding]:
        for word in filter(lambda word: _NAME.match(word.raw), words):
            name, _, value = word.partition("=")
            rule = self.rules.find("variable", name, value)
            if not rule and ("$(" in value or "`" in value):
                rule = self.rules.find("command", value)
            if rule:
                yield make_finding(rule, name, word.start)

    def _find_variables(self, line: LauncherLine) -> Iterator[MigrationFinding]:
        words = line.words[: line.read.start]
        for item in dict.fromkeys(item for request in line.read.requests for item in request.env):
            name, _, value = item.partition("=")
            rule = self.rules.find("variable", name, value)
            start = next((word.start for word in words if name in word), None) if rule else None
            if rule and start is not None:
                yield make_finding(rule, name, start)

    def _find_options(self, words: Sequence[ShellWord]) -> Iterator[MigrationFinding]:
        for word in words:
            name = word.partition("=")[0]
            if rule := self.rules.find("option", name):
                yield make_finding(rule, name, word.start)
            elif rule := self.rules.find("command", posixpath.basename(word)):
                yield make_finding(rule, word, word.start)

    def _find_packages(self, words: Sequence[ShellWord]) -> Iterator[MigrationFinding]:
        for word in words:
            if finding := find_package(self.rules, word):
                yield replace(finding, line=word.start)

    # --- arguments of transformers' Trainer ------------------------------------------------------

    def _find_arguments(self, line: LauncherLine) -> Iterator[MigrationFinding]:
        for rule, index, _ in self._obsolete_arguments(line):
            name = line.args[index].partition("=")[0]
            written = f"{name} {rule.value}" if rule.value else name
            yield make_finding(rule, written, line.args[index].start)

    def _obsolete_arguments(self, line: LauncherLine) -> Iterator[tuple[Rule, int, int]]:
        """Yield the script's obsolete arguments: the rule, which one, and how many words it has."""
        script_options = self._own_options(line)
        for index, word in enumerate(line.args):
            name, sign, value = word.partition("=")
            name = name[2:].replace("-", "_")
            if not word.startswith("--") or name in script_options:
                continue
            next_word = line.args[index + 1] if index + 1 < len(line.args) else ""
            takes_value = not sign and bool(next_word) and not next_word.startswith("-")
            value = value if sign else next_word if takes_value else "true"
            rule = self.rules.find_argument(name, value)
            if rule and (self._is_trainers(line, word) or rule.id != "no-cuda"):
                yield rule, index, 2 if takes_value else 1

    def _own_options(self, line: LauncherLine) -> frozenset[str]:
        source = self._read_script(line)
        return source.options if source else frozenset()

    def _read_script(self, line: LauncherLine) -> PythonSource | None:
        return None if line.read.is_module else self.source(line.script)

    def _is_trainers(self, line: LauncherLine, word: str) -> bool:
        """Decide if TrainingArguments reads the argument: by the script, else by the others."""
        source = self._read_script(line)
        if source and not source.error:
            return any(
                is_trainer_arguments(framework_class(source.bases, name))
                for parser in source.parsers
                for name in parser.classes
            )
        options = (arg.partition("=")[0][2:] for arg in line.args if not arg.startswith(word))
        return any(option in self.rules.trainer_arguments for option in options)

    # --- commands --------------------------------------------------------------------------------

    def _convert_line(
        self, line: LauncherLine, exported: Mapping[str, ShellWord]
    ) -> LauncherRewrite | None:
        obsolete = list(self._obsolete_arguments(line))
        if line.launcher == "python" and not obsolete and not self.always:
            return None
        return ipexctl_command(line, _arguments_today(line, obsolete), exported, self.tables)


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


def _arguments_today(line: LauncherLine, obsolete: Sequence[tuple[Rule, int, int]]) -> list[str]:
    """Return the arguments of the script with obsolete ones replaced or left out."""
    words = list[str]()
    rules = {index: (rule, count) for rule, index, count in obsolete}
    args, skip = set(line.args), 0
    for index, word in enumerate(line.args):
        if skip:
            skip -= 1
            continue
        if index not in rules:
            words.append(word)
            continue
        rule, count = rules[index]
        replacement = rule.use.split() if rule.use.startswith("--") else []
        if len(replacement) == 1:  # the value of the switch stays
            words += [] if replacement[0] in args else [replacement[0]]
            continue
        words += replacement
        skip = count - 1 if replacement or line.args[index + count - 1].lower() in _SWITCHES else 0
    return words
