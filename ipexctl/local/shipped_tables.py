"""Read the tables of the installed package, each once; their readers are imported when needed."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ipexctl.stack.version_table import StackRow
    from ipexctl.user_code.launchers.accelerate_config import Keys
    from ipexctl.user_code.launchers.launcher_table import Launchers
    from ipexctl.user_code.migration_rules import Rules


@cache
def stack_rows() -> tuple[StackRow, ...]:
    from ipexctl.stack.version_table import parse_table

    return parse_table(read_package_file("stack/stacks.toml"))


@cache
def known_launchers() -> Launchers:
    from ipexctl.user_code.launchers.launcher_table import parse_launchers

    return parse_launchers(read_package_file("user_code/launchers/launchers.toml"))


@cache
def accelerate_keys() -> Keys:
    from ipexctl.user_code.launchers.accelerate_config import parse_keys

    return parse_keys(read_package_file("user_code/launchers/accelerate_keys.toml"))


@cache
def migration_rules() -> Rules:
    from ipexctl.user_code.migration_rules import parse_rules

    return parse_rules(read_package_file("user_code/migration_rules.toml"))


@cache
def rank_module(name: str) -> str:
    """Return the text of a module of ipexctl/in_ranks."""
    return read_package_file(f"in_ranks/{name}.py")


def read_package_file(path: str) -> str:
    return files("ipexctl").joinpath(path).read_text("utf-8")
