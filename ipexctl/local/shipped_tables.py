"""The tables of the installed package, each read once."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from ipexctl.core.known_failures.causes import Cause, parse
from ipexctl.core.migrate import rules
from ipexctl.core.migrate.launcher_command import Tables
from ipexctl.core.output.metric_lines import Formats
from ipexctl.core.output.metric_lines import parse as parse_formats
from ipexctl.core.pasted.accelerate_config import Keys, parse_keys
from ipexctl.core.pasted.launcher_table import Launchers
from ipexctl.core.pasted.launcher_table import parse as parse_launchers
from ipexctl.core.stack.version_table import Row, parse_table


@cache
def table() -> tuple[Row, ...]:
    return parse_table(_text("core/stack/stacks.toml"))


@cache
def failures() -> tuple[Cause, ...]:
    """In the order of docs/failures.md."""
    return parse(_text("core/known_failures/causes.toml"))


@cache
def launchers() -> Launchers:
    return parse_launchers(_text("core/pasted/launchers.toml"))


@cache
def accelerate_keys() -> Keys:
    return parse_keys(_text("core/pasted/accelerate_keys.toml"))


@cache
def metric_formats() -> Formats:
    return parse_formats(_text("core/output/metric_formats.toml"))


@cache
def migration_rules() -> rules.Rules:
    return rules.parse(_text("core/migrate/rules.toml"))


def migration_tables() -> Tables:
    return Tables(migration_rules(), launchers(), accelerate_keys())


def _text(path: str) -> str:
    return files("ipexctl").joinpath(path).read_text("utf-8")
