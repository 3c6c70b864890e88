"""What the names of a play stand for, host by host."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ipexctl.core.inventory.located_errors import Bad
from ipexctl.core.inventory.yaml_nodes import Mapping as MappingNode
from ipexctl.core.inventory.yaml_nodes import Node, Scalar
from ipexctl.core.inventory.yaml_nodes import Sequence as SequenceNode
from ipexctl.core.model import Facts, Host, Place
from ipexctl.core.plays.fact_values import NAMES, fact_values
from ipexctl.core.plays.interpolation import Scope, expanded, names_in
from ipexctl.core.plays.play_values import Play
from ipexctl.local.environment import environment


def read_names(play: Play) -> set[str]:
    """The variables that are declared, or stand anywhere in a step or a condition."""
    nodes = [node for step in play.all_steps for node in (step.node, step.when) if node]
    conditions = [step.when for step in play.all_steps if isinstance(step.when, MappingNode)]
    texts = [text for node in nodes for text in _texts(node)]
    found = {name for text in texts if "${" in text for name, _ in names_in(text)}
    return found | set(play.vars) | {key.text for node in conditions for key, _ in node.items}


def _texts(node: Node) -> Iterator[str]:
    if isinstance(node, Scalar):
        yield node.text
    elif isinstance(node, SequenceNode):
        for item in node.items:
            yield from _texts(item)
    else:
        for _, value in node.items:
            yield from _texts(value)


@dataclass
class PlayScope:
    """Variables: -e, then the host's, then the play's. Facts once they are known."""

    play: Play
    extra: Mapping[str, str]
    facts: dict[str, Facts] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        here = environment()
        self._around = {
            f"{kind}.{name}": value for name, value in here.items() for kind in ("env", "secret")
        }

    def on(self, host: Host) -> Scope:
        facts = self.facts.get(host.name)
        given = {**dict(host.vars), **self.extra, "host": host.name}
        values = {**(fact_values(facts) if facts else {}), **given}
        pending = set() if facts else set(NAMES)
        for name, (text, place) in self.play.vars.items():
            if name not in given:
                self._add_variable(name, text, place, values, pending)
        return Scope(ChainMap(values, self._around), tuple(NAMES), frozenset(pending), self.used)

    def _add_variable(
        self, name: str, text: str, place: Place, values: dict[str, str], pending: set[str]
    ) -> None:
        """It may name facts, the environment, and variables that stand before it."""
        scope = Scope(ChainMap(values, self._around), tuple(NAMES), frozenset(pending), self.used)
        try:
            value = expanded(text, scope)
        except Bad as e:
            raise e.placed(place) from None
        if value is None:
            pending.add(name)
        else:
            values[name] = value

    def names(self, hosts: Iterable[Host]) -> set[str]:
        """Variables that at least one host has."""
        return {*self.extra, *self.play.vars, *(n for host in hosts for n, _ in host.vars)}

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that no output may have. Longer ones first: one may be a part of another."""
        names = [name for name in self.used if name.startswith("secret.")]
        found = {self._around[name] for name in names if self._around.get(name)}
        return tuple(sorted(found, key=len, reverse=True))

    def masked(self, text: str) -> str:
        for value in self.secrets:
            text = text.replace(value, "********")
        return text
