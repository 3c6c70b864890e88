"""The values of a play's names on each host."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field

from ipexctl.base.located_errors import Bad
from ipexctl.base.place import Place
from ipexctl.base.yaml_nodes import Mapping as MappingNode
from ipexctl.base.yaml_nodes import Node, Scalar
from ipexctl.facts.facts import Facts
from ipexctl.inventory.hostfile_text import fold
from ipexctl.inventory.inventory import Host
from ipexctl.local.environment import environment
from ipexctl.play.text.fact_values import NAMES, fact_values
from ipexctl.play.text.interpolation import Scope, interpolate_text
from ipexctl.play.text.play_values import Play
from ipexctl.quick_dataclass import dataclass


def _item_variables(item: Node | None) -> Iterator[tuple[str, Scalar]]:
    if isinstance(item, Scalar):
        yield "item", item
    elif isinstance(item, MappingNode):
        for key, value in item.items:
            if isinstance(value, Scalar):
                yield f"item.{key.text}", value


@dataclass
class PlayScope:
    """Variables: the loop's item, -e, the host's, the play's; facts once they are known."""

    play: Play
    extra: Mapping[str, str]
    facts: dict[str, Facts] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    hosts: tuple[Host, ...] = ()  # of the play, to report which of them has a variable

    def __post_init__(self) -> None:
        env = environment()
        self._around = {
            f"{kind}.{name}": value for name, value in env.items() for kind in ("env", "secret")
        }

    def scope_on(self, host: Host, item: Node | None = None) -> Scope:
        """Return the scope of a host. `item`: the item of the step's loop."""
        facts = self.facts.get(host.name)
        play_vars: dict[str, str] = {}
        items: dict[str, str] = {}
        values = ChainMap(
            items,
            {"host": host.name},
            dict(self.extra),
            dict(host.vars),
            play_vars,
            fact_values(facts) if facts else {},
            self._around,
        )
        scope = Scope(
            values, tuple(NAMES), set() if facts else set(NAMES), self.used, self._variable_owners()
        )
        for name, (text, place) in self.play.vars.items():
            self._set_variable(play_vars, scope, name, text, place)
        for name, node in _item_variables(item):
            self._set_variable(items, scope, name, node.text, node.place)
        return scope

    def _set_variable(
        self, into: dict[str, str], scope: Scope, name: str, text: str, place: Place
    ) -> None:
        """Set a variable of the play, which may use those above it."""
        try:
            value = interpolate_text(text, scope)
        except Bad as e:
            later = any(f"${{{other}}}" in text for other in self.play.vars if other not in into)
            e.what = f"{name}: {e.what}"
            e.why = "a variable may use those above it" if later else e.why
            raise e.placed(place) from None
        if value is None:
            scope.pending.add(name)
        else:
            into[name] = value

    def _variable_owners(self) -> dict[str, str]:
        names = {name for host in self.hosts for name, _ in host.vars}
        return {n: fold(h.name for h in self.hosts if n in dict(h.vars)) for n in names}

    def variable_names(self, hosts: Iterable[Host]) -> set[str]:
        """Return the variables that at least one host has."""
        return {*self.extra, *self.play.vars, *(name for host in hosts for name, _ in host.vars)}

    def mask_text(self, text: str) -> str:
        return Scope(self._around, used=self.used).mask_text(text)
