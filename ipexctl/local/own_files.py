"""The files that ipexctl keeps locally, by kind, and removing them. Links are not followed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from ipexctl.errors import NotHere, reason_of
from ipexctl.local.user_dirs import cache_dir, config_dir, state_dir
from ipexctl.quick_dataclass import dataclass

# removed only if the user names it: made by hand, or impossible to make again
ASKED = ("keys", "settings", "labs", "logs")
ACCEPTED = "accepted.json"


@dataclass(frozen=True)
class OwnFiles:
    """Files of one kind. `is_removed`: they go even if the user does not name them."""

    kind: str
    what: str
    paths: tuple[Path, ...]
    bytes: int

    @property
    def is_removed(self) -> bool:
        return self.kind not in ASKED


def kept_here(dead_labs: Callable[[], Iterable[Path]]) -> tuple[OwnFiles, ...]:
    """Return the kinds that exist. Raises NotHere if others can write to the folders."""
    cache, config, state = cache_dir(), config_dir(), state_dir()
    kinds = (
        (
            "cache",
            "downloaded wheels and data, hashes of your files, resolver cache",
            _existing(cache, "blobs", "pulled", "hashes", "resolve", "agents", "preflight.json"),
        ),
        (
            "results",
            "results of the last command, rates of networks, finished steps of plays",
            [*_existing(state, "plays"), *(p for p in state.glob("*.json") if p.name != ACCEPTED)],
        ),
        (
            "choices",
            "environments that a rollback or --use-env chose",
            _existing(state, "environments"),
        ),
        ("keys", "accepted host keys", _existing(state, "known_hosts")),
        (
            "settings",
            "config.toml and accepted project settings",
            [*_existing(config, "config.toml"), *_existing(state, ACCEPTED)],
        ),
        ("labs", "files of labs that are down", [*dead_labs()]),
        (
            "logs",
            "logs of runs that were started in folders of other users",
            _existing(state, "runs", ".gitignore"),
        ),
    )
    kept = (OwnFiles(kind, text, tuple(paths), _total_size(paths)) for kind, text, paths in kinds)
    return tuple(files for files in kept if files.paths)


def remove_own_files(kinds: Iterable[OwnFiles]) -> None:
    for path in (path for files in kinds for path in files.paths):
        try:
            if path.is_symlink() or not path.is_dir():
                path.unlink(missing_ok=True)
            else:
                shutil.rmtree(path)
        except OSError as e:
            raise NotHere(
                f"cannot remove {path}", why=reason_of(e), slug="file-not-removed"
            ) from None
    state = state_dir()
    for folder in (state / "labs", state, cache_dir(), config_dir()):
        if not folder.is_symlink() and folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def _existing(folder: Path, *names: str) -> list[Path]:
    return [folder / name for name in names if os.path.lexists(folder / name)]


def _total_size(paths: Iterable[Path]) -> int:
    files = (file for path in paths for file in (path, *_paths_below(path)))
    return sum(file.lstat().st_size for file in files if file.is_file() and not file.is_symlink())


def _paths_below(path: Path) -> Iterator[Path]:
    if not path.is_symlink() and path.is_dir():
        for folder, _, names in os.walk(path):
            yield from (Path(folder, name) for name in names)
