"""The hosts of a play, and of each of its steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ipexctl.base.located_errors import Bad
from ipexctl.base.place import Place
from ipexctl.errors import InputError
from ipexctl.inventory.host_patterns import Known, select_hosts
from ipexctl.inventory.inventory import Host, Inventory
from ipexctl.local.last_outcome import last_states
from ipexctl.machines.target import Target, all_hosts, read_inventory
from ipexctl.play.text.play_values import Play, PlayStep
from ipexctl.quick_dataclass import dataclass


@dataclass(frozen=True)
class PlayHosts:
    """Hosts of a play. `on` maps the number of a step to the names of its hosts."""

    inventory: Inventory
    on: Mapping[int, frozenset[str]]

    def of(self, step: PlayStep) -> tuple[Host, ...]:
        names = self.on[step.number]
        return tuple(host for host in self.inventory.hosts if host.name in names)


def play_hosts(play: Play, target: Target) -> PlayHosts:
    """Return the hosts of the play. Raises InputError."""
    return of_inventory(play, read_inventory(target), all_hosts(target))


def of_inventory(play: Play, chosen: Inventory, full: Inventory) -> PlayHosts:
    """Select from the full inventory by the play's patterns, and narrow by --limit and -x."""
    states = last_states(full)
    hosts = chosen
    if play.hosts:
        named = _matching_names(full, play.hosts, states, "hosts", play.hosts_place)
        hosts = replace(chosen, hosts=tuple(host for host in chosen.hosts if host.name in named))
    if not hosts.hosts:
        raise InputError(
            f"{play.source}: --limit and -x select no host of this play",
            why=f"hosts: {play.hosts}",
            slug="no-host-selected",
        )
    all_names = frozenset(host.name for host in hosts.hosts)
    on = {
        step.number: all_names & _matching_names(full, step.on, states, "on", step.place)
        if step.on
        else all_names
        for step in play.all_steps
    }
    return PlayHosts(hosts, on)


def _matching_names(
    inventory: Inventory, pattern: str, states: Known, key: str, place: Place | None
) -> frozenset[str]:
    try:
        selected = select_hosts(inventory, (pattern,), (), states, option=key)
    except InputError as e:
        raise Bad(f"{key}: {e.what}", why=e.why, hint=e.hint, slug=e.slug).placed(place) from None
    return frozenset(host.name for host in selected.hosts)
