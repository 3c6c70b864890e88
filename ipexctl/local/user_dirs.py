"""The user's folders for cache, configuration and state: the XDG layout, on macOS too.

A relative path in an XDG variable is ignored, as the specification demands.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ipexctl.local.environment import environment


def cache_dir(environ: Mapping[str, str] | None = None) -> Path:
    """Raises RuntimeError where the user has no home, like those below."""
    return xdg_dir("XDG_CACHE_HOME", ".cache", environ) / "ipexctl"


def config_dir(environ: Mapping[str, str] | None = None) -> Path:
    return xdg_dir("XDG_CONFIG_HOME", ".config", environ) / "ipexctl"


def state_dir() -> Path:
    return xdg_dir("XDG_STATE_HOME", ".local/state") / "ipexctl"


def xdg_dir(variable: str, default: str, environ: Mapping[str, str] | None = None) -> Path:
    """For files of other programs, too."""
    named = (environment() if environ is None else environ).get(variable, "")
    return Path(named) if named.startswith("/") else Path.home() / default
