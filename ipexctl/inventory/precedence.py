"""Combine groups, hosts and variables to an Inventory, by Ansible's rules of precedence.

A host's variables precede those of its groups, a child group's its parent's, `all` is last.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import field, replace

from ipexctl.base.located_errors import Bad, did_you_mean
from ipexctl.base.place import Place
from ipexctl.errors import InputError
from ipexctl.inventory.host_variables import KNOWN, Value, apply_variables, field_of
from ipexctl.inventory.hostfile_lines import check_count, no_hosts
from ipexctl.inventory.inventory import Host, Inventory
from ipexctl.inventory.nodeset import fold
from ipexctl.quick_dataclass import dataclass

ROOT_GROUPS = ("all", "ungrouped")
_GROUP = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
Values = dict[str, Value]


@dataclass
class _Group:
    place: Place
    defined: bool = False
    values: Values = field(default_factory=dict)
    hosts: dict[str, None] = field(default_factory=dict)
    children: dict[str, Place] = field(default_factory=dict)


@dataclass
class Draft:
    """Filled by a reader, then `finish`ed. `strict` refuses unknown variables."""

    source: str
    strict: bool = False
    hosts: dict[str, tuple[Host, Values]] = field(default_factory=dict)
    groups: dict[str, _Group] = field(default_factory=dict)

    def group(self, name: str, place: Place, *, defined: bool = True) -> _Group:
        if not _GROUP.fullmatch(name):
            raise Bad(f"{name!r} is not the name of a group", slug="not-a-group-name").placed(place)
        group = self.groups.setdefault(name, _Group(place))
        group.defined = group.defined or defined
        return group

    def add_child(self, name: str, child: str, place: Place) -> None:
        if child in ROOT_GROUPS:
            raise Bad(
                f"{child!r} cannot be inside another group", slug="group-inside-itself"
            ).placed(place)
        self.group(name, place).children.setdefault(child, place)

    def add_hosts(self, group: str, hosts: Iterable[Host], values: Values) -> None:
        """Add hosts to a group; a host that is already known gets further variables."""
        for host in hosts:
            key = host.name.lower()
            earlier, old = self.hosts.get(key, (host, {}))
            self.hosts[key] = (_merge_host(earlier, host), {**old, **values})
            if group not in ROOT_GROUPS:
                self.groups[group].hosts[key] = None
            check_count(len(self.hosts), self.source)

    def finish(self) -> Inventory:
        if not self.hosts:
            raise no_hosts(self.source)
        order = self._sort_parents_first()
        members = self._collect_members(order)
        unused: set[str] = set()
        inherited: dict[tuple[str, ...], Values] = {}
        hosts = []
        for key, (host, own_values) in self.hosts.items():
            groups = tuple(name for name in order if key in members[name])
            if groups not in inherited:
                inherited[groups] = self._collect_inherited(groups)
            values = _nearest_variables(host, inherited[groups], own_values)
            full, ignored = apply_variables(host, values, strict=self.strict)
            hosts.append(replace(full, groups=tuple(sorted(groups))))
            unused |= ignored
        return Inventory(
            tuple(hosts), self.source, _inventory_notes(hosts, unused, set(self.groups))
        )

    def _collect_inherited(self, groups: tuple[str, ...]) -> Values:
        """Return inherited variables, by field if they set one: several keys can set a field."""
        values: Values = {}
        for name in ("all", *(groups or ("ungrouped",))):
            group = self.groups.get(name)
            for key, value in group.values.items() if group else ():
                values[field_of(key) or key] = value
        return values

    def _sort_parents_first(self) -> list[str]:
        """Return groups by depth below `all`, then priority, then name: later ones win."""
        for group in self.groups.values():
            for child, place in group.children.items():
                if child not in self.groups or not self.groups[child].defined:
                    guess = did_you_mean(child, self.groups)
                    raise Bad(f"there is no group {child!r}{guess}", slug="unknown-group").placed(
                        place
                    )
        depth = {name: int(name != "all") for name in self.groups}  # below all, listed there or not
        waiting = dict.fromkeys(self.groups, 0)
        for group in self.groups.values():
            for child in group.children:
                waiting[child] += 1
        ready = [name for name, count in waiting.items() if not count]
        for name in ready:  # grows during the iteration
            for child in self.groups[name].children:
                depth[child] = max(depth[child], depth[name] + 1)
                waiting[child] -= 1
                if not waiting[child]:
                    ready.append(child)
        if len(ready) < len(self.groups):
            name = next(n for n, count in waiting.items() if count)
            raise Bad(f"the group {name!r} contains itself", slug="group-inside-itself").placed(
                self.groups[name].place
            )
        return sorted(
            (n for n in ready if n not in ROOT_GROUPS),
            key=lambda n: (depth[n], _group_priority(self.groups[n]), n),
        )

    def _collect_members(self, order: list[str]) -> dict[str, set[str]]:
        members: dict[str, set[str]] = {}
        for name in reversed(order):
            group = self.groups[name]
            members[name] = set(group.hosts).union(*(members[child] for child in group.children))
        return members


def _nearest_variables(host: Host, inherited: Values, own: Values) -> list[tuple[str, Value]]:
    """Return the host's own variables, then its groups' that it does not set itself."""
    for key, value in own.items():
        if getattr(host, field_of(key) or "local"):
            raise Bad(
                f"{field_of(key)} is set twice for host {host.name!r}", slug="host-key-set-twice"
            ).placed(value.place)
    own_keys = {field_of(key) or key for key in own}
    own_keys |= {name for name in ("user", "port", "slots") if getattr(host, name)}
    return [*((k, v) for k, v in inherited.items() if k not in own_keys), *own.items()]


def _group_priority(group: _Group) -> int:
    value = group.values.get("ansible_group_priority")
    text = value.text if value and value.text else ""
    return int(text) if re.fullmatch("[0-9]{1,9}", text, re.ASCII) else 1


def _merge_host(host: Host, repeat: Host) -> Host:
    """Merge user, port and slots of one host named twice, which must not contradict each other."""
    for name in ("user", "port", "slots"):
        old, new = getattr(host, name), getattr(repeat, name)
        if old and new and old != new:
            raise InputError(
                f"{repeat.place}: {repeat.name} has another {name} at {host.place}",
                slug="host-differs",
            )
        host = replace(host, **{name: old or new})
    return host


def _inventory_notes(hosts: list[Host], unused: set[str], groups: set[str]) -> tuple[str, ...]:
    notes = []
    ssh = sorted(key for key in unused if key.startswith("ansible_"))
    if ssh:
        notes.append(f"not used, SSH is set up in ssh_config: {', '.join(ssh[:8])}")
    for name in sorted(unused.difference(ssh)):
        if guess := did_you_mean(name, KNOWN):
            notes.append(f"{name} is a variable for plays{guess}")
    for address, names in _shared_addresses(hosts).items():
        notes.append(f"{fold(names)} have the same address {address}")
    both = sorted(groups.intersection(host.name for host in hosts))
    if both:
        notes.append(f"both a host and a group: {', '.join(both)}; --limit means the group")
    return tuple(notes)


def _shared_addresses(hosts: list[Host]) -> dict[str, list[str]]:
    by_address: dict[tuple[str, int], list[str]] = {}
    for host in hosts:
        by_address.setdefault((host.address or host.name, host.port), []).append(host.name)
    return {address: names for (address, _), names in by_address.items() if len(names) > 1}
