"""Describe where a script will run: its hosts' environments and the files that are sent."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Mapping
from dataclasses import field

from ipexctl.quick_dataclass import dataclass


@dataclass(frozen=True)
class HostEnvironment:
    """One host, and what its ranks find there. `modules`: including the standard library's; None if
    not all of them are known."""

    host: str
    packages: Mapping[str, str]
    modules: frozenset[str] | None = None
    has_route: bool = True  # a default route: it may reach the Hugging Face Hub
    python: tuple[int, ...] = ()  # such as (3, 11); (): unknown

    def version(self, name: str) -> tuple[int, ...]:
        """Return the version of a package; () if it is not installed."""
        return tuple(int(number) for number in re.findall(r"\d+", self.packages.get(name, ""))[:2])

    @property
    def is_cpu_only(self) -> bool:
        """Whether its torch is a build that uses no GPU."""
        torch = self.packages.get("torch", "")
        return "+cpu" in torch or not any(name.startswith("nvidia-") for name in self.packages)


@dataclass(frozen=True)
class LocalPath:
    """A path of this machine, as typed. `why`: why it is not sent; `way`: how to have it sent."""

    path: str
    why: str = ""
    way: str = ""


@dataclass(frozen=True)
class ProjectFiles:
    """The files that are sent. `local`: names of models and datasets that are local paths."""

    sent: Collection[str]
    cwd: str = ""  # where the ranks start
    beside: str = ""  # where Python looks first: the script's folder, with -m that of the ranks
    local: Mapping[str, LocalPath] = field(default_factory=dict)
    data: str = ""  # where the hosts have their datasets, if that is the same path on all
    variables: Collection[str] = frozenset()  # what the plan sets in the ranks
    # imports of the project's own modules that are not sent, by file and line: why, what to do
    kept_here: Mapping[tuple[str, int], str] = field(default_factory=dict)
    required: Collection[str] = frozenset()  # packages that the requirements file has
    parts: frozenset[str] = field(init=False)  # names of files, without .py, and of folders

    def __post_init__(self) -> None:
        parts = (part.partition(".")[0] for path in self.sent for part in path.split("/"))
        object.__setattr__(self, "parts", frozenset(parts))

    def has_module(self, folder: str, name: str) -> bool:
        start = posixpath.normpath(posixpath.join(folder, name))
        return any(path.startswith((f"{start}.", f"{start}/")) for path in self.sent)

    @property
    def requirements(self) -> str:
        """The file for `install -r`, even if it does not exist yet."""
        usual = ("requirements.txt", "pyproject.toml")
        return next((name for name in usual if name in self.sent), usual[0])

    def holds(self, name: str) -> bool:
        path = posixpath.normpath(posixpath.join(self.cwd, name))
        return any(sent_path == path or sent_path.startswith(f"{path}/") for sent_path in self.sent)


@dataclass(frozen=True)
class ScriptNote:
    place: str  # train.py:12
    text: str
    use: str = ""
    command: str = ""  # a line to paste

    def __str__(self) -> str:
        way = f"; use {self.use}" if self.use else f"; try: {self.command}" if self.command else ""
        line = f"{self.place}: {self.text}{way}"
        return "".join(character if character.isprintable() else "?" for character in line)
