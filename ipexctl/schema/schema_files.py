"""The paths of the schemas, and the line with which editors use one."""

from __future__ import annotations

from pathlib import Path

LINES = {"settings": "#:schema {}", "play": "# yaml-language-server: $schema={}"}


def schema_file(name: str) -> Path:
    return Path(__file__).resolve().with_name(f"{name}.json")


def schema_line(name: str) -> str:
    """Return the line for files on this machine."""
    return LINES[name].format(schema_file(name).as_uri())
