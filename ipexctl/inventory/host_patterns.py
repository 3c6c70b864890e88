"""--limit and -x: patterns over the hosts of an inventory, in Ansible's syntax.

all  node3  node[1-4]  node0*  web (a group)  @web (only the group)  @healthy  @last-failed
a,b or a:b   both;   a:&b   those in both;   a:!b   a without b
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from ipexctl.base.located_errors import Bad, ask_if_meant, nearest_word
from ipexctl.errors import InputError
from ipexctl.inventory.hostfile_formats import group_members
from ipexctl.inventory.inventory import Inventory
from ipexctl.inventory.nodeset import compile_wildcard, expand_names, fold, split_outside_brackets

_EVERYTHING = ("all", "*", "@all")

Known = Mapping[str, frozenset[str] | None]  # @NAME -> hosts; None: nothing is known


def select_hosts(
    inventory: Inventory,
    limit: Iterable[str],
    exclude: Iterable[str] = (),
    known: Known | None = None,
    *,
    option: str = "",
) -> Inventory:
    """Return the selected hosts, in inventory order. Raises InputError if there is none.

    `option`: the option that the patterns come from, if not --limit and -x.
    """
    finder = _Finder(inventory, known or {})
    names = finder.find(limit, option or "--limit") - finder.without(exclude)
    hosts = tuple(host for host in inventory.hosts if host.name in names)
    if not hosts:
        subject = f"{option} selects" if option else "--limit and -x select"
        raise InputError(
            f"{subject} no host in {inventory.source}", hint=finder.hint, slug="no-host-selected"
        )
    return replace(inventory, hosts=hosts)


def same_numbers(name: str, other: str) -> bool:
    """Return whether one may be a misspelling of the other: node3 may be one of node03, node05 is
    not."""
    mine, others = ([n.lstrip("0") for n in re.findall(r"\d+", text)] for text in (name, other))
    return mine == others


class _Finder:
    def __init__(self, inventory: Inventory, known: Known) -> None:
        self._names = {host.name.lower(): host.name for host in inventory.hosts}
        self._groups = {g: frozenset(names) for g, names in group_members(inventory).items()}
        ungrouped = frozenset(host.name for host in inventory.hosts if not host.groups)
        self._groups.setdefault("ungrouped", ungrouped)
        self._known = known
        self._source = inventory.source
        self._places = {host.name.lower(): host.place for host in inventory.hosts}
        hosts = fold(host.name for host in inventory.hosts)
        groups = ", ".join(f"@{g}" for g in [*group_members(inventory), *known][:20])
        self.hint = f"available hosts: {hosts if len(hosts) < 400 else hosts[:400] + ' ...'}"
        self.hint += f"\navailable groups: {groups}" if groups else ""

    def find(self, patterns: Iterable[str], option: str) -> frozenset[str]:
        """Return the hosts in any order of patterns: all names, then those with &, then with !."""
        texts = list(patterns)
        items = [part for pattern in texts for part in self._split_pattern(pattern)]
        if texts and not items:  # an unset shell variable must not mean all hosts
            raise InputError(f"{option} is empty", hint=self.hint, slug="pattern-empty")
        all_hosts = frozenset(self._names.values())
        host_sets = [self._find_hosts(part) for part in items if not part.startswith(("!", "&"))]
        selected = frozenset[str]().union(*host_sets) if host_sets else all_hosts
        for item in items:
            selected = selected & self._find_hosts(item[1:]) if item.startswith("&") else selected
        for item in items:
            selected = selected - self._find_hosts(item[1:]) if item.startswith("!") else selected
        return selected

    def without(self, patterns: Iterable[str]) -> frozenset[str]:
        """Return excluded hosts; no patterns: none, but an empty --limit selects all."""
        texts = [pattern for pattern in patterns if pattern.strip(" ,")]
        return self.find(texts, "-x") if texts else frozenset()

    def _split_pattern(self, pattern: str) -> list[str]:
        """Split at commas, then at colons, except in an IPv6 address."""
        items = []
        for piece in (text.strip() for text, _ in split_outside_brackets(pattern, ",")):
            name = piece.lstrip("!&").strip("[]")
            is_address = name.lower() in self._names and name.count(":") > 1
            pieces = (
                [piece]
                if is_address
                else [text.strip() for text, _ in split_outside_brackets(piece, ":")]
            )
            items += [part for part in pieces if part]
        return items

    def _find_hosts(self, item: str) -> frozenset[str]:
        """Return the hosts of one item: all, @GROUP, a name or a pattern."""
        name = item.strip("[]") if item.count(":") > 1 else item
        if item in _EVERYTHING:
            return frozenset(self._names.values())
        if item.startswith("@"):
            return self._find_group(item[1:])
        if name.lower() in self._names and item not in self._groups:
            return frozenset([self._names[name.lower()]])
        return self._find_matching(item, hosts=True)

    def _find_group(self, name: str) -> frozenset[str]:
        if name not in self._known:
            return self._find_matching(name, hosts=False)
        hosts = self._known[name]
        if hosts is None:
            raise InputError(
                f"@{name}: these hosts have not been checked yet",
                hint="ipexctl doctor   # checks the hosts and remembers the result",
                slug="hosts-not-checked",
            )
        return hosts & frozenset(self._names.values())

    def _find_matching(self, item: str, *, hosts: bool) -> frozenset[str]:
        """Return matching hosts. `hosts`: names of hosts may match, too; a group comes first."""
        if item in self._groups:
            return self._groups[item]
        selected = frozenset[str]()
        for name in self._expand_item(item):
            host_sets = self._find_named(name, hosts=hosts)
            if not host_sets:
                raise self._no_match(name) if hosts else self._no_group(name)
            selected = selected.union(*host_sets)
        return selected

    def _find_named(self, name: str, *, hosts: bool) -> list[frozenset[str]]:
        """Return the groups and hosts of that name or pattern."""
        if name in self._groups:
            return [self._groups[name]]
        if not set(name) & set("*?"):
            host = self._names.get(name.lower()) if hosts else None
            return [frozenset([host])] if host else []
        matches = compile_wildcard(name.lower()).fullmatch
        groups = [members for group, members in self._groups.items() if matches(group.lower())]
        singles = frozenset(full for lower, full in self._names.items() if hosts and matches(lower))
        return [*groups, singles] if singles else groups

    def _expand_item(self, item: str) -> list[str]:
        try:
            return expand_names(item) if "[" in item or "]" in item else [item]
        except Bad as e:
            raise InputError(e.what, hint=e.hint or self.hint, slug=e.slug) from None

    def _no_group(self, name: str) -> InputError:
        near = nearest_word(name, [*self._groups, *self._known])
        return InputError(
            f"there is no group {name!r}{ask_if_meant(near)}", hint=self.hint, slug="unknown-group"
        ).with_meant(name, near)

    def _no_match(self, name: str) -> InputError:
        near = nearest_word(name, [*self._names, *self._groups])
        place = self._places.get(near)
        return InputError(
            f"no host or group in {self._source} matches {name!r}"
            + (f" (did you mean {near!r}?)" if near else ""),
            why=f"{place.source}:{place.line} has {near}" if place else "",
            hint=self.hint,
            slug="no-host-matches",
        ).with_meant(name, self._names.get(near, near) if same_numbers(name, near) else "")
