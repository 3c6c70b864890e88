"""Find uses of the discontinued stack in shell text, and convert its launcher lines."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace

from ipexctl.migrate.code.launcher_command import Line, Settings, Tables, ipexctl_command, line_of
from ipexctl.migrate.code.migrate_finding import Command, Edit, Finding, Lines, Reading, found
from ipexctl.migrate.code.rules import Rule, Rules
from ipexctl.quick_dataclass import dataclass
from ipexctl.user_code.frameworks import framework_class, is_trainer_arguments
from ipexctl.user_code.launchers.line_request import LineRequest, Refuse
from ipexctl.user_code.launchers.pasted_line import read_options
from ipexctl.user_code.shell_words import commands
from ipexctl.user_code.source import Source
from ipexctl.user_code.typed_word import Word

_NAME = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_SBATCH = re.compile(r"^#SBATCH[ \t]+(.*)", re.MULTILINE)
_NEAR = 1000  # characters searched before a word
_REQUIREMENT = re.compile(r"[A-Za-z0-9][\w.-]*")


@dataclass(frozen=True)
class Around:
    """The other files that a line names: its script, its Accelerate configuration."""

    source: Callable[[str], Source | None] = lambda path: None
    config: Callable[[str, Refuse], LineRequest | None] = lambda path, refuse: None


@dataclass
class ShellReader:
    """`edits`: whether --write can change the text. `launcher`: what starts a plain python line.
    `always`: such a line becomes a command, too. `job`: what the lines are part of."""

    tables: Tables
    around: Around = field(default_factory=Around)
    edits: bool = True
    always: bool = False
    launcher: str = ""
    job: LineRequest | None = None

    @property
    def rules(self) -> Rules:
        return self.tables.rules

    def read(
        self, text: str, place: Callable[[int], int] | None = None,
        variables: Mapping[str, Word] | None = None,
    ) -> Reading:  # fmt: skip
        batch = _SBATCH.findall(text)
        job = replace(self, job=self._of_batch(batch)) if batch else self
        return job.of(
            list(commands(text)), place or Lines(text).line_of, text, variables,
            in_job=bool(batch),
        )  # fmt: skip

    def _of_batch(self, lines: Sequence[str]) -> LineRequest:
        """What the #SBATCH lines say of ranks and hosts; the rest is Slurm's."""
        words = [word for line in lines for part in commands(line) for word in part]
        request = read_options("srun", words, self.tables.launchers, lambda *_: None)
        return LineRequest("#SBATCH", request.n, request.ppn, request.nodes, default_ppn=1)

    def of(
        self, parts: Sequence[Sequence[Word]], place: Callable[[int], int], text: str = "",
        variables: Mapping[str, Word] | None = None, in_job: bool = False,
    ) -> Reading:  # fmt: skip
        """`parts`: commands in order. `place`: an offset's line. `variables`: set before them."""
        findings, made = list[Finding](), list[Command]()
        exported = dict(variables or {})
        for words in parts:
            line = line_of(words, self.tables)
            for one in self._command(words, line, text):
                edit = one.edit if self.edits else None
                findings.append(replace(one, line=place(one.line), edit=edit))
            _remember(words, exported)
            command = self._converted(line, exported, in_job) if line else None
            if command:
                made.append(replace(command, line=place(words[0].start)))
        findings.sort(key=lambda one: one.line)
        return Reading(tuple(dict.fromkeys(findings)), tuple(made))

    # --- findings; their `line` is an offset here ------------------------------------------------

    def _command(self, words: Sequence[Word], line: Line | None, text: str) -> Iterator[Finding]:
        first = words[0]
        if first in ("export", "declare", "setenv") or all(_NAME.match(w.raw) for w in words):
            yield from self._assignments(words, text)
        elif first in ("source", ".") and len(words) > 1:
            if rule := self.rules.find("command", words[1]):
                yield found(rule, words[1].raw, words[0].start)
        elif "install" in words[:5]:  # pip, uv pip, python -m pip, conda
            yield from self._packages(words)
        if line:
            yield from self._launch(line, text)
            yield from self._arguments(line, text)

    def _assignments(self, words: Sequence[Word], text: str) -> Iterator[Finding]:
        given = [word for word in words if _NAME.match(word.raw)]
        for word in given:
            name, _, value = word.partition("=")
            rule = self.rules.find("variable", name, value)
            if not rule and ("$(" in value or "`" in value):
                rule = self.rules.find("command", value)
            if rule:
                whole = len(given) == 1 and len(words) <= 2
                edit = _line_removed(text, words[0], words[-1]) if whole and rule.edit else None
                yield found(rule, name, word.start, edit)

    def _launch(self, line: Line, text: str) -> Iterator[Finding]:
        words = line.words[: line.read.start]
        for item in dict.fromkeys(item for one in line.read.requests for item in one.env):
            name, _, value = item.partition("=")
            rule = self.rules.find("variable", name, value)
            at = next((word.start for word in words if name in word), None) if rule else None
            if rule and at is not None:
                yield found(rule, name, at)
        for i, word in enumerate(words):
            name = word.partition("=")[0]
            if rule := self.rules.find("option", name):
                last = words[i + 1] if rule.to and name == word and i + 1 < len(words) else word
                yield found(rule, name, word.start, _words_removed(text, word.start, last.end))
            elif rule := self.rules.find("command", posixpath.basename(word)):
                yield found(rule, word, word.start)

    def _packages(self, words: Sequence[Word]) -> Iterator[Finding]:
        for word in words:
            if one := package(self.rules, word):
                yield replace(one, line=word.start)

    # --- arguments of transformers' Trainer ------------------------------------------------------

    def _arguments(self, line: Line, text: str) -> Iterator[Finding]:
        for rule, at, count in self._obsolete(line):
            word = line.args[at]
            name = word.partition("=")[0]
            written = f"{name} {rule.value}" if rule.value else name
            edit = None
            if rule.edit and self._is_trainers(line, name):
                edit = _argument_edit(text, line, rule, at, count)
            yield found(rule, written, word.start, edit)

    def _obsolete(self, line: Line) -> Iterator[tuple[Rule, int, int]]:
        """Arguments of the script: the rule, which one, and how many words it has."""
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

    def _own_options(self, line: Line) -> frozenset[str]:
        source = self._source(line)
        return source.options if source else frozenset()

    def _source(self, line: Line) -> Source | None:
        return None if line.read.module else self.around.source(line.script)

    def _is_trainers(self, line: Line, word: str) -> bool:
        """Does TrainingArguments read it? Judged by the script, or else by the other arguments."""
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

    def _converted(self, line: Line, exported: Mapping[str, Word], in_job: bool) -> Command | None:
        changed = list(self._obsolete(line))
        if line.launcher == "python" and self.launcher:
            line = replace(line, launcher=self.launcher)
        if line.launcher == "python" and not changed and not self.always:
            return None
        settings = Settings(exported, self.job, in_job, self.around.config)
        return ipexctl_command(line, _arguments_today(line, changed), settings, self.tables)


def _remember(words: Sequence[Word], exported: dict[str, Word]) -> None:
    for word in words[1:]:
        if words[0] == "export":
            _export(word, exported)
        elif words[0] == "unset":
            exported.pop(word, None)


def _export(word: Word, exported: dict[str, Word]) -> None:
    name, _, value = word.partition("=")
    exported[name] = value if isinstance(value, Word) else Word("", "$")


def package(rules: Rules, text: str) -> Finding | None:
    """A requirement: name==version"""
    name = _REQUIREMENT.match(text)
    normal = re.sub(r"[-_.]+", "-", name[0]).lower() if name else ""
    rule = rules.find("package", normal)
    return found(rule, name[0], 0) if rule and name else None


def _arguments_today(line: Line, changed: Sequence[tuple[Rule, int, int]]) -> list[str]:
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


def _argument_edit(text: str, line: Line, rule: Rule, at: int, count: int) -> Edit | None:
    words = line.args[at : at + count]
    if text[words[0].start : words[0].end] != words[0].raw or words[0].raw != words[0]:
        return None
    if rule.edit == "value":
        last = words[-1]
        if not last.raw.endswith(rule.value):
            return None
        return Edit(last.end - len(rule.value), last.end, rule.to)
    given = {w.partition("=")[0] for w in line.args}
    if rule.edit == "rename":
        start = words[0].start + 2
        return None if f"--{rule.to}" in given else Edit(start, start + len(rule.names[0]), rule.to)
    end = words[0].end if count == 2 and words[1].lower() not in _SWITCHES else words[-1].end
    return _words_removed(text, words[0].start, end)


_SWITCHES = frozenset({"true", "false", "yes", "no", "1", "0", "t", "f", "y", "n"})


def _words_removed(text: str, start: int, end: int) -> Edit:
    """With the blanks before them, and with the line if it has nothing else."""
    first = text.rfind("\n", 0, start) + 1
    alone = not text[first:start].strip()
    after = re.compile(r"[ \t]*\\\r?\n").match(text, end)
    if alone and after:
        return Edit(first, after.end())
    near = text[max(0, start - _NEAR) : start]
    blanks = re.search(r"[ \t]*(?:\\\r?\n[ \t]*)?$", near)
    return Edit(start - len(near) + (blanks.start() if blanks else len(near)), end)


def _line_removed(text: str, first: Word, last: Word) -> Edit | None:
    """A command that has its lines to itself."""
    start = text.rfind("\n", 0, first.start) + 1
    end = re.compile(r"[ \t]*(?:#[^\r\n]*)?(?:\r?\n|$)").match(text, last.end)
    if text[start : first.start].strip() or not end:
        return None
    return Edit(start, end.end())
