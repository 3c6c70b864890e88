"""What of the user's folder goes to the hosts."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pathspec

from ipexctl.errors import InputError

# never sent, whatever the ignore files say: history, caches, other machines' environments, secrets
ALWAYS_LEFT = (
    ".git/", ".hg/", ".svn/", ".venv/", "venv/", "__pycache__/", "*.pyc", ".mypy_cache/",
    ".ruff_cache/", ".pytest_cache/", "node_modules/", ".ipexctl/", ".env", ".env.*", "*.pem",
    "*.key", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", ".ssh/", ".netrc", ".aws/",
)  # fmt: skip
MAX_FILES = 5000
MAX_BYTES = 100 * 1000 * 1000


@dataclass(frozen=True)
class File:
    """A file of the snapshot; `link` is a symlink's target, relative and inside the folder."""

    path: str
    size: int
    mode: int = 0o644
    link: str = ""


class Ignore:
    """Git's rules for the files named here, ours on top."""

    def __init__(self, texts: Iterable[str]) -> None:
        lines = [line for text in texts for line in text.splitlines()]
        self._user = pathspec.GitIgnoreSpec.from_lines(lines)
        self._ours = pathspec.GitIgnoreSpec.from_lines(ALWAYS_LEFT)

    def __call__(self, path: str, *, folder: bool = False) -> bool:
        path += "/" if folder else ""
        return self._ours.match_file(path) or self._user.match_file(path)


def link_stays(path: str, target: str) -> bool:
    """Would the symlink at `path` point to something inside the folder?"""
    if posixpath.isabs(target):
        return False
    full = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    return full != ".." and not full.startswith("../")


def check_size(files: Sequence[File], folder: str) -> None:
    total = sum(f.size for f in files)
    if len(files) > MAX_FILES or total > MAX_BYTES:
        largest = max(files, key=lambda f: f.size)
        raise InputError(
            f"{folder} holds {len(files)} files, {total / 1e6:.0f} MB: too much to send for a run",
            why=f"the largest is {largest.path} ({largest.size / 1e6:.0f} MB); "
            f"the limits are {MAX_FILES} files and {MAX_BYTES / 1e6:.0f} MB",
            hint="put what the run does not need into .ipexctlignore (the syntax of .gitignore)",
        )
