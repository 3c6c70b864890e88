"""The user's folders for cache, configuration and state: the XDG layout, on macOS too.

A relative path in an XDG variable is ignored, as the specification requires.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ipexctl.errors import NotHere
from ipexctl.local.environment import environment
from ipexctl.local.ownership import untrusted_above


def cache_dir(environ: Mapping[str, str] | None = None) -> Path:
    """Return the cache folder. Raises RuntimeError if the user has no home, like those below."""
    return xdg_dir("XDG_CACHE_HOME", ".cache", environ) / "ipexctl"


def config_dir(environ: Mapping[str, str] | None = None) -> Path:
    return xdg_dir("XDG_CONFIG_HOME", ".config", environ) / "ipexctl"


def state_dir() -> Path:
    """Return the folder of host keys and accepted settings; refused if others could replace it."""
    folder = xdg_dir("XDG_STATE_HOME", ".local/state") / "ipexctl"
    if why := untrusted_above(folder / "any file"):
        raise NotHere(
            f"the host keys in {folder} are ignored: {why}",
            why="others could replace the files there",
            hint=f"chmod go-w {folder}   # then check known_hosts there; or set XDG_STATE_HOME",
            slug="state-folder-untrusted",
        )
    return folder


def xdg_dir(variable: str, default: str, environ: Mapping[str, str] | None = None) -> Path:
    """Return the user's XDG folder, which other programs share."""
    folder = (environment() if environ is None else environ).get(variable, "")
    return Path(folder) if folder.startswith("/") else Path.home() / default


def make_private(folder: Path) -> None:
    """Create a folder and missing parents with mode 0700, regardless of the umask."""
    missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    for path in reversed(missing):
        path.mkdir(0o700, exist_ok=True)
