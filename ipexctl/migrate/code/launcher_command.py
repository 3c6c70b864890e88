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
from ipexctl.user_code.launchers.line_request import LineRequest, TypedOptions, merged
from ipexctl.user_code.typed_word import Word, for_pasting

# what `ipexctl run` sets itself, on each host as it is there
OWN = frozenset({one.name for one in TABLE}) | {"PATH", "LD_LIBRARY_PATH"}
_OF_MPI = ("I_MPI_", "FI_", "HYDRA_", "OMPI_", "PMI_", "SLURM_")
_EXPANDED = re.compile(r"\$\(.*\)|\$\{.*?\}|`[^`]*`|\$\w+|\$.")  # by the shell
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
class Line:
    """A line that starts a Python script. `launcher`: as called; "python" starts no ranks.
    `is_open`: only the shell knows all of its launcher's words."""

    words: tuple[Word, ...]
    read: pasted_line.Line
    launcher: str
    is_open: bool

    @property
    def script(self) -> Word:
        return self.words[self.read.start]

    @property
    def args(self) -> tuple[Word, ...]:
        return self.words[self.read.start + 1 :]


@dataclass(frozen=True)
class Settings:
    """What stands around the line: `exported` variables (None: a value that only the shell knows),
    and how an Accelerate config is read."""

    exported: Mapping[str, str | None] = field(default_factory=dict)
    config: Callable[[str], LineRequest | None] = lambda path: None

    @property
    def env(self) -> tuple[str, ...]:
        """The exported variables as --env takes them."""
        named = ((n, value) for n, value in self.exported.items() if n.isidentifier())
        return tuple(n if value is None else f"{n}={value}" for n, value in named)


def line_of(words: Sequence[Word], tables: Tables) -> Line | Command | None:
    """Return None if no Python script is started. For a line that ipexctl does not run, the
    Command says why it is not converted."""
    words = tuple(_without_redirects(words))
    plain = [word if word.is_fixed else _EXPANDED.sub("1", word) for word in words]
    try:
        read = pasted_line.read(plain, tables.launchers)
    except InputError as e:
        python = any(word.endswith(".py") or word == "-m" for word in words)
        starts = python and pasted_line.started_by(plain, tables.launchers)
        return not_converted(e, words[0]) if starts else None
    if not read:
        return None
    is_open = not all(word.is_fixed for word in words[: read.start])
    return Line(words, read, next(iter(read.starts_ranks), "python"), is_open)


def not_converted(error: InputError, launcher: str) -> Command:
    why = "; ".join(filter(None, (error.what, error.why, error.hint and f"try: {error.hint}")))
    return Command(0, launcher, "", why=why)


def _without_redirects(words: Sequence[Word]) -> Iterator[Word]:
    skip = False
    for word in words:
        redirect = None if word.raw[:1] in "'\"" else _REDIRECT.fullmatch(word.raw)
        if not skip and not redirect:
            yield word
        skip = bool(redirect and not redirect["to"])


def ipexctl_command(line: Line, args: Sequence[str], settings: Settings, tables: Tables) -> Command:
    """`args`: the script's arguments as they are today."""
    if line.is_open:
        return _before_launcher(line, args, settings, tables)
    path = next((one.config for one in line.read.requests if one.config), "")
    try:
        config = settings.config(path) if path else None
        layers = _with(line.read.filled(config), config)
        if path and not config:
            layers.append(LineRequest("", options=(("--accelerate", path),)))
        script = [*(["-m"] if line.read.module else []), line.script, *args]
        made = command_of(layers, script, settings, tables)
    except InputError as e:
        return not_converted(e, line.launcher)
    return replace(made, launcher=line.launcher, notes=(*made.notes, *line.read.remarks))


def _before_launcher(
    line: Line, args: Sequence[str], settings: Settings, tables: Tables
) -> Command:
    """`ipexctl run` before the line as it is: the shell fills in its variables."""
    notes = list[str]()
    words = ["ipexctl", "run", *_hosts_to_name(line.read.requests)]
    for item in _kept(settings.env, tables, notes):
        name = item.partition("=")[0]
        words += ["--secret-env" if is_secret_name(name) else "--env", name]
    launcher = line.words[: line.read.start + 1]
    return Command(0, line.launcher, for_pasting([*words, *launcher, *args]), tuple(notes))


def _hosts_to_name(layers: Sequence[LineRequest]) -> list[str]:
    several = any(one.nodes and one.nodes > 1 for one in layers)
    return ["-f", "HOSTFILE"] if several and not any(one.names_hosts for one in layers) else []


def _with(layers: Sequence[LineRequest], around: LineRequest | None) -> list[LineRequest]:
    """Adds settings from around a line; the line's own counts and variables win."""
    if not around:
        return list(layers)
    names = {item.partition("=")[0] for one in layers for item in one.env}
    env = tuple(item for item in around.env if item.partition("=")[0] not in names)
    counted = any(one.counts for one in layers)
    return [*layers, replace(around.without_counts() if counted else around, env=env)]


def command_of(
    layers: Sequence[LineRequest], script: Sequence[str], settings: Settings, tables: Tables
) -> Command:
    """`script`: the words from it on. Raises InputError."""
    notes = list[str]()
    env = tuple(_kept(settings.env, tables, notes))
    layers = [replace(one, env=tuple(_kept(one.env, tables, notes))) for one in layers]
    layers = _with(layers, LineRequest("export", env=env))
    made = merged(layers, TypedOptions())
    words = ["ipexctl", "run", *_hosts_to_name(layers)]
    for option, value in zip(made.options[::2], made.options[1::2], strict=True):
        name = value.partition("=")[0]
        secret = option == "--env" and is_secret_name(name)
        words += ["--secret-env", name] if secret else [option, value]
    made.ignored = [one for one in made.ignored if not tables.reported(one[0])]
    return Command(0, "", for_pasting([*words, *script]), notes=(*notes, *made.note()))


def _kept(env: Iterable[str], tables: Tables, notes: list[str]) -> Iterator[str]:
    """Without variables that `run` sets itself or that are discontinued."""
    for item in env:
        name, _, value = item.partition("=")
        if name.startswith(_OF_MPI):
            notes.append(f"left out: {for_pasting((item,))} (it may not fit the MPI of the run)")
        elif name not in OWN and not tables.rules.find("variable", name, value):
            yield item
