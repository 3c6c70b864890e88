"""An Accelerate config -> what it says about a run. accelerate_keys.toml has the keys."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ipexctl.base import toml, yaml_nodes
from ipexctl.base.located_errors import Bad, did_you_mean
from ipexctl.base.yaml_nodes import Mapping, Node, Scalar, read_yaml
from ipexctl.quick_dataclass import dataclass
from ipexctl.user_code.launchers.launcher_table import listed_values
from ipexctl.user_code.launchers.line_request import LineRequest, Refuse, raised

_TRUE = frozenset({"true", "yes", "on"})
_FALSE = frozenset({"false", "no", "off"})
_NUMBERS = frozenset({"ranks", "host-count"})


@dataclass(frozen=True)
class Key:
    """A key of a config; accelerate_keys.toml says what each field means."""

    key: str
    becomes: str
    default: tuple[str, ...] = ()
    value: str = ""
    as_: str = ""
    upper: bool = False
    why: str = ""
    type: str = ""
    until: str = ""


@dataclass(frozen=True)
class Keys:
    all: tuple[Key, ...]
    source: str

    @property
    def sections(self) -> frozenset[str]:
        return frozenset(one.key.partition(".")[0] for one in self.all if "." in one.key)

    def named(self, name: str) -> tuple[Key, ...]:
        section = name.partition(".")[0]
        return tuple(one for one in self.all if one.key in (name, f"{section}.*"))


def parse_keys(text: str) -> Keys:
    found = toml.loads(text)
    keys = []
    for raw in found["keys"]:
        fields = {"as_" if name == "as" else name: value for name, value in raw.items()}
        keys.append(Key(**{**fields, "default": tuple(raw.get("default", ()))}))
    return Keys(tuple(keys), found["source"])


def read_config(text: str, source: str, keys: Keys, refuse: Refuse = raised) -> LineRequest:
    """`refuse` gets each key that cannot hold here, with its place. Raises InputError."""
    root = read_yaml(text, source)
    if not isinstance(root, Mapping):
        raise Bad("this is not an Accelerate config", hint="accelerate config").placed(root.place)
    found = list[tuple[Key, str]]()
    for name, node in _flat(root, keys):
        try:
            found += _meant(name, node, keys)
        except Bad as e:
            refuse(e.placed(node.place), f"{name}: {_text(node)}")
    found, alone = _as_one_process(root, found)
    numbers = {key.becomes: int(value) for key, value in found if key.becomes in _NUMBERS}
    env = (
        key.as_ if "=" in key.as_ else f"{key.as_}={value.upper() if key.upper else value}"
        for key, value in found
        if key.becomes == "variable"
    )
    return LineRequest(
        source,
        n=numbers.get("ranks"),
        nodes=numbers.get("host-count"),
        hostfile=next((value for key, value in found if key.becomes == "hostfile"), ""),
        env=tuple(dict.fromkeys(env)),
        default_ppn=1,
        ignored=(
            *((f"{key.key}: {value}", key.why) for key, value in found if key.becomes == "ignored"),
            *alone,
        ),
        typed=tuple((key.becomes, f"{key.key.rpartition('.')[2]} {v}") for key, v in found),
    )


def _as_one_process(
    root: Mapping, found: list[tuple[Key, str]]
) -> tuple[list[tuple[Key, str]], list[tuple[str, str]]]:
    """With distributed_type NO Accelerate starts one, and these numbers are ignored."""
    if not any(k.text == "distributed_type" and _text(v) == "no" for k, v in root.items):
        return found, []
    more = [(k, v) for k, v in found if k.becomes in _NUMBERS and v != "1"]
    why = "with distributed_type: NO, Accelerate starts one process; -n N starts N ranks"
    ignored = [(f"{key.key}: {value}", why) for key, value in more]
    return [(k, "1" if (k, v) in more else v) for k, v in found], ignored


def _flat(root: Mapping, keys: Keys) -> Iterator[tuple[str, Scalar | Node]]:
    """section.key -> value; an empty section or list says nothing."""
    for key, value in root.items:
        if key.text in keys.sections and isinstance(value, Mapping):
            for inner, node in value.items:
                yield f"{key.text}.{inner.text}", node
        elif key.text in keys.sections and isinstance(value, Scalar) and value.null:
            continue
        else:
            yield key.text, value


def _meant(name: str, node: Node, keys: Keys) -> list[tuple[Key, str]]:
    """What the key becomes, and its value; nothing where that says nothing. Raises Bad."""
    entries = keys.named(name)
    value = _text(node)
    if not entries:
        known = [one.key for one in keys.all]
        raise Bad(
            f"unknown key {name}{did_you_mean(name, known)}",
            why="ipexctl interprets the keys of this file itself and does not know this one",
            hint="remove it, or use an option of ipexctl run   # full list: docs/pasted-lines.md",
        )
    if any(value in key.default for key in entries):
        return []
    for key in entries:
        if re.fullmatch(key.value or "(?s:.*)", value):
            if key.becomes == "refused":
                what = f"{name}: {value or 'a list or mapping'} is not supported here"
                raise Bad(what, why=key.why, hint=key.type)
            if key.becomes in _NUMBERS and not re.fullmatch("[1-9][0-9]{0,8}", value):
                raise Bad(f"{key.key}: {value}: expected a whole number of at least 1")
            return [(key, value)]
    taken = [key for key in entries if key.becomes != "refused"]
    listed = listed_values(text for key in taken for text in (*key.default, key.value) if text)
    why = f"supported values: {listed}" if listed else ""
    raise Bad(f"{name}: {value}: unknown value", why=why)


def _text(node: Node) -> str:
    """yes, no, or the text; "" for nothing."""
    if not isinstance(node, Scalar):
        return "" if isinstance(node, yaml_nodes.Sequence) and not node.items else "..."
    if node.null:
        return ""
    lower = node.text.lower()
    return "yes" if lower in _TRUE else "no" if lower in _FALSE else node.text
