"""A line that starts ranks -> the ipexctl command that does the same.

`ipexctl_command` knows the options that say how many ranks there are, where, and with which
variables. What it does not know, it names.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ipexctl.core.migrate.rules import Rules
from ipexctl.core.migrate.shell_words import Word, as_typed
from ipexctl.core.plan.rank_contract import TABLE
from ipexctl.core.plan.secret_env import looks_secret
from ipexctl.core.script.launchers import LAUNCHER_MODULES, LAUNCHERS, Launch, launch_of

_N, _PPN, _NODES, _FILE, _HOSTS, _CONFIG = "n", "ppn", "nodes", "file", "hosts", "config"
PRECISION = "precision"  # of an Accelerate configuration
OPTIONS = {
    **dict.fromkeys(("-n", "-np", "--np", "--ntasks", "--num_processes", "--num-processes"), _N),
    **dict.fromkeys(("-ppn", "--ppn", "-perhost", "-npernode", "--npernode"), _PPN),
    **dict.fromkeys(("--nproc-per-node", "--nproc_per_node", "--nprocs-per-node"), _PPN),
    "--ntasks-per-node": _PPN,
    **dict.fromkeys(("--nnodes", "--nodes", "-N", "--num_machines", "--num-machines"), _NODES),
    **dict.fromkeys(("-f", "-hostfile", "--hostfile", "-machinefile", "--machinefile"), _FILE),
    **dict.fromkeys(("--mpirun_hostfile",), _FILE),
    **dict.fromkeys(("-hosts", "--hosts", "-host", "--host", "-H"), _HOSTS),
    "--config_file": _CONFIG,
}  # fmt: skip
# options that stand for a variable of the ranks
AS_VARIABLES = {
    "--mixed_precision": "ACCELERATE_MIXED_PRECISION",
    "--num_cpu_threads_per_process": "OMP_NUM_THREADS",
}
_IMPLIED = frozenset(
    {"--cpu", "--use_cpu", "--multi_cpu", "-u"}
)  # `run` does the same without them
_BEFORE = frozenset({"exec", "time", "nohup", "env", "command", "sudo"})
_PYTHON = re.compile(r"python(\d(\.\d+)?)?")
# what `ipexctl run` sets itself, on each host as it is there
OWN = frozenset({one.name for one in TABLE}) | {"PATH", "LD_LIBRARY_PATH"}
_OF_MPI = ("I_MPI_", "FI_", "HYDRA_", "OMPI_", "PMI_", "SLURM_")  # may not fit the MPI of the run
_REDIRECT = re.compile(r"(?:\d*|&)(?:>>?|<)(?P<to>.*)", re.DOTALL)


@dataclass(frozen=True)
class Line:
    """A line that starts ranks: its launcher, and where its script begins among the words."""

    launcher: str
    words: tuple[Word, ...]
    start: int
    module: bool = False
    before: tuple[Word, ...] = ()  # NAME=VALUE, exec, env

    @property
    def options(self) -> tuple[Word, ...]:
        return self.words[: self.start]

    @property
    def script(self) -> Word:
        return self.words[self.start]

    @property
    def args(self) -> tuple[Word, ...]:
        return self.words[self.start + 1 :]


@dataclass(frozen=True)
class Settings:
    """What stands before the line in its file: variables, counts of a batch job, configurations."""

    variables: Mapping[str, Word] = field(default_factory=dict)
    counts: Mapping[str, str] = field(default_factory=dict)
    in_job: bool = False  # of Slurm, whose hosts `ipexctl run` uses
    config: Callable[[str], Mapping[str, str]] = lambda path: {}  # counts of an Accelerate file


@dataclass(frozen=True)
class Converted:
    text: str
    left_out: tuple[str, ...] = ()


def line_of(words: Sequence[Word]) -> Line | None:
    """None for what starts no Python script. `python train.py` has the launcher "python"."""
    words = tuple(_without_redirects(words))
    at = 0
    while at < len(words) and (words[at].value in _BEFORE or _is_assignment(words[at])):
        at += 1
    before, words = words[:at], words[at:]
    values = [word.value for word in words]
    if not values:
        return None
    name = posixpath.basename(values[0])
    launch = Launch("srun") if name == "srun" else launch_of(values)
    if not launch and not _PYTHON.fullmatch(name):
        return None
    found = _script(values)
    return Line(launch.name if launch else "python", words, *found, before) if found else None


def _script(values: Sequence[str]) -> tuple[int, bool] | None:
    """Where the script or the module is, and which of both."""
    for i, value in enumerate(values):
        if i and value.endswith(".py"):
            return i, False
        if i and value in ("-m", "--module") and i + 1 < len(values):
            after = values[i + 1]
            if after not in LAUNCHER_MODULES and not after.startswith("-") and not after.isdigit():
                return i + 1, True
    return None


def _without_redirects(words: Sequence[Word]) -> Iterator[Word]:
    skip = False
    for word in words:
        redirect = None if word.raw[:1] in "'\"" else _REDIRECT.fullmatch(word.raw)
        if not skip and not redirect:
            yield word
        skip = bool(redirect and not redirect["to"])


def _is_assignment(word: Word) -> bool:
    return bool(re.match(r"[A-Za-z_]\w*=", word.raw))


def ipexctl_command(
    line: Line, args: Sequence[Word], settings: Settings, rules: Rules
) -> Converted:
    """`args`: the script's arguments as they are today."""
    taken = _Taken(rules, settings)
    taken.read(line.options)
    return Converted(taken.command(line, args), tuple(taken.left_out))


class _Taken:
    """What is taken over from a line's options."""

    def __init__(self, rules: Rules, settings: Settings) -> None:
        self.rules, self.settings = rules, settings
        self.said: dict[str, str] = {}
        self.variables: dict[str, str] = {}
        self.left_out: list[str] = []

    def read(self, words: Sequence[Word]) -> None:
        for name, word in self.settings.variables.items():
            self._variable(name, word.raw if word.fixed else "", word.value)
        at = 0
        while at < len(words):
            at += self._option(words[at:])

    def _option(self, words: Sequence[Word]) -> int:
        """How many words it has."""
        name, sign, value = words[0].value.partition("=")
        given = [Word(value, words[0].raw.partition("=")[2])] if sign else list(words[1:2])
        raw, count = given[0].raw if given else "", 1 if sign else 2
        if name in OPTIONS:
            if OPTIONS[name] == _CONFIG and given:
                self.said = {**self.settings.config(given[0].value), **self.said}
            self.said[OPTIONS[name]] = raw
            return count
        if name in AS_VARIABLES:
            self.variables[AS_VARIABLES[name]] = raw
            return count
        if name in ("-genv", "-env", "-x", "--export"):
            return self._forwarded(words)
        if not name.startswith("-") or self._is_known(name):
            return 1
        if rule := self.rules.find("option", name):
            return 1 if sign or not rule.to else 2
        takes = not sign and given and not self._starts(given[0].value)
        self.left_out.append(" ".join(w.raw for w in words[: 2 if takes else 1]))
        return 2 if takes else 1

    def _is_known(self, name: str) -> bool:
        return name in _IMPLIED or name in ("-m", "--module")

    def _starts(self, value: str) -> bool:
        """Is it the next option or program, and not a value of an option?"""
        base = posixpath.basename(value)
        known = base in LAUNCHERS or base == "accelerate" or bool(_PYTHON.fullmatch(base))
        return known or value.startswith("-")

    def _forwarded(self, words: Sequence[Word]) -> int:
        if len(words) < 2:
            return 1
        name, sign, value = words[1].value.partition("=")
        if sign:
            self._variable(name, words[1].raw.partition("=")[2], value)
            return 2
        if words[0].value in ("-genv", "-env") and len(words) > 2:
            self._variable(name, words[2].raw, words[2].value)
            return 3
        self._variable(name, "", "")
        return 2

    def _variable(self, name: str, raw: str, value: str) -> None:
        """`raw` empty: as it is in the shell."""
        if name in OWN or self.rules.find("variable", name, value) or not name.isidentifier():
            return
        if name.startswith(_OF_MPI):
            self.left_out.append(f"{name}={raw or value}")
        else:
            self.variables[name] = raw

    def command(self, line: Line, args: Sequence[Word]) -> str:
        said = {**self.settings.counts, **self.said}
        n, ppn, nodes = (said.get(key, "") for key in (_N, _PPN, _NODES))
        hosts = said.get(_HOSTS, "")
        n, ppn = ("", "") if line.launcher == "python" else _counted(n, ppn, nodes)
        if said.get(PRECISION, "no") != "no":
            self.variables.setdefault("ACCELERATE_MIXED_PRECISION", said[PRECISION])
        words = ["ipexctl", "run"]
        if said.get(_FILE):
            words += ["-f", said[_FILE]]
        elif hosts:
            words += ["-H", hosts]
        elif nodes.isdigit() and int(nodes) > 1 and not self.settings.in_job:
            words += ["-f", "HOSTFILE"]
        words += ["-n", n] if n else []
        words += ["-ppn", ppn] if ppn else []
        for name, value in self.variables.items():
            if looks_secret(name):
                words += ["--secret-env", name]
            else:
                words += ["--env", f"{name}={value}" if value else name]
        words += ["-m"] if line.module else []
        return " ".join([*words, line.script.raw, *(word.raw for word in args)])


def _counted(n: str, ppn: str, nodes: str) -> tuple[str, str]:
    """Both counts, where one of them and the number of hosts are said."""
    hosts = int(nodes) if nodes.isdigit() else 1
    if ppn.isdigit() and not n and hosts > 1:
        return str(hosts * int(ppn)), ppn
    if n.isdigit() and not ppn and hosts > 1:
        return n, str(max(1, int(n) // hosts))
    return n, ppn


def of_counts(counts: Mapping[str, str], script: str) -> str:
    """Where only counts are known, as from an Accelerate configuration."""
    taken = _Taken(Rules(()), Settings(counts=counts))
    return taken.command(Line("accelerate launch", as_typed((script,)), 0), ())
