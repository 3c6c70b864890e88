"""A line that user_code/launchers has read -> the ipexctl command that does the same."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace

from ipexctl.errors import InputError
from ipexctl.migrate.code.migrate_finding import Command
from ipexctl.migrate.code.rules import Rules
from ipexctl.quick_dataclass import dataclass
from ipexctl.remote.secret_names import is_secret_name
from ipexctl.run.plan.rank_variables import TABLE
from ipexctl.user_code.launchers import pasted_line
from ipexctl.user_code.launchers.accelerate_config import Keys
from ipexctl.user_code.launchers.launcher_table import Launchers
from ipexctl.user_code.launchers.line_request import LineRequest, Refuse, TypedOptions, merged
from ipexctl.user_code.typed_word import Word, assignment, for_pasting, is_fixed

# what `ipexctl run` sets itself, on each host as it is there
OWN = frozenset({one.name for one in TABLE}) | {"PATH", "LD_LIBRARY_PATH"}
_OF_MPI = ("I_MPI_", "FI_", "HYDRA_", "OMPI_", "PMI_", "SLURM_")
_REDIRECT = re.compile(r"(?:\d*|&)(?:>>?|<)(?P<to>.*)", re.DOTALL)


@dataclass(frozen=True)
class Tables:
    """What is discontinued, and what becomes of launchers and of Accelerate's keys."""

    rules: Rules
    launchers: Launchers
    keys: Keys

    def reported(self, typed: str) -> bool:
        """Is there a finding for this option or key?"""
        name = re.split("[ =:]", typed)[0]
        names = [("option", name), ("key", name), ("key", name.partition(".")[0])]
        return any(self.rules.find(kind, one) for kind, one in names)


@dataclass(frozen=True)
class LeftOut:
    """What is not in a command, each with its reason."""

    tables: Tables
    texts: list[str] = field(default_factory=list)

    def __call__(self, error: InputError, typed: str = "", reason: str = "") -> None:
        hint = error.hint if not error.hint.startswith("leave it out") else ""
        why = "; in its place: ".join(filter(None, (reason or error.why, hint)))
        if not self.tables.reported(typed):
            self.add(typed or error.what, why)

    def add(self, text: str, why: str) -> None:
        self.texts.append(f"{text} ({why})" if why else text)


@dataclass(frozen=True)
class Line:
    """A line that starts a Python script. `launcher`: as called; "python" starts no ranks."""

    words: tuple[Word, ...]
    read: pasted_line.Line
    launcher: str
    left_out: tuple[str, ...]

    @property
    def script(self) -> Word:
        return self.words[self.read.start]

    @property
    def args(self) -> tuple[Word, ...]:
        return self.words[self.read.start + 1 : self.read.start + len(self.read.script)]


@dataclass(frozen=True)
class Settings:
    """What stands around the line: `exported` variables, and how an Accelerate config is read."""

    exported: Mapping[str, Word] = field(default_factory=dict)
    config: Callable[[str, Refuse], LineRequest | None] = lambda path, refuse: None


def line_of(words: Sequence[Word], tables: Tables) -> Line | None:
    """None for what starts no Python script."""
    words = tuple(_without_redirects(words))
    left_out = LeftOut(tables)
    try:
        read = pasted_line.read(words, tables.launchers, refuse=left_out)
    except InputError:
        return None
    if not read:
        return None
    return Line(words, read, next(iter(read.starts_ranks), "python"), tuple(left_out.texts))


def _without_redirects(words: Sequence[Word]) -> Iterator[Word]:
    skip = False
    for word in words:
        redirect = None if word.raw[:1] in "'\"" else _REDIRECT.fullmatch(word.raw)
        if not skip and not redirect:
            yield word
        skip = bool(redirect and not redirect["to"])


def ipexctl_command(line: Line, args: Sequence[str], settings: Settings, tables: Tables) -> Command:
    """`args`: the script's arguments as they are today."""
    left_out = LeftOut(tables, [*line.left_out])
    path = next((one.config for one in line.read.requests if one.config), "")
    config = settings.config(path, left_out) if path and is_fixed(path) else None
    layers = _with(line.read.filled(config), config)
    if path and not config:
        layers.append(LineRequest("", options=(("--accelerate", path),)))
    script = [*(["-m"] if line.read.module else []), line.script, *args]
    made = command_of(layers, script, settings, left_out)
    return replace(made, launcher=line.launcher, notes=(*made.notes, *line.read.remarks))


def _with(layers: Sequence[LineRequest], around: LineRequest | None) -> list[LineRequest]:
    """Adds settings from around a line; the line's own counts and variables win."""
    if not around:
        return list(layers)
    names = {item.partition("=")[0] for one in layers for item in one.env}
    env = tuple(item for item in around.env if item.partition("=")[0] not in names)
    counted = any(one.counts for one in layers)
    return [*layers, replace(around.without_counts() if counted else around, env=env)]


def command_of(
    layers: Sequence[LineRequest], script: Sequence[str], settings: Settings, left_out: LeftOut
) -> Command:
    """`script`: the words from it on."""
    exported = settings.exported
    given = (assignment(name, exported[name]) for name in exported if name.isidentifier())
    names = ((item, item.partition("=")[0]) for item in _kept(given, left_out))
    env = tuple(item if is_fixed(exported[name]) else name for item, name in names)
    layers = [replace(one, env=tuple(_kept(one.env, left_out))) for one in layers]
    layers = _with(layers, LineRequest("export", env=env))
    made = merged(layers, TypedOptions(), left_out)
    several = any(isinstance(one.nodes, int) and one.nodes > 1 for one in layers)
    words = ["ipexctl", "run"]
    if several and not any(one.names_hosts for one in layers):
        words += ["-f", "HOSTFILE"]
    for option, value in zip(made.options[::2], made.options[1::2], strict=True):
        name = value.partition("=")[0]
        secret = option == "--env" and is_secret_name(name)
        words += ["--secret-env", name] if secret else [option, value]
    made.ignored = [one for one in made.ignored if not left_out.tables.reported(one[0])]
    text = for_pasting([*words, *script])
    return Command(0, "", text, tuple(left_out.texts), tuple(made.note()))


def _kept(env: Iterable[str], left_out: LeftOut) -> Iterator[str]:
    """Without variables that `run` sets itself or that are discontinued."""
    for item in env:
        name, _, value = item.partition("=")
        if name.startswith(_OF_MPI):
            left_out.add(for_pasting((item,)), "it may not fit the MPI of the run")
        elif name not in OWN and not left_out.tables.rules.find("variable", name, value):
            yield item
