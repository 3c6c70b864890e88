"""Ansible's INI inventories: [group], [group:children], [group:vars]."""

from __future__ import annotations

import re

from ipexctl.base.located_errors import Bad, did_you_mean, locate_errors
from ipexctl.base.place import Place
from ipexctl.inventory.host_address import parse_address
from ipexctl.inventory.host_variables import Value
from ipexctl.inventory.hostfile_lines import (
    HostfileLine,
    line_options,
    number_lines,
    split_line,
    unquote_value,
)
from ipexctl.inventory.inventory import Host, Inventory
from ipexctl.inventory.nodeset import is_range
from ipexctl.inventory.precedence import Draft

_SECTION = re.compile(
    r"[ \t]*\[([A-Za-z0-9_][\w.-]*)(?::([A-Za-z]*))?\][ \t]*(?:[#;].*)?", re.ASCII
)
_KINDS = ("hosts", "children", "vars")
_VARIABLE = re.compile(r"[ \t]*([A-Za-z_][A-Za-z0-9_-]*)[ \t]*=[ \t]*(.*?)[ \t]*")
_QUOTED = re.compile(r"""('[^']*'|"(?:[^"\\]|\\.)*")[ \t]*\#.*""")


def is_ini(text: str) -> bool:
    return any(_match_section(line) for _, line in number_lines(text))


def parse_ini(text: str, source: str) -> Inventory:
    draft = Draft(source)
    name, kind = "ungrouped", "hosts"
    for number, raw in number_lines(text):
        place = Place(source, number, len(raw) - len(raw.lstrip(" \t")) + 1)
        section = _match_section(raw)
        if section:
            name, kind = section[1], _section_kind(section[2], place)
            draft.group(name, place, defined=kind != "vars")
        elif raw.lstrip(" \t").startswith(";"):
            continue
        elif kind == "vars":
            _add_variable(draft, name, raw, place)
        elif kind == "children":
            _add_child(draft, name, split_line(raw, number, source))
        else:
            _add_host(draft, name, split_line(raw, number, source))
    _refuse_vars_of_nothing(draft)
    return draft.finish()


def _match_section(line: str) -> re.Match[str] | None:
    """Match a [section] line; not an address or a range in brackets, which name hosts."""
    match = _SECTION.fullmatch(line)
    name = match[1] if match else ""
    if name[:1].isdigit() and (is_range(name) or not name.strip(".-0123456789")):
        return None
    return match


def _section_kind(text: str | None, place: Place) -> str:
    if text is not None and text not in _KINDS:
        message = f"{text!r} is not a kind of section{did_you_mean(text, _KINDS)}"
        raise Bad(
            message, hint="[GROUP], [GROUP:children] or [GROUP:vars]", slug="unknown-section-kind"
        ).placed(place)
    return text or "hosts"


def _add_variable(draft: Draft, name: str, raw: str, place: Place) -> None:
    if not raw.strip(" \t") or raw.lstrip(" \t").startswith("#"):
        return
    match = _VARIABLE.fullmatch(raw)
    if not match:
        raise Bad(f"expected NAME=VALUE in [{name}:vars]", slug="group-variable-syntax").placed(
            place
        )
    quoted = _QUOTED.fullmatch(match[2])
    text = quoted[1] if quoted else match[2]
    if not text.startswith(("'", '"')):
        text = text.partition(" #")[0].rstrip()
    draft.groups[name].values[match[1]] = Value(unquote_value(text), place)


def _add_child(draft: Draft, name: str, line: HostfileLine) -> None:
    for i, (word, column) in enumerate(line.words):
        if i:
            raise Bad("one group per line", slug="several-groups-on-line").placed(
                line.place(column)
            )
        draft.add_child(name, word, line.place(column))


def _add_host(draft: Draft, name: str, line: HostfileLine) -> None:
    if not line.words:
        return
    text, column = line.words[0]
    place = line.place(column)
    with locate_errors(place):
        hosts = parse_address(text)
    _refuse_slots(hosts[0], text, place)
    values = dict(line_options(line))
    draft.add_hosts(name, [Host(h.name, h.user, h.port, place=place) for h in hosts], values)


def _refuse_slots(host: Host, text: str, place: Place) -> None:
    """Refuse host:N, a port to Ansible and slots to all MPIs: a guess would be wrong for one."""
    if host.slots:
        name = text.rpartition(":")[0]
        raise Bad(
            f"{text} may be a port or a number of ranks",
            why="in a file with [groups] host:N is a port to Ansible, and slots to MPI",
            hint=f"{name} ansible_port={host.slots}   an SSH port\n"
            f"{name} slots={host.slots}          number of ranks",
            slug="port-or-slots",
        ).placed(place)


def _refuse_vars_of_nothing(draft: Draft) -> None:
    for name, group in draft.groups.items():
        if not group.defined and name not in ("all", "ungrouped"):
            names = [n for n, other in draft.groups.items() if other.defined]
            message = f"variables for an undefined group: {name!r}{did_you_mean(name, names)}"
            raise Bad(message, slug="group-undefined").placed(group.place)
