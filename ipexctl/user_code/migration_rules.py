"""Rules of migration_rules.toml, and findings by them: in `ipexctl migrate` and before a run."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping
from dataclasses import field
from functools import cached_property
from typing import Any

from ipexctl.base import toml
from ipexctl.quick_dataclass import dataclass


@dataclass(frozen=True)
class Rule:
    """migration_rules.toml says what each field means."""

    id: str
    kind: str
    names: tuple[str, ...]
    text: str
    source: str
    file: str
    example: str
    since: str = ""
    versions: Mapping[str, str] = field(default_factory=dict, hash=False)
    value: str = ""
    use: str = ""
    keyword: str = ""
    lines: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    distributions: tuple[str, ...] = ()
    install: str = ""

    def __post_init__(self) -> None:
        first = next((f"{name} {version}" for name, version in self.versions.items()), "")
        object.__setattr__(self, "since", self.since or first)

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        return re.compile("|".join(map(fnmatch.translate, self.names)))

    def first_versions(self) -> dict[str, tuple[int, ...]]:
        return {name: version_of(text) for name, text in self.versions.items()}

    def describe_use(self, name: str, since: str = "") -> str:
        """Return what is wrong with a name. `since`: in place of the rule's own words."""
        return self.text.format(name=name, since=since or self.since)

    def matches(self, name: str, value: str = "") -> bool:
        return bool(self.pattern.match(name)) and (
            not self.value or any(v in value for v in self.value.split("|"))
        )


@dataclass(frozen=True)
class Rules:
    all: tuple[Rule, ...]
    trainer_arguments: frozenset[str] = frozenset()
    by_kind: Mapping[str, tuple[Rule, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        kinds = dict.fromkeys(rule.kind for rule in self.all)
        by_kind = {kind: tuple(rule for rule in self.all if rule.kind == kind) for kind in kinds}
        object.__setattr__(self, "by_kind", by_kind)

    def find(self, kind: str, name: str, value: str = "") -> Rule | None:
        """Return the first rule that matches: special names are before general ones."""
        return next((rule for rule in self.rules_of(kind) if rule.matches(name, value)), None)

    def find_argument(self, name: str, value: object) -> Rule | None:
        """Return the rule for an argument of TrainingArguments; some apply to one value only."""
        rule = self.find("argument", name, str(value))
        return rule if rule and rule.value in ("", value) else None

    def rules_of(self, kind: str) -> tuple[Rule, ...]:
        return self.by_kind.get(kind, ())


def version_of(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", text))


def parse_rules(text: str) -> Rules:
    raw = toml.loads(text)
    return Rules(tuple(map(_read_rule, raw["rule"])), frozenset(raw["trainer_arguments"]))


def _read_rule(raw: dict[str, Any]) -> Rule:
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in raw.items()}
    return Rule(**values)


@dataclass(frozen=True)
class MigrationFinding:
    """A finding; `name` is as the file has it."""

    rule: Rule
    name: str
    line: int
    text: str
    use: str = ""
    lines: tuple[str, ...] = ()

    @property
    def advice(self) -> str:
        return f"use {self.use}" if self.use else "remove it"


@dataclass(frozen=True)
class LauncherRewrite:
    """A line that starts ranks, and the equivalent ipexctl command. `why`: there is none."""

    line: int
    launcher: str
    text: str
    why: str = ""


@dataclass(frozen=True)
class Reading:
    """The result for one file. `unread`: why it, or a part of it, could not be read."""

    findings: tuple[MigrationFinding, ...] = ()
    commands: tuple[LauncherRewrite, ...] = ()
    unread: str = ""


def make_finding(rule: Rule, name: str, line: int) -> MigrationFinding:
    text = rule.describe_use(name)
    if text.endswith(" discontinued"):
        text += f" after {rule.since}"
    return MigrationFinding(rule, name, line, text, rule.use)
