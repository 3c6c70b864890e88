"""Decide which files of the user's folder go to the hosts."""

from __future__ import annotations

import fnmatch
import hashlib
import json
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from ipexctl.base.sizes import format_bytes
from ipexctl.common.secret_names import is_private_path, is_secret_file, is_secret_stem
from ipexctl.quick_dataclass import dataclass

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

# never sent, whatever the ignore files say
HISTORY = (".git", ".hg", ".svn", ".ipexctl")
CACHES = ("__pycache__", "*.py[co]", ".mypy_cache", ".ruff_cache", ".pytest_cache", "node_modules")
ENVIRONMENTS = (".venv",)  # and every folder with one of these in it:
ENVIRONMENT_SIGNS = ("pyvenv.cfg", "conda-meta")

# data of these types is sent even if Git's rules leave it out, but text not from the top
DATA = (
    "*.arrow",
    "*.bin",
    "*.bz2",
    "*.dat",
    "*.feather",
    "*.flac",
    "*.gz",
    "*.h5",
    "*.hdf5",
    "*.idx",
    "*.jpeg",
    "*.jpg",
    "*.lmdb",
    "*.mat",
    "*.mdb",
    "*.memmap",
    "*.model",
    "*.npy",
    "*.npz",
    "*.parquet",
    "*.pickle",
    "*.pkl",
    "*.png",
    "*.spm",
    "*.tar",
    "*.tfrecord",
    "*.tgz",
    "*ubyte",
    "*.wav",
    "*.xz",
    "*.zip",
    "*.zst",
)
TEXT = ("*.csv", "*.jsonl", "*.tsv", "*.txt")
# but not the output of a build or an earlier run, by the name of a folder on its path,
MADE = (
    ".*",
    "*.egg-info",
    "*_logs",
    "artifacts",
    "build",
    "cache",
    "checkpoint*",
    "ckpt*",
    "dist",
    "htmlcov",
    "logs",
    "mlruns",
    "multirun",
    "out",
    "out[-_]*",
    "output*",
    "results*",
    "runs",
    "target",
    "temp",
    "tmp",
    "wandb",
)
# and not files that may hold text and have the name of a secret
TEXT_INSIDE = (
    *TEXT,
    "*.bin",
    "*.bz2",
    "*.dat",
    "*.gz",
    "*.pickle",
    "*.pkl",
    "*.tar",
    "*.tgz",
    "*.xz",
    "*.zip",
    "*.zst",
)
MADE_BY_EDITORS = (".DS_Store", ".idea", ".vscode", ".ipynb_checkpoints", "*.sw[op]", "*~")

MAX_DATA = 50 * 1000 * 1000  # bytes of one such file
MAX_FILES = 5000
MAX_BYTES = 100 * 1000 * 1000
PACKED = 256 * 1024  # files up to this size travel many in one frame


class _Globs:
    """Names that any of some globs matches. They are compiled when needed: most commands look at no
    files."""

    def __init__(self, *globs: str) -> None:
        self._globs = globs

    @cached_property
    def match(self) -> Callable[[str], re.Match[str] | None]:
        return re.compile("|".join(fnmatch.translate(glob) for glob in self._globs)).match


_NEVER = _Globs(*HISTORY, *CACHES, *ENVIRONMENTS)
_DATA, _TEXT, _MADE = _Globs(*DATA, *TEXT), _Globs(*TEXT), _Globs(*MADE)
_TEXT_INSIDE = _Globs(*TEXT_INSIDE)
_OF_NO_USE = _Globs(*HISTORY, *CACHES, *ENVIRONMENTS, *MADE_BY_EDITORS)


def is_never_sent(name: str) -> bool:
    """Decide whether files and folders of this name are never sent."""
    return bool(_NEVER.match(name)) or is_secret_file(name)


def is_of_no_use(name: str) -> bool:
    """Decide whether no run needs it, so that its exclusion by Git's rules is not mentioned."""
    return bool(_OF_NO_USE.match(name))


def ignored_data(ignored: Iterable[tuple[str, int]], places: Sequence[str]) -> dict[str, int]:
    """Select from the (path, size) that Git's rules leave out the data below one of `places`. It is
    sent, unless it is large in total."""
    return {
        path: size
        for path, size in ignored
        if size <= MAX_DATA and any(_is_data(path, place) for place in places)
    }


def _is_data(path: str, place: str) -> bool:
    prefix = place and f"{place}/"
    if not path.startswith(prefix) or is_private_path(path):
        return False
    relative = path.removeprefix(prefix)
    file_name = posixpath.basename(relative)
    name = file_name.lower()
    if is_made(relative) or is_never_sent(name) or not _DATA.match(name):
        return False
    if _TEXT_INSIDE.match(name) and any(map(is_secret_stem, file_name.split("."))):
        return False
    return "/" in relative or not _TEXT.match(name)


def is_made(path: str) -> bool:
    """Decide by the folders on its path whether a build or an earlier run made the file."""
    return any(_MADE.match(name) for name in path.lower().split("/")[:-1])


# --- ignore files --------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Rules:
    base: str  # the folder of the ignore file: "" or "pkg/"
    name: str  # of that file
    lines: tuple[str, ...]  # lines that are not empty
    numbers: tuple[int, ...]  # their numbers in the file
    spec: GitIgnoreSpec
    opened: tuple[str, ...]  # folders that a `!` names, and their parents

    def says(self, path: str) -> bool | None:
        """Return the rule for `path`, None without one. `path` is below base; folders end in /."""
        return self.spec.check_file(path[len(self.base) :]).include

    def line(self, path: str) -> str:
        """Return the line with the rule, and where it is."""
        index = self.spec.check_file(path[len(self.base) :]).index
        if index is None:
            return ""
        return f"{self.lines[index].strip()} in {self.name}:{self.numbers[index]}"


@dataclass(frozen=True)
class Ignore:
    """The ignore files that apply to a folder: nearer ones win, ours win over Git's."""

    git: tuple[_Rules, ...] = ()
    ours: tuple[_Rules, ...] = ()

    def __call__(self, path: str, *, inherited: bool = False) -> bool:
        """Decide whether to leave the path out. `inherited`: Git's rules exclude a folder above."""
        if (decision := _rules_decision(self.ours, path)) is not None:
            return decision
        return inherited or bool(_rules_decision(self.git, path))

    def ours_leave_out(self, path: str) -> bool:
        return _rules_decision(self.ours, path) is True

    def may_open(self, path: str) -> bool:
        """Decide whether one of our `!` lines names a file below this folder excluded by Git."""
        return _rules_decision(self.ours, path) is not True and any(
            path.removeprefix(r.base) in r.opened for r in self.ours if path.startswith(r.base)
        )

    def why(self, path: str) -> tuple[str, bool]:
        """Return the line that leaves the path out ("" if none does), and if it is our file's."""
        for rules in (*reversed(self.ours), *reversed(self.git)):
            if (decision := rules.says(path)) is not None:
                return rules.line(path) if decision else "", rules in self.ours
        return "", False

    def with_folder(self, base: str, git: str, ours: str) -> Ignore:
        """Return the rules with the texts of the ignore files in the folder `base`."""
        ignore = self.also(git, base, f"{base}.gitignore")
        rules = [_parse_rules(base, f"{base}.ipexctlignore", ours)] if ours.strip() else []
        return Ignore(ignore.git, (*ignore.ours, *rules))

    def also(self, git: str, base: str, name: str) -> Ignore:
        """Return the rules with the text of one more of Git's files."""
        rules = [_parse_rules(base, name, git)] if git.strip() else []
        return Ignore((*self.git, *rules), self.ours)


def _rules_decision(rules: Sequence[_Rules], path: str) -> bool | None:
    decisions = (entry.says(path) for entry in reversed(rules))
    return next((decision for decision in decisions if decision is not None), None)


def _parse_rules(base: str, name: str, text: str) -> _Rules:
    from pathspec import GitIgnoreSpec  # takes 10 ms; many projects have no ignore file

    numbered = [(n, line) for n, line in enumerate(text.splitlines(), 1) if line]
    lines, numbers = tuple(line for _, line in numbered), tuple(n for n, _ in numbered)
    paths = (
        _unescape_pattern(line[1:].strip().strip("/")) for line in lines if line.startswith("!")
    )
    opened = {f"{folder}/" for path in paths for folder in parent_folders(path)}
    try:
        spec = GitIgnoreSpec.from_lines(lines)
    except (ValueError, re.error):  # git ignores invalid patterns such as a[z-b]
        lines = tuple(line if _is_pattern(line) else "#" for line in lines)
        spec = GitIgnoreSpec.from_lines(lines)
    return _Rules(base, name, lines, numbers, spec, tuple(opened))


def line_for(path: str) -> str:
    """Return the line of an ignore file that includes this path again, and no other."""
    return "!/" + re.sub(r"[\\*?\[\] ]", r"\\\g<0>", path)


def _unescape_pattern(pattern: str) -> str:
    return re.sub(r"\\(.)", r"\1", pattern)


def _is_pattern(line: str) -> bool:
    from pathspec import GitIgnoreSpec

    try:
        GitIgnoreSpec.from_lines([line])
    except (ValueError, re.error):
        return False
    return True


def parent_folders(path: str) -> Iterator[str]:
    """Yield the folders above a relative path, the nearest first."""
    while path := posixpath.dirname(path):
        yield path


# --- links ---------------------------------------------------------------------------------------


def link_stays(path: str, target: str) -> bool:
    """Decide whether the symlink at `path` points to something inside the folder."""
    if posixpath.isabs(target):
        return False
    full = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    return full != ".." and not full.startswith("../")


# --- what is sent --------------------------------------------------------------------------------


@dataclass(frozen=True)
class ProjectFile:
    path: str
    size: int
    sha256: str
    executable: bool = False


@dataclass(frozen=True)
class Tree:
    """A folder by content: its name on hosts is the hash of all its content."""

    folders: tuple[str, ...]  # parents first
    files: tuple[ProjectFile, ...]
    links: tuple[tuple[str, str], ...] = ()  # path, target: relative, inside

    @cached_property
    def manifest(self) -> bytes:
        """The tree in the hosts' format; bytes of names that are not UTF-8 are escaped."""
        files = [[file.path, file.sha256, file.size, int(file.executable)] for file in self.files]
        document = {"folders": self.folders, "files": files, "links": self.links}
        return json.dumps(document, separators=(",", ":")).encode("ascii")

    @cached_property
    def key(self) -> str:
        return hashlib.sha256(self.manifest).hexdigest()

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files)


def is_large(count: int, size: int) -> bool:
    return count > MAX_FILES or size > MAX_BYTES


def amount_text(count: int, size: int) -> str:
    files = f"{count:,} {'file' if count == 1 else 'files'}"
    return f"{files}, {format_bytes(size)}"


def largest_entry(sizes: Iterable[tuple[str, int]]) -> str:
    """Return the top-level folder or file with most of the bytes, in words."""
    tops: dict[str, int] = {}
    for path, size in sizes:
        top, slash, _ = path.partition("/")
        tops[top + slash] = tops.get(top + slash, 0) + size
    name = max(tops, key=lambda top: tops[top])
    return f"{printable_path(name)} ({format_bytes(tops[name])})"


def printable_path(path: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in path)
