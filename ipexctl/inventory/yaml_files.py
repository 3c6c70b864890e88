"""YAML inventories: our own (hosts, groups, vars) and Ansible's (all, children, hosts, vars).

Ours is like Ansible's group `all`, with `groups` for `children`. It is read strictly; an Ansible
inventory has many variables that ipexctl does not use.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ipexctl.base.located_errors import Bad, did_you_mean, locate_errors
from ipexctl.base.place import Place
from ipexctl.base.yaml_nodes import Mapping, Node, Scalar, Sequence, read_yaml
from ipexctl.inventory.host_address import parse_address
from ipexctl.inventory.host_variables import Value
from ipexctl.inventory.inventory import Host, Inventory
from ipexctl.inventory.precedence import ROOT_GROUPS, Draft, Values

_KEYS = ("hosts", "groups", "children", "vars")
_OURS = ("hosts", "groups", "vars")
_HINT = "ipexctl's keys: hosts, groups, vars\nAnsible's keys: all, then children, hosts, vars"


def parse_yaml(text: str, source: str) -> Inventory:
    root = read_yaml(text, source)
    _refuse_tag(root)
    if isinstance(root, Sequence):
        draft = Draft(source, strict=True)
        _read_hosts(draft, "all", root)
        return draft.finish()
    if not isinstance(root, Mapping):
        raise Bad("this is not an inventory", hint=_HINT, slug="not-an-inventory").placed(
            root.place
        )
    draft = Draft(source, strict=bool(root.keys() & set(_KEYS)))
    if draft.strict:
        _read_group(draft, "all", root, root.place)
    else:
        for key, value in root.items:
            _read_top_level(draft, key, value)
    return draft.finish()


def _read_top_level(draft: Draft, key: Scalar, value: Node) -> None:
    guess = did_you_mean(key.text, _OURS)
    empty = isinstance(value, Scalar) and value.null
    strange = isinstance(value, Mapping) and guess and not value.keys() & set(_KEYS)
    if strange or not (empty or isinstance(value, Mapping)):
        raise Bad(f"{key.text!r} is not a group{guess}", hint=_HINT, slug="not-a-group").placed(
            key.place
        )
    _read_group(draft, key.text, value, key.place)


def _read_group(draft: Draft, name: str, node: Node, place: Place) -> None:
    group = draft.group(name, place)
    _refuse_tag(node)
    if isinstance(node, Scalar) and node.null:
        return
    if not isinstance(node, Mapping):
        _read_hosts(draft, name, node)
        return
    for key, value in node.items:
        if key.text not in _KEYS:
            message = f"unknown key {key.text!r} in group {name}{did_you_mean(key.text, _KEYS)}"
            raise Bad(
                message, hint="a group has hosts, children and vars", slug="unknown-group-key"
            ).placed(key.place)
        if key.text == "hosts":
            _read_hosts(draft, name, value)
        elif key.text == "vars":
            group.values.update(_read_variables(value))
        else:
            _read_children(draft, name, value)


def _read_children(draft: Draft, name: str, node: Node) -> None:
    for key, value in _mapping_entries(node, "groups"):
        if name not in ROOT_GROUPS:
            draft.add_child(name, key.text, key.place)
        elif key.text == "all":
            raise Bad("'all' cannot be inside another group", slug="group-inside-itself").placed(
                key.place
            )
        _read_group(draft, key.text, value, key.place)


def _read_hosts(draft: Draft, group: str, node: Node) -> None:
    _refuse_tag(node)
    if isinstance(node, Sequence):
        for item in node.items:
            _read_host_item(draft, group, item)
    elif isinstance(node, Mapping):
        for key, value in node.items:
            draft.add_hosts(group, _read_host_name(key), _read_variables(value))
    elif not node.null:
        draft.add_hosts(group, _read_host_name(node), {})


def _read_host_item(draft: Draft, group: str, item: Node) -> None:
    """Read `- node1`, or `- {name: node1, slots: 4}`."""
    if isinstance(item, Scalar):
        _refuse_again(draft, group, item)
        draft.add_hosts(group, _read_host_name(item), {})
        return
    name = item.get("name") if isinstance(item, Mapping) else None
    if not isinstance(item, Mapping) or not isinstance(name, Scalar):
        message = "a host is a name, or a mapping with a name"
        raise Bad(
            message, hint="- node1\n- {name: node2, slots: 4}", slug="wrong-yaml-shape"
        ).placed(item.place)
    _refuse_again(draft, group, name)
    values = {key: value for key, value in _read_variables(item).items() if key != "name"}
    draft.add_hosts(group, _read_host_name(name), values)


def _refuse_again(draft: Draft, group: str, name: Scalar) -> None:
    """Refuse a host listed twice; a group may name a host that is also listed elsewhere."""
    if group in ROOT_GROUPS and name.text.lower() in draft.hosts:
        raise Bad(f"{name.text!r} is listed twice", slug="host-listed-twice").placed(name.place)


def _read_host_name(name: Scalar) -> list[Host]:
    _refuse_tag(name)
    with locate_errors(name.place):
        hosts = parse_address(name.text)
    return [replace(host, place=name.place) for host in hosts]


def _read_variables(node: Node) -> Values:
    return {key.text: _read_value(value) for key, value in _mapping_entries(node, "variables")}


def _read_value(node: Node) -> Value:
    if node.tag:
        return Value(None, node.place, odd=_describe_tag(node.tag))
    if not isinstance(node, Scalar):
        return Value(None, node.place)
    return Value("" if node.null else node.text, node.place)


def _mapping_entries(node: Node, subject: str) -> Iterator[tuple[Scalar, Node]]:
    _refuse_tag(node)
    if isinstance(node, Mapping):
        yield from node.items
    elif not isinstance(node, Scalar) or not node.null:
        raise Bad(f"{subject} must be a mapping of NAME: VALUE", slug="wrong-yaml-shape").placed(
            node.place
        )


def _refuse_tag(node: Node) -> None:
    if node.tag:
        raise Bad(_describe_tag(node.tag), slug="unknown-yaml-tag").placed(node.place)


def _describe_tag(tag: str) -> str:
    if tag == "!vault":
        return "this value is encrypted with ansible-vault, which ipexctl cannot decrypt"
    return f"unsupported YAML tag {tag[:40]}"
