"""Read the tables of the installed package, each once; their readers are imported when needed."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ipexctl.explain.causes.causes import Cause
    from ipexctl.install.stack.version_table import StackRow
    from ipexctl.migrate.code.launcher_command import Tables
    from ipexctl.migrate.code.rules import Rules
    from ipexctl.run.output.metric_lines import Formats
    from ipexctl.user_code.launchers.accelerate_config import Keys
    from ipexctl.user_code.launchers.launcher_table import Launchers


@cache
def stack_rows() -> tuple[StackRow, ...]:
    from ipexctl.install.stack.version_table import parse_table

    return parse_table(_read_text("install/stack/stacks.toml"))


@cache
def known_failures() -> tuple[Cause, ...]:
    """Return the known failures, in the order of their page."""
    from ipexctl.explain.causes.causes import parse_causes

    return parse_causes(_read_text("explain/causes/causes.toml"))


@cache
def known_launchers() -> Launchers:
    from ipexctl.user_code.launchers.launcher_table import parse_launchers

    return parse_launchers(_read_text("user_code/launchers/launchers.toml"))


@cache
def accelerate_keys() -> Keys:
    from ipexctl.user_code.launchers.accelerate_config import parse_keys

    return parse_keys(_read_text("user_code/launchers/accelerate_keys.toml"))


@cache
def metric_formats() -> Formats:
    from ipexctl.run.output.metric_lines import parse_metric_formats

    return parse_metric_formats(_read_text("run/output/metric_formats.toml"))


@cache
def migration_rules() -> Rules:
    from ipexctl.migrate.code.rules import parse_rules

    return parse_rules(_read_text("migrate/code/rules.toml"))


def migration_tables() -> Tables:
    from ipexctl.migrate.code.launcher_command import Tables

    return Tables(migration_rules(), known_launchers(), accelerate_keys())


@cache
def rank_module(name: str) -> str:
    """Return the text of a module of ipexctl/in_ranks."""
    return _read_text(f"in_ranks/{name}.py")


def _read_text(path: str) -> str:
    return files("ipexctl").joinpath(path).read_text("utf-8")
