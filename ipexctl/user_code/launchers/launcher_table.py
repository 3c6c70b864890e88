"""Read launchers.toml: launchers and their options."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ipexctl.base import toml
from ipexctl.errors import LEAVE_OUT
from ipexctl.quick_dataclass import dataclass

MEANINGS = frozenset(
    {"ranks", "ranks-per-host", "host-count", "hostfile", "hosts", "limit", "exclude"}
    | {"env", "env-list", "env-forward", "variable", "option", "module", "config"}
    | {"ignored", "refused"}
)
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=(?s:.*)")
_PYTHON = re.compile(r"(python|pypy)(\d(\.\d+)?)?")


@dataclass(frozen=True)
class Flag:
    """An option of a launcher, or a key of an Accelerate config; launchers.toml and
    accelerate_keys.toml say what each field means."""

    names: tuple[str, ...]
    becomes: str
    values: int = 1
    default: tuple[str, ...] = ()
    value: str = ""
    as_: str = ""
    upper: bool = False
    why: str = ""
    type: str = ""
    instead: str = ""
    enters: bool = False

    @property
    def can_be_left_out(self) -> bool:
        return self.becomes == "refused" and (self.enters or self.type.startswith(LEAVE_OUT))

    def value_instead(self, taken: str) -> str:
        """Return the value to type instead of a refused one, of which `taken` is the part that
        `value` takes; "" without one."""
        has_part = self.value and re.compile(self.value).groups
        return self.instead or (taken if has_part else "")

    def accept_value(self, value: str) -> str | None:
        """Return the part of a value that is used; None if this entry does not apply to it."""
        match = re.fullmatch(self.value or "(?s:.*)", value)
        if not match:
            return None
        if self.as_ and not self.values:
            return self.as_
        value = match[1] if match.re.groups else value
        return value.upper() if self.upper else value


def listed_values(patterns: Iterable[str]) -> str:
    """Return `no|fp16|bf16` for people; "" if the patterns are more than lists of words."""
    choices = list(patterns)
    if all(re.fullmatch(r"[\w-]+(\|[\w-]+)*", pattern) for pattern in choices):
        return ", ".join(word for pattern in choices for word in pattern.split("|"))
    return ""


@dataclass(frozen=True)
class Launcher:
    name: str
    starts: str  # "command" or "script"
    flags: tuple[Flag, ...]
    programs: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    any_dashes: bool = False
    default_ppn: int = 0
    gives_way: bool = False  # under mpirun
    config: bool = False
    remark: str = ""
    starts_ranks: bool = True
    assignments: bool = False

    def normalize_option(self, word: str) -> str:
        """Return a single spelling for those that the launcher accepts as equal."""
        name = word.lstrip("-")
        return f"-{name}" if self.any_dashes else word[: -len(name)] + name.replace("_", "-")

    def find_flags(self, word: str) -> tuple[Flag, ...]:
        name = self.normalize_option(word)
        return tuple(flag for flag in self.flags if name in flag.names)


@dataclass(frozen=True)
class Launchers:
    all: tuple[Launcher, ...]

    def find_launcher(self, words: Sequence[str]) -> tuple[Launcher, str, int] | None:
        """Return the launcher that a command line starts with, its name and number of words."""
        if not words:
            return None
        name = posixpath.basename(words[0])
        for count in (3, 2, 1):
            program = " ".join([name, *words[1:count]])
            for launcher in self.all:
                if program in launcher.programs:
                    return launcher, program, count
        if ASSIGNMENT.fullmatch(words[0]):
            return self.launcher_named("env"), "env", 0
        if _PYTHON.fullmatch(name):
            return self.launcher_named("python"), name, 1
        return None

    def of_module(self, module: str) -> Launcher | None:
        return next((launcher for launcher in self.all if module in launcher.modules), None)

    def launcher_named(self, name: str) -> Launcher:
        return next(launcher for launcher in self.all if launcher.name == name)


def parse_launchers(text: str) -> Launchers:
    launchers = []
    for raw in toml.loads(text)["launcher"]:
        flags = tuple(flag_of(flag, flag["names"]) for flag in raw["flags"])
        tuples = {key: tuple(value) for key, value in raw.items() if isinstance(value, list)}
        fields: dict[str, Any] = {**raw, **tuples, "flags": flags}
        del fields["source"]  # where its options were documented, for maintainers of the table
        launchers.append(Launcher(**fields))
    return Launchers(tuple(launchers))


def flag_of(raw: Mapping[str, Any], names: Sequence[str]) -> Flag:
    """Return a row of launchers.toml or accelerate_keys.toml."""
    if raw["becomes"] not in MEANINGS:
        raise ValueError(f"{names[0]}: there is no meaning {raw['becomes']!r}")
    notes = ("key", "source", "until")  # where it was documented, for maintainers of the table
    fields = {"as_" if key == "as" else key: raw[key] for key in raw if key not in notes}
    tuples = {"names": tuple(names), "default": tuple(raw.get("default", ()))}
    return Flag(**{**fields, **tuples})
