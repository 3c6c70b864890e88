"""Read this user's Accelerate config, or one that is named."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ipexctl.base.yaml_nodes import MAX_TEXT
from ipexctl.errors import InputError, reason_of
from ipexctl.inventory.text_encoding import decode_text
from ipexctl.local.bounded_read import read_file
from ipexctl.local.shipped_tables import accelerate_keys
from ipexctl.user_code.launchers.accelerate_config import read_config
from ipexctl.user_code.launchers.line_request import Given, LineRequest

NAMES = ("default_config.yaml", "default_config.json")


def find_accelerate_file(environ: Mapping[str, str]) -> Path | None:
    """Return the config that `accelerate launch` uses if none is named."""
    cache = environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = environ.get("HF_HOME") or f"{cache}/huggingface"
    folder = Path(home).expanduser() / "accelerate"
    return next((folder / name for name in NAMES if os.path.isfile(folder / name)), None)


def read_accelerate_file(path: Path) -> LineRequest:
    """Read a config. Raise InputError, also for an unsupported key, with its place."""
    try:
        data = read_file(path, MAX_TEXT)
    except (OSError, ValueError) as e:
        raise InputError(
            f"cannot read the Accelerate config {path}",
            why=reason_of(e),
            hint="accelerate config --config_file FILE   # writes one",
            slug="accelerate-config-unreadable",
        ) from None
    request = read_config(decode_text(data, str(path)), str(path), accelerate_keys())
    return replace(request, given=tuple(map(_at_home, request.given)))


def _at_home(argument: Given) -> Given:
    """Expand the path of a hostfile below the user's home."""
    in_home = argument.flag.becomes == "hostfile" and argument.value.startswith("~/")
    return replace(argument, value=str(Path(argument.value).expanduser())) if in_home else argument
