"""The tables of the installed package, each read once; a command imports the readers of its own."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ipexctl.core.known_failures.causes import Cause
    from ipexctl.core.migrate.launcher_command import Tables
    from ipexctl.core.migrate.rules import Rules
    from ipexctl.core.output.metric_lines import Formats
    from ipexctl.core.pasted.accelerate_config import Keys
    from ipexctl.core.pasted.launcher_table import Launchers
    from ipexctl.core.stack.version_table import Row


@cache
def table() -> tuple[Row, ...]:
    from ipexctl.core.stack.version_table import parse_table

    return parse_table(_text("core/stack/stacks.toml"))


@cache
def failures() -> tuple[Cause, ...]:
    """In the order of docs/failures.md."""
    from ipexctl.core.known_failures.causes import parse

    return parse(_text("core/known_failures/causes.toml"))


@cache
def launchers() -> Launchers:
    from ipexctl.core.pasted.launcher_table import parse

    return parse(_text("core/pasted/launchers.toml"))


@cache
def accelerate_keys() -> Keys:
    from ipexctl.core.pasted.accelerate_config import parse_keys

    return parse_keys(_text("core/pasted/accelerate_keys.toml"))


@cache
def metric_formats() -> Formats:
    from ipexctl.core.output.metric_lines import parse

    return parse(_text("core/output/metric_formats.toml"))


@cache
def migration_rules() -> Rules:
    from ipexctl.core.migrate.rules import parse

    return parse(_text("core/migrate/rules.toml"))


def migration_tables() -> Tables:
    from ipexctl.core.migrate.launcher_command import Tables

    return Tables(migration_rules(), launchers(), accelerate_keys())


def _text(path: str) -> str:
    return files("ipexctl").joinpath(path).read_text("utf-8")
