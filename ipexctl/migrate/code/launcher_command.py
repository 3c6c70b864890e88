"""Convert a launcher's line to the present command: `ipexctl run` before the line.

The line is read as `ipexctl run` will read it, so that what `run` does not support is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from ipexctl.common.secret_names import is_secret_name
from ipexctl.errors import InputError
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.plan.rank_variables import TABLE
from ipexctl.user_code.launchers import pasted_line
from ipexctl.user_code.launchers.accelerate_config import Keys
from ipexctl.user_code.launchers.launcher_table import Launchers
from ipexctl.user_code.migration_rules import LauncherRewrite, Rules
from ipexctl.user_code.shell_words import ShellWord, for_pasting

# variables that `ipexctl run` sets itself, on each host
OWN = frozenset({variable.name for variable in TABLE}) | {"PATH", "LD_LIBRARY_PATH"}
_OF_MPI = ("I_MPI_", "FI_", "HYDRA_", "OMPI_", "PMI_", "SLURM_")  # of another MPI than the run's
_EXPANDED = re.compile(r"\$\(.*\)|\$\{.*?\}|`[^`]*`|\$\w+|\$.")  # by the shell
_REDIRECT = re.compile(r"(?:\d*|&)(?:>>?|<)(?P<to>.*)", re.DOTALL)


@dataclass(frozen=True)
class Tables:
    """The tables of discontinued names, of launchers' options, and of Accelerate's keys."""

    rules: Rules
    launchers: Launchers
    keys: Keys


@dataclass(frozen=True)
class LauncherLine:
    """A line that starts a Python script. `launcher`: as called; "python" starts no ranks."""

    words: tuple[ShellWord, ...]
    read: pasted_line.PastedLine
    launcher: str

    @property
    def script(self) -> ShellWord:
        return self.words[self.read.start]

    @property
    def args(self) -> tuple[ShellWord, ...]:
        return self.words[self.read.start + 1 :]


def line_of(words: Sequence[ShellWord], tables: Tables) -> LauncherLine | LauncherRewrite | None:
    """Return None if no Python script is started. For a line that ipexctl does not run, the Command
    gives the reason. A shell variable counts as a number here, which most are."""
    words = tuple(_without_redirects(words))
    plain = [word if word.is_fixed else _EXPANDED.sub("1", word) for word in words]
    try:
        line = pasted_line.read_pasted_line(plain, tables.launchers)
    except InputError as e:
        has_script = any(word.endswith(".py") or word == "-m" for word in words)
        starts = has_script and pasted_line.is_launch(plain, tables.launchers)
        return not_converted(e, words[0]) if starts else None
    return LauncherLine(words, line, next(iter(line.starts_ranks), "python")) if line else None


def not_converted(error: InputError, launcher: str) -> LauncherRewrite:
    why = "; ".join(filter(None, (error.what, error.why, error.hint and f"try: {error.hint}")))
    return LauncherRewrite(0, launcher, "", why=why)


def _without_redirects(words: Sequence[ShellWord]) -> Iterator[ShellWord]:
    skip = False
    for word in words:
        redirect = None if word.raw[:1] in "'\"" else _REDIRECT.fullmatch(word.raw)
        if not skip and not redirect:
            yield word
        skip = bool(redirect and not redirect["to"])


def ipexctl_command(
    line: LauncherLine, args: Sequence[str], exported: Mapping[str, ShellWord], tables: Tables
) -> LauncherRewrite:
    """Return the command. `args`: the converted ones. `exported`: NAME=VALUE before the line."""
    requests = line.read.requests
    words = ["ipexctl", "run"]
    several = any(request.nodes and request.nodes > 1 for request in requests)
    if several and not any(request.names_hosts for request in requests):
        words += ["-f", "HOSTFILE"]
    for name, word in exported.items():
        is_own = name in OWN or name.startswith(_OF_MPI) or not name.isidentifier()
        if is_own or tables.rules.find("variable", name, word.partition("=")[2]):
            continue
        secret = is_secret_name(name)
        literal = word.is_fixed and not secret
        words += ["--secret-env" if secret else "--env", str(word) if literal else name]
    plain_python = line.launcher == "python" and line.read.start == 1  # python3 train.py
    launcher = line.words[int(plain_python) : line.read.start + 1]
    return LauncherRewrite(0, line.launcher, for_pasting([*words, *launcher, *args]))
