"""Parse the text of a hostfile in any format to an Inventory.

One host per line (hostfile_lines.py), Ansible's INI (ansible_ini.py), our YAML and Ansible's
(yaml_files.py). hostfile_formats.py writes hostfiles.
"""

from __future__ import annotations

import re

from ipexctl.errors import InputError
from ipexctl.inventory.hostfile_lines import COMMAND_LINE, number_lines, parse_items, parse_lines
from ipexctl.inventory.inventory import Host, Inventory
from ipexctl.inventory.nodeset import fold

__all__ = ["COMMAND_LINE", "fold", "parse_hostfile", "parse_hosts", "this_machine"]

MAX_TEXT = 4 << 20
_YAML_NAMES = (".yaml", ".yml", ".json")
_OPENING = re.compile(r"---|- |\{|(?:all|hosts|groups|ungrouped)[ \t]*:(?:[ \t]|$)")
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*[ \t]*:[ \t]*(?:#.*)?")


def parse_hostfile(text: str, source: str) -> Inventory:
    """Parse a file in any format. Raises InputError with file, line and column."""
    text = text.removeprefix("\ufeff")
    if len(text) > MAX_TEXT:
        raise InputError(
            f"{source} is larger than {MAX_TEXT >> 20} MiB, too long for a hostfile",
            slug="hostfile-too-large",
        )
    if text.startswith("#!"):
        raise InputError(
            f"{source} is a program that prints an inventory, not a list of hosts",
            hint=f"ansible-inventory -i {source} --list --yaml > hosts.yaml",
            slug="hostfile-is-program",
        )
    if source.lower().endswith(_YAML_NAMES) or _looks_like_yaml(text):
        from ipexctl.inventory.yaml_files import parse_yaml

        return parse_yaml(text, source)
    if "[" not in text:  # neither a section nor a range of hosts
        return parse_lines(text, source)
    from ipexctl.inventory.ansible_ini import is_ini, parse_ini

    return parse_ini(text, source) if is_ini(text) else parse_lines(text, source)


def parse_hosts(items: tuple[str, ...]) -> Inventory:
    """Parse hosts of the command line: each item is `a` or `a,b:2,user@c:2222`."""
    return parse_items(items, COMMAND_LINE)


def this_machine() -> Inventory:
    return Inventory((Host("localhost", local=True),), "this machine")


def _looks_like_yaml(text: str) -> bool:
    """Detect YAML: by its first line, or a key with something indented below."""
    lines = (line.rstrip() for _, line in number_lines(text[:65536]))
    first_lines = [line for line in lines if line and not line.lstrip().startswith("#")][:2]
    if not first_lines:
        return False
    if _OPENING.match(first_lines[0]):
        return True
    indented = len(first_lines) > 1 and first_lines[1].startswith(" ")
    return indented and bool(_KEY.fullmatch(first_lines[0]))
